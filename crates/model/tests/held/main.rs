//! Tests of every backend: the logits of transformers, and that a round is exact whichever
//! way it is run. The open core's tests are these files too (`crates/burn/tests/held.rs`).

mod beyond_f16;
mod broken;
mod draws;
mod embedding;
mod experts;
mod goes_on;
mod in_line;
mod parity;
mod prefill;
mod recurrent;
mod saved;
mod second;
mod session;
mod ways;

use std::sync::OnceLock;

use conclave_kernels::{AdapterChoice, Launcher};
use conclave_model::{Backend, Cpu};

/// Our products and our kernels, by name. One GPU device serves all tests.
fn backends() -> [(&'static str, Box<dyn Backend>); 2] {
    static GPU: OnceLock<Launcher> = OnceLock::new();
    let gpu = GPU.get_or_init(|| {
        let gpu = pollster::block_on(Launcher::init(AdapterChoice::Best)).expect(
            "no GPU adapter: install a Vulkan driver, in software mesa-vulkan-drivers (lavapipe)",
        );
        println!("adapter: {:?}", gpu.adapter());
        gpu
    });
    [
        ("cpu", Box::new(Cpu::ALONE)),
        ("gpu", Box::new(gpu.clone())),
    ]
}

/// Backends of the tests that run thousands of tokens: all.
fn backends_at_length() -> Vec<(&'static str, Box<dyn Backend>)> {
    backends().into()
}
