//! Conclave's surface for JavaScript, and nothing else: types and errors cross here.
//!
//! `web/src/worker/round.ts` drives the rounds; what it calls is [`Engine`], [`Member`] and [`Query`].
//! [`ModelFiles`] is how the page hands over a model's files, to be read by ranges.

#![cfg(target_family = "wasm")]

mod engine;
mod query;

pub use engine::Engine;
pub use query::{Query, cut, ranges, rules};

use std::hash::{DefaultHasher, Hash, Hasher};

use wasm_bindgen::prelude::*;

/// Runs once when the module is instantiated.
#[wasm_bindgen(start)]
pub fn start() {
    console_error_panic_hook::set_once();
}

/// Changes with the kernels: what was measured with others is outdated.
#[wasm_bindgen(js_name = kernelsVersion)]
pub fn kernels_version() -> String {
    let mut hasher = DefaultHasher::new();
    conclave_kernels::shaders().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Every WGSL shader the engine may launch, as `[name, source]` pairs.
#[wasm_bindgen]
pub fn shaders() -> Result<JsValue, JsError> {
    Ok(serde_wasm_bindgen::to_value(&conclave_kernels::shaders())?)
}
