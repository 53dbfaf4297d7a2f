//! The JavaScript interface to a member, shared by the wasm modules: [`Member`], its files
//! ([`ModelFiles`]), its loading and its errors ([`Failure`]). It converts types and errors and
//! does nothing else. It also compiles natively, for the test that writes
//! `web/src/protocol/generated.ts`.
//!
//! ```no_run
//! use conclave_surface::{Failure, to_js};
//! #[derive(serde::Serialize)]
//! struct Progress { loaded: u64, total: u64 }
//! let value = to_js(&Progress { loaded: 1, total: 2 })?;
//! # Ok::<(), Failure>(())
//! ```

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

/// A value as plain objects, as in JSON, with `null` for absent values.
///
/// # Errors
/// Values that JSON cannot represent.
pub fn to_js(value: &impl Serialize) -> Result<JsValue, Failure> {
    Ok(value.serialize(&Serializer::json_compatible())?)
}
