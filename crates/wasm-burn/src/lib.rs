//! The open core's surface for JavaScript: an engine whose members run on burn. The page fetches
//! this module only when one does.

#![cfg(target_family = "wasm")]

mod engine;

pub use conclave_surface::{Member, ModelFiles};
pub use engine::Engine;

use wasm_bindgen::prelude::*;

unsafe extern "C" {
    fn __wasm_call_ctors();
}

/// Runs once when the module is instantiated.
#[wasm_bindgen(start)]
pub fn start() {
    // SAFETY: runs what burn's crates register before `main`; nothing else has run yet, and it runs
    // once. A module that does not call it has it run again by every export.
    unsafe { __wasm_call_ctors() };
    console_error_panic_hook::set_once();
}
