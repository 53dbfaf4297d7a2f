//! Conclave's surface for JavaScript, and nothing else: types and errors cross here.
//!
//! `web/src/worker/round.ts` drives the rounds; what it calls is [`Engine`], `Member` and
//! [`Rounds`]. `ModelFiles` is how the page hands over a model's files, to be read by ranges.

#![cfg(target_family = "wasm")]

mod engine;
mod rounds;

pub use engine::Engine;
pub use rounds::{Rounds, ranges, rules};

use std::hash::{DefaultHasher, Hash, Hasher};

use conclave_model::Threads;
use wasm_bindgen::prelude::*;

/// Runs when the module is instantiated.
#[wasm_bindgen(start)]
pub fn start() {
    std::panic::set_hook(Box::new(|panic| {
        Threads::panicked();
        console_error_panic_hook::hook(panic);
    }));
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

/// Where this module's memory is shared: how many workers of it shall [`help`] the one that calls
/// with what members compute on the CPU. What is too many leaves as soon as it can.
#[wasm_bindgen(js_name = wantHelpers)]
pub fn want_helpers(count: usize) {
    Threads::want_helpers(count);
}

/// Helps on this memory until more workers do than are wanted: does not return before.
#[wasm_bindgen]
pub fn help() {
    Threads::help();
}
