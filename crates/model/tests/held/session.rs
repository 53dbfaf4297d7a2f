//! Sessions on the fixtures under `tests/fixtures/parity`.

use std::path::PathBuf;

use conclave_model::{Backend, LoadOptions, Model, Session};
use conclave_weights::{Checkpoint, Memory};

/// Path of a file of the fixtures.
pub fn fixture(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures/parity")
        .join(file)
}

/// A session on the fixture `name`, `CASE-gguf` or `CASE-hf`, with a context of at most 512 tokens.
pub fn session(name: &str, backend: &dyn Backend, context: usize) -> Session {
    let names: &[&str] = match name.ends_with("-gguf") {
        true => &["model.gguf"],
        false => &["config.json", "model.safetensors"],
    };
    let read = |file: &&str| {
        let bytes = std::fs::read(fixture(name).join(file)).expect("the fixture is there");
        ((*file).to_owned(), bytes)
    };
    session_of(names.iter().map(read).collect(), backend, context)
}

/// A session on a model's files.
pub fn session_of(files: Vec<(String, Vec<u8>)>, backend: &dyn Backend, context: usize) -> Session {
    let source = Memory::new(files);
    let checkpoint = pollster::block_on(Checkpoint::open(&source)).expect("the fixture is sound");
    let options = LoadOptions::with_context(context);
    let mut silent = |_| ();
    let load = Model::load(&checkpoint, &source, backend, options, &mut silent);
    Session::new(pollster::block_on(load).expect("the model loads"))
}

/// The files of a fixture's folder, with room for as many tokens as the test wants.
pub fn with_context(name: &str, tokens: usize) -> Vec<(String, Vec<u8>)> {
    let [config, weights] = ["config.json", "model.safetensors"].map(|file| {
        let bytes = std::fs::read(fixture(name).join(file)).unwrap();
        (file.to_owned(), bytes)
    });
    let (before, after) = (r#""max_position_embeddings": 512"#, tokens.to_string());
    let text = String::from_utf8(config.1).unwrap();
    assert!(text.contains(before), "{text}");
    let text = text.replace(before, &format!(r#""max_position_embeddings": {after}"#));
    vec![(config.0, text.into_bytes()), weights]
}

/// Largest difference between two rows over the reference's largest magnitude.
pub fn relative_error(found: &[f32], reference: &[f32]) -> f32 {
    assert_eq!(found.len(), reference.len());
    let largest = reference.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    let difference = found
        .iter()
        .zip(reference)
        .fold(0.0_f32, |most, (a, b)| most.max((a - b).abs()));
    difference / largest
}
