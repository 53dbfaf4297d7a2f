//! The tests of every backend on the open core: the logits of transformers for all families, from
//! folders and GGUF files, and exact rounds. On the CPU by flex, and on the GPU there
//! is.

#[path = "../../model/tests/held/beyond_f16.rs"]
mod beyond_f16;
#[path = "../../model/tests/held/broken.rs"]
mod broken;
#[path = "../../model/tests/held/embedding.rs"]
mod embedding;
#[path = "../../model/tests/held/goes_on.rs"]
mod goes_on;
#[path = "../../model/tests/held/in_line.rs"]
mod in_line;
#[path = "../../model/tests/held/parity.rs"]
mod parity;
#[path = "../../model/tests/held/prefill.rs"]
mod prefill;
#[path = "../../model/tests/held/recurrent.rs"]
mod recurrent;
#[path = "../../model/tests/held/second.rs"]
mod second;
#[path = "../../model/tests/held/session.rs"]
mod session;

use std::sync::OnceLock;

use conclave_burn::Burn;
use conclave_model::Backend;

/// burn's CPU and burn's GPU, by name. One device serves all tests.
fn backends() -> [(&'static str, Box<dyn Backend>); 2] {
    static GPU: OnceLock<Burn> = OnceLock::new();
    let gpu = GPU.get_or_init(|| {
        pollster::block_on(Burn::wgpu()).expect(
            "no GPU adapter: install a Vulkan driver, in software mesa-vulkan-drivers (lavapipe)",
        )
    });
    [
        ("burn's flex", Box::new(Burn::flex())),
        ("burn's wgpu", Box::new(gpu.clone())),
    ]
}

/// Backends of the tests that run thousands of tokens: burn's CPU alone. The walk is the same on
/// burn's GPU, which takes minutes for them on a software adapter; the other tests run there too.
fn backends_at_length() -> Vec<(&'static str, Box<dyn Backend>)> {
    vec![("burn's flex", Box::new(Burn::flex()))]
}
