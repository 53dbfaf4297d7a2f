//! The fixtures under `tests/fixtures/parity`, and the three backends to run them on.

use std::path::PathBuf;
use std::sync::OnceLock;

use conclave_kernels::{AdapterChoice, Gpu};
use conclave_model::{Backend, LoadOptions, Model, Session};
use conclave_weights::{Checkpoint, Memory};

/// Path of a fixture.
pub fn fixture(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures/parity")
        .join(file)
}

/// A session on a fixture's model, made for as long a context as asked for:
/// rotary positions know no limit, only the file's number does.
pub fn session(name: &str, backend: &Backend, context: usize) -> Session {
    let mut file = std::fs::read(fixture(&format!("{name}.gguf"))).expect("the fixture is there");
    let key = b".context_length";
    let at = file
        .windows(key.len())
        .position(|bytes| bytes == key)
        .expect("the key is there");
    // Behind the key stand the value's type (4 bytes, u32) and the value.
    let value = at + key.len() + 4;
    file[value..value + 4].copy_from_slice(&(context as u32).to_le_bytes());
    let source = Memory::file("model.gguf", file);
    let checkpoint = pollster::block_on(Checkpoint::open(&source)).expect("the fixture is sound");
    let options = LoadOptions::with_context(context);
    let mut silent = |_| ();
    let load = Model::load(&checkpoint, &source, backend, options, &mut silent);
    Session::new(pollster::block_on(load).expect("the model loads"))
}

/// The oracle, our products and our kernels, by name. One GPU device serves all tests.
pub fn backends() -> [(&'static str, Backend); 3] {
    static GPU: OnceLock<Gpu> = OnceLock::new();
    let gpu = GPU.get_or_init(|| {
        pollster::block_on(Gpu::init(AdapterChoice::Best)).expect(
            "no GPU adapter: install a Vulkan driver, in software mesa-vulkan-drivers (lavapipe)",
        )
    });
    [
        ("burn", Backend::oracle()),
        ("cpu", Backend::Cpu),
        ("gpu", Backend::Gpu(gpu.clone())),
    ]
}

/// Largest difference between two rows over the reference's largest magnitude.
pub fn relative_error(found: &[f32], reference: &[f32]) -> f32 {
    assert_eq!(found.len(), reference.len());
    let largest = reference.iter().fold(0.0f32, |most, x| most.max(x.abs()));
    let difference = found
        .iter()
        .zip(reference)
        .fold(0.0f32, |most, (a, b)| most.max((a - b).abs()));
    difference / largest
}
