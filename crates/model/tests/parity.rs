//! The decoder against Hugging Face transformers, on all backends: the
//! logits of tiny random models of each kind, and their greedy continuations.
//! `tests/parity/make_fixtures.py` makes models and references.

mod both;

use conclave_model::{Sampler, Sampling};
use serde::Deserialize;

use both::{backends, fixture, relative_error, session};

#[derive(Deserialize)]
struct Reference {
    prompts: Vec<Prompt>,
    greedy: Greedy,
}

#[derive(Deserialize)]
struct Prompt {
    tokens: Vec<u32>,
    logits: Vec<Vec<f32>>,
}

#[derive(Deserialize)]
struct Greedy {
    tokens: Vec<u32>,
    continuation: Vec<u32>,
}

/// Holds the fixture `name` to `tolerance`, relative to a row's largest logit.
fn hold(name: &str, tolerance: f32) {
    let text = std::fs::read_to_string(fixture(&format!("{name}.json"))).unwrap();
    let reference: Reference = serde_json::from_str(&text).unwrap();
    assert!(!reference.prompts.is_empty());
    for (backend_name, backend) in backends() {
        let mut session = session(name, &backend, 128);
        for prompt in &reference.prompts {
            let found = pollster::block_on(session.all_logits(&prompt.tokens)).unwrap();
            assert_eq!(found.len(), prompt.logits.len());
            let worst = found
                .iter()
                .zip(&prompt.logits)
                .map(|(found, wanted)| relative_error(found, wanted))
                .fold(0.0, f32::max);
            assert!(
                worst <= tolerance,
                "{name} on {backend_name}: {worst:e} > {tolerance:e}"
            );
        }
        let Greedy {
            tokens,
            continuation,
        } = &reference.greedy;
        pollster::block_on(session.prefill(tokens)).unwrap();
        let mut sampler = Sampler::new(Sampling::greedy(), 0);
        let draft = session.draft(continuation.len(), &mut sampler, &[]);
        let drafted = pollster::block_on(draft).unwrap();
        assert_eq!(&drafted.tokens, continuation, "{name} on {backend_name}");
    }
}

macro_rules! parity {
    ($($test:ident $fixture:literal $tolerance:literal;)*) => {$(
        #[test]
        fn $test() {
            hold($fixture, $tolerance);
        }
    )*};
}

parity! {
    llama_f32 "llama-f32" 1e-4;
    llama_tied_f32 "llama-tied-f32" 1e-4;
    llama_f16 "llama-f16" 1e-4;
    llama_q8_0 "llama-q80" 1e-3;
    llama_q4_0 "llama-q40" 1e-3;
    qwen2_f32 "qwen2-f32" 1e-4;
    qwen3_f32 "qwen3-f32" 1e-4;
    qwen3_f16 "qwen3-f16" 1e-4;
    qwen3_q8_0 "qwen3-q80" 1e-3;
    qwen3_q4_0 "qwen3-q40" 1e-3;
    gemma_f32 "gemma-f32" 1e-4;
    gemma_f16 "gemma-f16" 1e-4;
    gemma_q8_0 "gemma-q80" 1e-3;
    gemma_q4_0 "gemma-q40" 1e-3;
}
