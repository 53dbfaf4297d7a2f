//! Grammars: the tokens that a member may draw next where an answer is to be a JSON document of a
//! schema. The page fetches this module for the first such answer. Errors have the
//! name `Settings` and describe the problem with the schema.

use conclave_grammar::GrammarError;
use wasm_bindgen::prelude::*;

/// Runs when the module is instantiated.
#[wasm_bindgen(start)]
pub fn start() {
    console_error_panic_hook::set_once();
}

/// Throws `Settings` for an invalid or unsupported schema.
#[wasm_bindgen]
pub fn check(schema: &str) -> Result<(), JsValue> {
    conclave_grammar::check(schema).map_err(thrown)
}

/// Token bytes of a member; see `conclave_grammar::Vocabulary`.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Vocabulary {
    vocabulary: conclave_grammar::Vocabulary,
}

#[wasm_bindgen]
impl Vocabulary {
    /// Parses the bytes of `Member.vocabulary`.
    #[wasm_bindgen(constructor)]
    pub fn new(written: &[u8]) -> Result<Self, JsValue> {
        let vocabulary = conclave_grammar::Vocabulary::read(written).map_err(thrown)?;
        Ok(Self { vocabulary })
    }

    /// Begins a document of a schema (JSON text).
    pub fn document(&self, schema: &str) -> Result<Document, JsValue> {
        let document = self.vocabulary.document(schema).map_err(thrown)?;
        Ok(Document { document })
    }
}

/// Document as accepted by the members; see `conclave_grammar::Document`.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Document {
    document: conclave_grammar::Document,
}

#[wasm_bindgen]
impl Document {
    /// Bit mask of the tokens that may follow the accepted text and `drawn`, with one more bit for
    /// the end.
    pub fn mask(&mut self, drawn: &[u32]) -> Result<Vec<u32>, JsValue> {
        self.document.mask(drawn).map_err(thrown)
    }

    /// Advances by a text that all members have accepted.
    pub fn accept(&mut self, text: &str) -> Result<(), JsValue> {
        self.document.accept(text).map_err(thrown)
    }
}

fn thrown(error: GrammarError) -> JsValue {
    let message = error.to_string();
    // A sentence, as the page displays.
    let mut letters = message.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    let sentence: String = first.into_iter().chain(letters).chain(['.']).collect();
    let error = js_sys::Error::new(&sentence);
    error.set_name("Settings");
    error.into()
}
