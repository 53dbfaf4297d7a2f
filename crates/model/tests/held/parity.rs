//! The decoder against Hugging Face transformers, on all backends: tiny random models of every
//! family, from folders in both spellings and from GGUF files, with the logits of three prompts,
//! the longest past every window, and a greedy continuation. `tests/parity/make_fixtures.py` makes
//! models and references; `cargo xtask parity` compares larger ones in every format.

use conclave_model::{Sampler, Sampling};
use serde::Deserialize;

use crate::backends;
use crate::session::{fixture, relative_error, session};

/// `reference.json`; the rows are in `reference.f32`.
#[derive(Deserialize)]
struct Reference {
    /// How far a logit may be off, relative to its row's largest.
    limit: f32,
    vocabulary: usize,
    prompts: Vec<Vec<u32>>,
    /// Which rows of each prompt are kept.
    rows: Vec<Vec<usize>>,
    greedy: Greedy,
}

#[derive(Deserialize)]
struct Greedy {
    prompt: Vec<u32>,
    continuation: Vec<u32>,
}

/// Holds the fixture `name` to its reference.
fn hold(name: &str) {
    let read = |file| std::fs::read(fixture(name).join(file)).unwrap();
    let reference: Reference = serde_json::from_slice(&read("reference.json")).unwrap();
    let floats = read("reference.f32");
    let floats: Vec<f32> = floats
        .as_chunks()
        .0
        .iter()
        .map(|bytes| f32::from_le_bytes(*bytes))
        .collect();
    assert_eq!(reference.prompts.len(), reference.rows.len());
    let kept: usize = reference.rows.iter().map(Vec::len).sum();
    assert_eq!(floats.len(), kept * reference.vocabulary);
    assert!(kept > 0);
    for (backend_name, backend) in backends() {
        let mut session = session(name, backend.as_ref(), 512);
        let mut wanted = floats.chunks(reference.vocabulary);
        let mut worst = 0_f32;
        for (prompt, rows) in reference.prompts.iter().zip(&reference.rows) {
            let found = pollster::block_on(session.all_logits(prompt)).unwrap();
            assert_eq!(found.len(), prompt.len());
            for (&row, wanted) in rows.iter().zip(&mut wanted) {
                let error = relative_error(&found[row], wanted);
                // A NaN is no maximum.
                assert!(error.is_finite(), "{name} on {backend_name}: {error}");
                worst = worst.max(error);
            }
        }
        let limit = reference.limit;
        assert!(
            worst <= limit,
            "{name} on {backend_name}: {worst:e} > {limit:e}"
        );
        let Greedy {
            prompt,
            continuation,
        } = &reference.greedy;
        pollster::block_on(session.prefill(prompt)).unwrap();
        let mut sampler = Sampler::new(Sampling::greedy(), 0);
        let draft = session.draft(continuation.len(), &mut sampler, &[]);
        let drafted = pollster::block_on(draft).unwrap();
        assert_eq!(&drafted.tokens, continuation, "{name} on {backend_name}");
    }
}

macro_rules! parity {
    ($($test:ident $fixture:literal;)*) => {
        $(#[test]
        fn $test() {
            hold($fixture);
        })*

        #[test]
        fn every_fixture_is_held() {
            let here = std::fs::read_dir(fixture("")).unwrap();
            let mut found: Vec<String> = here
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            let mut known = vec![$($fixture),*];
            found.sort();
            known.sort_unstable();
            assert_eq!(found, known);
        }
    };
}

parity! {
    llama_with_scaled_frequencies "llama-gguf";
    llama_with_biases "llama-bias-hf";
    tinyllama_in_q4_0 "tinyllama-gguf";
    llama_with_biases_in_q4_1 "llama-bias-gguf";
    mistral_with_a_window "mistral-hf";
    qwen2 "qwen2-gguf";
    qwen2_with_a_window_above "qwen2-window-hf";
    qwen3_in_q8_0 "qwen3-gguf";
    qwen3_with_yarn "qwen3-yarn-hf";
    gemma_in_q8_0 "gemma-gguf";
    gemma2_with_softcaps "gemma2-gguf";
    gemma2_with_its_own_query_scale "gemma2-scalar-hf";
    gemma3_in_q8_0 "gemma3-gguf";
    gemma3_with_listed_layers "gemma3-layers-hf";
    phi3_with_longrope "phi3-gguf";
    phi4_mini_with_partial_rotation "phi4-mini-hf";
    smollm3_in_q8_0 "smollm3-gguf";
    smollm3_with_listed_layers "smollm3-layers-hf";
    olmo2_in_q8_0 "olmo2-gguf";
    olmo2 "olmo2-hf";
    glm4_from_gguf "glm4-gguf";
    glm4 "glm4-hf";
    granite_in_q8_0 "granite-gguf";
    granite4_from_gguf "granite4-gguf";
    lfm2_in_q8_0 "lfm2-gguf";
    lfm2 "lfm2-hf";
    lfm2_with_biases "lfm2-bias-hf";
    hunyuan_in_q8_0 "hunyuan-gguf";
    hunyuan_with_alpha "hunyuan-alpha-hf";
    granite "granite-hf";
    ernie "ernie4_5-gguf";
    ernie_with_biases "ernie4_5-bias-hf";
    olmo3_in_q8_0 "olmo3-gguf";
    olmo3_with_yarn_beside_windows "olmo3-hf";
    exaone4_in_q8_0 "exaone4-gguf";
    exaone4_with_windows "exaone4-window-hf";
    ministral3 "ministral3-gguf";
    granite4 "granite4-hf";
    qwen3_5_in_q8_0_with_a_layer_that_predicts_further "qwen3_5-gguf";
    qwen3_5 "qwen3_5-hf";
    qwen3_5_with_listed_layers "qwen3_5-layers-hf";
    qwen3_5_of_a_model_that_sees "qwen3_5-wrapped-hf";
    gemma4_in_q8_0 "gemma4-gguf";
    gemma4 "gemma4-hf";
    lfm2_moe_in_q8_0 "lfm2_moe-gguf";
    lfm2_moe "lfm2_moe-hf";
    lfm2_moe_without_biases "lfm2_moe-plain-hf";
    olmoe_in_q8_0 "olmoe-gguf";
    olmoe "olmoe-hf";
    olmoe_with_normalised_scores "olmoe-norm-hf";
    gemma4_with_wide_heads "gemma4-wrapped-hf";
    granite4_h_in_q8_0 "granite4-h-gguf";
    granite4_h "granite4-h-hf";
    granite4_h_with_groups "granite4-h-groups-hf";
}
