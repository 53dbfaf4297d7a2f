//! Conclave's JavaScript interface; it converts types and errors and does nothing else.
//!
//! `web/src/worker/round.ts` drives the rounds by [`Engine`], `Member` and [`Rounds`].
//! `ModelFiles` is the page's object through which a model's files are read by ranges.
//!
//! ```js
//! const engine = await Engine.create("webgpu");
//! const member = await engine.load("ada", files, { contextTokens: 2048 }, onProgress);
//! await member.begin([{ role: "user", content: "Hello" }], sampling, 0, onProgress);
//! const { text, ended } = await member.draft(16);
//! ```

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

/// Changes with the kernels: measurements with other kernels are outdated.
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

/// In a module with shared memory: sets how many workers shall [`help`] with what members compute
/// on the CPU. Excess workers leave as soon as they can.
#[wasm_bindgen(js_name = wantHelpers)]
pub fn want_helpers(count: usize) {
    Threads::want_helpers(count);
}

/// Helps on this memory; returns once there are more workers than wanted.
#[wasm_bindgen]
pub fn help() {
    Threads::help();
}
