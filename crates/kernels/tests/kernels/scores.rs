//! Raw logits and log-sum-exps.

use conclave_kernels::*;
use proptest::prelude::*;

use crate::support::*;

fn scores(logits: &[f32], targets: &[u32], vocabulary: usize) -> Vec<f32> {
    let rows = targets.len();
    let out = marked(rows * 2);
    score(
        gpu(),
        &upload(logits),
        &upload(targets),
        [rows, vocabulary],
        &out,
    )
    .unwrap();
    read(&[&out]).remove(0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..Default::default() })]

    #[test]
    fn score_equals_its_twin(seed: u64, rows in 1_usize..40, vocabulary in 1_usize..3000, width in 0.0_f32..500.0) {
        let mut numbers = Numbers(seed);
        let logits: Vec<f32> = numbers.many(rows * vocabulary).iter().map(|v| v * width).collect();
        let targets: Vec<u32> = (0..rows).map(|_| numbers.below(vocabulary) as u32).collect();
        let found = scores(&logits, &targets, vocabulary);
        for (found, expected) in found.chunks(2).zip(score_cpu(&logits, &targets, vocabulary)) {
            prop_assert_eq!(found[0], expected[0]);
            prop_assert!((found[1] - expected[1]).abs() <= 1e-5 * (1.0 + expected[1].abs()));
        }
    }
}

#[test]
fn score_is_numerically_safe() {
    let vocabulary = 70_000;
    let mut logits = vec![-1.0e30; vocabulary];
    logits[69_999] = 3.0e4;
    logits.extend(vec![-3.0e4; vocabulary]);
    let found = scores(&logits, &[69_999, 5], vocabulary);
    assert_eq!(&found[..3], &[3.0e4, 3.0e4, -3.0e4]);
    assert!((found[3] - (-3.0e4 + (vocabulary as f32).ln())).abs() < 0.01);
}

#[test]
fn an_id_past_the_vocabulary_reads_nothing() {
    let found = scores(&[1.0, 2.0, 3.0], &[3, u32::MAX, 0][..1], 3);
    assert_eq!(found[0], -3.0e38);
    assert!((found[1] - 3.407_606).abs() < 1e-5);
}
