//! Raw logits and log-sum-exps.

use conclave_kernels::*;
use proptest::prelude::*;

use crate::support::*;

fn scores(logits: &[f32], targets: &[u32], vocabulary: usize, softcap: Option<f32>) -> Vec<f32> {
    let rows = targets.len();
    let out = marked(rows * 2);
    score(
        gpu(),
        &upload(logits),
        &upload(targets),
        [rows, vocabulary],
        softcap,
        &out,
    )
    .unwrap();
    read(&[&out]).remove(0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..Default::default() })]

    #[test]
    fn score_equals_its_twin(
        seed: u64, rows in 1_usize..40, vocabulary in 1_usize..3000, width in 0.0_f32..500.0,
        softcap in prop::option::of(1.0_f32..60.0),
    ) {
        let mut numbers = Numbers(seed);
        let logits: Vec<f32> = numbers.many(rows * vocabulary).iter().map(|v| v * width).collect();
        let targets: Vec<u32> = (0..rows).map(|_| numbers.below(vocabulary) as u32).collect();
        let found = scores(&logits, &targets, vocabulary, softcap);
        let expected = score_cpu(&logits, &targets, vocabulary, softcap);
        for (found, expected) in found.chunks(2).zip(expected) {
            match softcap {
                None => prop_assert_eq!(found[0], expected[0]),
                Some(cap) => prop_assert!((found[0] - expected[0]).abs() <= 1e-5 * cap),
            }
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
    let found = scores(&logits, &[69_999, 5], vocabulary, None);
    assert_eq!(&found[..3], &[3.0e4, 3.0e4, -3.0e4]);
    assert!((found[3] - (-3.0e4 + (vocabulary as f32).ln())).abs() < 0.01);
}

#[test]
fn an_id_past_the_vocabulary_reads_nothing() {
    let found = scores(&[1.0, 2.0, 3.0], &[3, u32::MAX, 0][..1], 3, None);
    assert_eq!(found[0], -3.0e38);
    assert!((found[1] - 3.407_606).abs() < 1e-5);
}

/// Gemma 2's cap: what lies far above it counts as the cap, and the id's logit too.
#[test]
fn a_softcap_bounds_the_logit_and_the_sum() {
    let row = [1.0e4, -1.0e4, 30.0];
    let found = scores(&[row, row].concat(), &[0, 2], 3, Some(30.0));
    let capped = 30.0 * 1.0_f32.tanh();
    let sum = 30.0 + (1.0 + (capped - 30.0).exp()).ln();
    for (found, expected) in found.iter().zip([30.0, sum, capped, sum]) {
        assert!((found - expected).abs() < 1e-4, "{found} for {expected}");
    }
    let refused = score(
        gpu(),
        &marked(3),
        &upload(&[0]),
        [1, 3],
        Some(0.0),
        &marked(2),
    );
    assert!(matches!(refused, Err(GpuError::Shape { .. })));
}
