//! Conclave's surface for JavaScript, and nothing else: types and errors cross here.
//!
//! `web/src/round.ts` drives the rounds; what it calls is [`Engine`], [`Member`] and [`Query`].
//! [`ModelFiles`] is how the page hands over a model's files, to be read by ranges.

#![cfg(target_family = "wasm")]

mod engine;
mod failure;
mod files;
mod member;
mod query;

pub use engine::Engine;
pub use files::ModelFiles;
pub use member::Member;
pub use query::{Query, cut, default_settings};

use wasm_bindgen::prelude::*;

unsafe extern "C" {
    fn __wasm_call_ctors();
}

/// Runs once when the module is instantiated.
#[wasm_bindgen(start)]
pub fn start() {
    // cubecl's dependencies register themselves in static constructors. A
    // module that does not call them itself gets every export wrapped so that
    // they all run again at each call: a launch then takes 6.8 ms, not 0.02.
    // SAFETY: called once, before anything else of the module runs.
    unsafe { __wasm_call_ctors() };
    console_error_panic_hook::set_once();
}

/// Every WGSL shader the engine may launch, as `[name, source]` pairs.
#[wasm_bindgen]
pub fn shaders() -> Result<JsValue, JsError> {
    Ok(serde_wasm_bindgen::to_value(&conclave_kernels::shaders())?)
}
