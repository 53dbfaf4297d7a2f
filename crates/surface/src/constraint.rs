//! What drafts are held to, as the page has it: another module's, mostly.

use wasm_bindgen::prelude::*;

use crate::files::told;

#[wasm_bindgen(typescript_custom_section)]
const TYPE: &str = r#"
/** What drafts are held to; see `conclave_member::Constraint`. It must not call the member. */
export interface Constraint {
  mask(drawn: Uint32Array): Uint32Array;
  accept(text: string): void;
}
"#;

#[wasm_bindgen]
extern "C" {
    /// An object of the page's that follows an answer.
    #[wasm_bindgen(typescript_type = "Constraint")]
    pub type Constraint;

    #[wasm_bindgen(method, catch)]
    fn mask(this: &Constraint, drawn: &[u32]) -> Result<Vec<u32>, JsValue>;

    #[wasm_bindgen(method, catch)]
    fn accept(this: &Constraint, text: &str) -> Result<(), JsValue>;
}

struct Held(Constraint);

impl Constraint {
    pub(crate) fn held(self) -> Box<dyn conclave_member::Constraint> {
        Box::new(Held(self))
    }
}

impl conclave_member::Constraint for Held {
    fn mask(&mut self, drawn: &[u32]) -> Result<Vec<u32>, String> {
        self.0.mask(drawn).map_err(|thrown| told(&thrown))
    }

    fn accept(&mut self, text: &str) -> Result<(), String> {
        self.0.accept(text).map_err(|thrown| told(&thrown))
    }
}
