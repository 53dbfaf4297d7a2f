//! The JavaScript interface of the open core: an [`Engine`](engine::Engine) whose members run on
//! burn. The page fetches this module only when one does.
//!
//! ```js
//! const engine = await Engine.create("webgpu");
//! const member = await engine.load("ada", files, { contextTokens: 2048 }, onProgress);
//! ```

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
    // SAFETY: runs the functions that burn's crates register to run before `main`; nothing else has
    // run yet, and it runs once. Without this call every export would run them again.
    unsafe { __wasm_call_ctors() };
    console_error_panic_hook::set_once();
}
