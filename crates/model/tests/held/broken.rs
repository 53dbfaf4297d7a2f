//! A logit that is no number, or infinite upwards, is an error wherever it would count: in a draft
//! and in a score, on every backend.

use conclave_model::{ModelError, Sampler, Sampling};

use crate::backends;
use crate::beyond_f16::tensor;
use crate::session::{fixture, session_of};

/// Rows of the output matrix that are spoiled, and the width of all of them.
const SPOILED: [usize; 2] = [17, 60];
const WIDTH: usize = 32;

/// The files of a model whose tokens of [`SPOILED`] have such weights in the first column, which is
/// 0 for all others; what they are multiplied with is large, of a sign that is not known.
fn spoiled(weights: [f32; 2]) -> Vec<(String, Vec<u8>)> {
    let [config, mut file] = ["config.json", "model.safetensors"]
        .map(|name| std::fs::read(fixture("mistral-hf").join(name)).unwrap());
    // BF16 is the upper half of F32.
    let half = |number: f32| ((number.to_bits() >> 16) as u16).to_le_bytes();
    tensor(&mut file, "model.norm.weight")[..2].copy_from_slice(&half(1e20));
    let head = tensor(&mut file, "lm_head.weight");
    for row in head.chunks_exact_mut(2 * WIDTH) {
        row[..2].fill(0);
    }
    for (row, weight) in SPOILED.into_iter().zip(weights) {
        head[2 * WIDTH * row..][..2].copy_from_slice(&half(weight));
    }
    vec![
        ("config.json".to_owned(), config),
        ("model.safetensors".to_owned(), file),
    ]
}

fn is_told<T: std::fmt::Debug>(found: &Result<T, ModelError>) -> bool {
    matches!(found, Err(ModelError::NotFinite))
}

#[test]
fn a_broken_logit_is_told_by_drafts_and_scores() {
    let prompt: Vec<u32> = (8..20).collect();
    // Neither candidate has a spoiled token: the others' chances are wrong all the same.
    let candidates = [vec![5, 9, 33], vec![40]];
    // One of a pair overflows upwards, whatever the sign; the other is −∞.
    for (weights, broken) in [
        ([1e38, -1e38], true),
        ([f32::NAN, 0.0], true),
        ([0.0, 0.0], false),
    ] {
        for (name, backend) in backends() {
            let case = format!("{name}, {weights:?}");
            let mut session = session_of(spoiled(weights), backend.as_ref(), 64);
            pollster::block_on(session.prefill(&prompt)).unwrap();
            let logits = pollster::block_on(session.next_logits()).unwrap();
            let bad = |logit: &f32| logit.is_nan() || *logit == f32::INFINITY;
            let count = usize::from(broken);
            assert_eq!(
                logits.iter().filter(|logit| bad(logit)).count(),
                count,
                "{case}"
            );
            for sampling in [Sampling::greedy(), Sampling::default()] {
                let mut sampler = Sampler::new(sampling, 0);
                let draft = pollster::block_on(session.draft(4, &mut sampler, &[]));
                assert_eq!(is_told(&draft), broken, "{case}: {draft:?}");
            }
            let scores = pollster::block_on(session.verify(&candidates, true));
            assert_eq!(is_told(&scores), broken, "{case}: {scores:?}");
            // The raw logit of a token is itself alone.
            let spoiled = SPOILED.map(|token| vec![token as u32]);
            let scores = pollster::block_on(session.verify(&spoiled, false));
            assert_eq!(is_told(&scores), broken, "{case}: {scores:?}");
            let judged =
                pollster::block_on(session.judge(&[&prompt[..], &[5, 9]].concat(), prompt.len()));
            assert_eq!(is_told(&judged), broken, "{case}: {judged:?}");
        }
    }
}
