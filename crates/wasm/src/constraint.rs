//! A constraint on drafts as a JavaScript object, usually of another module.

use wasm_bindgen::prelude::*;

use crate::files::message;

#[wasm_bindgen(typescript_custom_section)]
const TYPE: &str = r#"
/** Constraint on drafts; see `conclave_member::Constraint`. It must not call the member. */
export interface Constraint {
  mask(drawn: Uint32Array): Uint32Array;
  accept(text: string): void;
}
"#;

#[wasm_bindgen]
extern "C" {
    /// The page's object that constrains an answer's drafts.
    #[wasm_bindgen(typescript_type = "Constraint")]
    pub type Constraint;

    #[wasm_bindgen(method, catch)]
    fn mask(this: &Constraint, drawn: &[u32]) -> Result<Vec<u32>, JsValue>;

    #[wasm_bindgen(method, catch)]
    fn accept(this: &Constraint, text: &str) -> Result<(), JsValue>;
}

struct JsConstraint(Constraint);

impl Constraint {
    pub(crate) fn into_boxed(self) -> Box<dyn conclave_member::Constraint> {
        Box::new(JsConstraint(self))
    }
}

impl conclave_member::Constraint for JsConstraint {
    fn mask(&mut self, drawn: &[u32]) -> Result<Vec<u32>, String> {
        self.0.mask(drawn).map_err(|thrown| message(&thrown))
    }

    fn accept(&mut self, text: &str) -> Result<(), String> {
        self.0.accept(text).map_err(|thrown| message(&thrown))
    }
}
