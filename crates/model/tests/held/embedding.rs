//! Embeddings against those of Hugging Face transformers, which `tests/parity/make_embeddings.py`
//! makes.

use std::collections::HashMap;

use conclave_model::{LoadOptions, ModelError, Pooling, Sampler, Sampling, about};
use conclave_weights::{Checkpoint, Memory};
use serde::Deserialize;

use crate::backends;
use crate::session::{fixture, session};

/// The embeddings of a fixture's prompts by each pooling.
#[derive(Deserialize)]
struct Golden {
    mean: Vec<Vec<f32>>,
    first: Vec<Vec<f32>>,
    last: Vec<Vec<f32>>,
}

#[derive(Deserialize)]
struct Reference {
    prompts: Vec<Vec<u32>>,
}

/// Largest difference of a number; vectors have a length of 1.
const LIMIT: f32 = 1e-4;

#[test]
fn embeddings_are_those_of_transformers() {
    let golden = std::fs::read(fixture("../../golden/embeddings.json")).unwrap();
    let golden: HashMap<String, Golden> = serde_json::from_slice(&golden).unwrap();
    assert_eq!(golden.len(), 4);
    for (name, golden) in &golden {
        let reference = std::fs::read(fixture(name).join("reference.json")).unwrap();
        let Reference { prompts } = serde_json::from_slice(&reference).unwrap();
        for (backend_name, backend) in backends() {
            let mut session = session(name, backend.as_ref(), 512);
            for (pooling, wanted) in [
                (Pooling::Mean, &golden.mean),
                (Pooling::First, &golden.first),
                (Pooling::Last, &golden.last),
            ] {
                assert_eq!(wanted.len(), prompts.len());
                for (prompt, wanted) in prompts.iter().zip(wanted) {
                    let found = pollster::block_on(session.embedding(prompt, pooling)).unwrap();
                    assert_eq!(found.len(), wanted.len());
                    let length: f32 = found.iter().map(|one| one * one).sum();
                    assert!((length - 1.0).abs() < 1e-5, "{length}");
                    for (found, wanted) in found.iter().zip(wanted) {
                        let error = (found - wanted).abs();
                        let of = prompt.len();
                        assert!(
                            error < LIMIT,
                            "{name} on {backend_name}, {pooling:?} of {of}: {found} {wanted}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_text_goes_on_the_same_after_an_embedding() {
    for name in ["qwen2-window-hf", "granite4-h-hf"] {
        for (backend_name, backend) in backends() {
            let mut session = session(name, backend.as_ref(), 64);
            let prompt: Vec<u32> = (10..30).collect();
            let mut drafted = Vec::new();
            for embeds in [false, true] {
                if embeds {
                    let other: Vec<u32> = (0..64).map(|n| 59 - n % 50).collect();
                    let whole = session.embedding(&other, Pooling::Last);
                    pollster::block_on(whole).expect("it fills the context");
                    assert!(session.prefix().is_empty());
                }
                pollster::block_on(session.prefill(&prompt)).unwrap();
                let mut sampler = Sampler::new(Sampling::greedy(), 0);
                let draft = pollster::block_on(session.draft(8, &mut sampler, &[]));
                drafted.push(draft.unwrap());
            }
            assert_eq!(drafted[0], drafted[1], "{name} on {backend_name}");
        }
    }
}

#[test]
fn what_makes_no_embedding_is_refused() {
    for (backend_name, backend) in backends() {
        let mut session = session("qwen2-window-hf", backend.as_ref(), 64);
        let mut of = |tokens: &[u32]| {
            let embedding = session.embedding(tokens, Pooling::Mean);
            pollster::block_on(embedding).expect_err(backend_name)
        };
        assert!(matches!(of(&[]), ModelError::NoToken));
        assert!(matches!(of(&[10; 65]), ModelError::ContextFull { .. }));
        assert!(matches!(of(&[10, u32::MAX]), ModelError::Token { .. }));
    }
}

/// A GGUF fixture whose file names this pooling.
fn naming(pooling: u32) -> Memory {
    let mut file = std::fs::read(fixture("qwen2-gguf/model.gguf")).unwrap();
    let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let (number, string) = (4_u32.to_le_bytes(), 8_u32.to_le_bytes());
    let keys = [
        text("qwen2.pooling_type"),
        [number, pooling.to_le_bytes()].concat(),
        // The tensors keep their alignment.
        text("x"),
        string.to_vec(),
        text("123456789"),
    ];
    let keys = keys.concat();
    assert_eq!(keys.len() % 32, 0);
    let count = u64::from_le_bytes(file[16..24].try_into().unwrap()) + 2;
    file.splice(16..24, [&count.to_le_bytes(), keys.as_slice()].concat());
    Memory::file("model.gguf", file)
}

#[test]
fn a_file_names_its_pooling() {
    for (number, wanted) in [
        (0, Pooling::Mean),
        (1, Pooling::Mean),
        (2, Pooling::First),
        (3, Pooling::Last),
        (4, Pooling::Mean),
    ] {
        let checkpoint = pollster::block_on(Checkpoint::open(&naming(number))).unwrap();
        let about = about(&checkpoint, LoadOptions::with_context(64)).unwrap();
        assert_eq!(about.pooling, wanted, "{number}");
    }
}
