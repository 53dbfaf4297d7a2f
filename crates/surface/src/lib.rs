//! What both wasm modules show JavaScript of a member: its moves, its files and its errors. Types
//! and errors cross here, and nothing else happens. It compiles natively for the test that writes
//! the types (`web/src/protocol/generated.ts`).

mod constraint;
mod failure;
mod files;
mod load;
mod member;
#[cfg(test)]
mod typescript;

use serde::Serialize;
use serde_wasm_bindgen::Serializer;
use wasm_bindgen::JsValue;

pub use constraint::Constraint;
pub use failure::Failure;
pub use files::ModelFiles;
pub use load::{Adapter, Choices, Chosen, load};
pub use member::Member;

/// A value as JSON has it: plain objects, and `null` for what is not there.
///
/// # Errors
/// What no JSON can say.
pub fn to_js(value: &impl Serialize) -> Result<JsValue, Failure> {
    Ok(value.serialize(&Serializer::json_compatible())?)
}
