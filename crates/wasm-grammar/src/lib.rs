//! Grammars for JavaScript: which tokens a member may draw next, where an answer is to be a JSON
//! document of a schema. The page fetches this module only for such an answer. Errors are of the
//! name `Settings`: they say what is wrong with the schema that the page has handed over.

#![cfg(target_family = "wasm")]

use conclave_grammar::GrammarError;
use wasm_bindgen::prelude::*;

/// Runs when the module is instantiated.
#[wasm_bindgen(start)]
pub fn start() {
    console_error_panic_hook::set_once();
}

/// Throws `Settings` for what is no schema, or can't be honoured.
#[wasm_bindgen]
pub fn check(schema: &str) -> Result<(), JsValue> {
    conclave_grammar::check(schema).map_err(thrown)
}

/// What a member's tokens show as; see `conclave_grammar::Vocabulary`.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Vocabulary {
    vocabulary: conclave_grammar::Vocabulary,
}

#[wasm_bindgen]
impl Vocabulary {
    /// Of what `Member.vocabulary` gives.
    #[wasm_bindgen(constructor)]
    pub fn new(written: &[u8]) -> Result<Vocabulary, JsValue> {
        let vocabulary = conclave_grammar::Vocabulary::read(written).map_err(thrown)?;
        Ok(Self { vocabulary })
    }

    /// A document of this schema, JSON text, of which nothing is written yet.
    pub fn document(&self, schema: &str) -> Result<Document, JsValue> {
        let document = self.vocabulary.document(schema).map_err(thrown)?;
        Ok(Document { document })
    }
}

/// A document as the members have accepted it; see `conclave_grammar::Document`.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Document {
    document: conclave_grammar::Document,
}

#[wasm_bindgen]
impl Document {
    /// Which tokens may follow the accepted text and `drawn`: a bit a token, and one more for the
    /// end.
    pub fn mask(&mut self, drawn: &[u32]) -> Result<Vec<u32>, JsValue> {
        self.document.mask(drawn).map_err(thrown)
    }

    /// Goes on behind a text that all members have accepted.
    pub fn accept(&mut self, text: &str) -> Result<(), JsValue> {
        self.document.accept(text).map_err(thrown)
    }
}

fn thrown(error: GrammarError) -> JsValue {
    let told = error.to_string();
    // A sentence, as all that the page shows.
    let mut letters = told.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    let sentence: String = first.into_iter().chain(letters).chain(['.']).collect();
    let error = js_sys::Error::new(&sentence);
    error.set_name("Settings");
    error.into()
}
