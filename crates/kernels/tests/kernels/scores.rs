//! Raw logits and log-sum-exps at the ends of their range; `fused.rs` compares the rest to the
//! twin.

use conclave_kernels::*;

use crate::support::*;

/// An output matrix and states that make these rows of logits, up to four.
fn making(logits: &[f32], vocabulary: usize) -> (Matrix, Buffer) {
    let rows = logits.len() / vocabulary;
    let weight = |id: usize, row: usize| match row < rows {
        true => logits[row * vocabulary + id],
        false => 0.0,
    };
    let weights: Vec<f32> = (0..4 * vocabulary)
        .map(|at| weight(at / 4, at % 4))
        .collect();
    let blocks = bytemuck::cast_slice(&weights);
    let states = (0..4 * rows).map(|at| f32::from(u8::from(at / 4 == at % 4)));
    (
        Matrix::upload(gpu(), Format::F32, vocabulary, 4, blocks).unwrap(),
        upload(&states.collect::<Vec<_>>()),
    )
}

fn scores(
    logits: &[f32],
    targets: &[u32],
    vocabulary: usize,
    softcap: Option<f32>,
) -> Result<Vec<f32>, GpuError> {
    let (weight, states) = making(logits, vocabulary);
    let head = Head {
        weight: &weight,
        bias: None,
        softcap,
    };
    let m = targets.len();
    let rows = Rows {
        count: m,
        counts: &upload(&[m as u32]),
    };
    let partials = marked(score_partials(m, &weight));
    let (targets, out) = (upload(targets), marked(2 * m));
    score_head(gpu(), &states, rows, &targets, head, [&partials, &out])?;
    Ok(read(&[&out]).remove(0))
}

#[test]
fn score_is_numerically_safe() {
    let vocabulary = 70_000;
    let mut logits = vec![-1.0e30; vocabulary];
    logits[69_999] = 3.0e4;
    logits.extend(vec![-3.0e4; vocabulary]);
    let found = scores(&logits, &[69_999, 5], vocabulary, None).unwrap();
    assert_eq!(&found[..3], &[3.0e4, 3.0e4, -3.0e4]);
    assert!((found[3] - (-3.0e4 + (vocabulary as f32).ln())).abs() < 0.01);
}

#[test]
fn an_id_past_the_vocabulary_reads_nothing() {
    let found = scores(&[1.0, 2.0, 3.0], &[3], 3, None).unwrap();
    assert_eq!(found[0], -3.0e38);
    assert!((found[1] - 3.407_606).abs() < 1e-5);
}

/// Gemma 2's cap: values far above it count as the cap, the id's logit too.
#[test]
fn a_softcap_bounds_the_logit_and_the_sum() {
    let row = [1.0e4, -1.0e4, 30.0];
    let found = scores(&[row, row].concat(), &[0, 2], 3, Some(30.0)).unwrap();
    let capped = 30.0 * 1.0_f32.tanh();
    let sum = 30.0 + (1.0 + (capped - 30.0).exp()).ln();
    for (found, expected) in found.iter().zip([30.0, sum, capped, sum]) {
        assert!((found - expected).abs() < 1e-4, "{found} for {expected}");
    }
    let refused = scores(&row, &[0], 3, Some(0.0));
    assert!(matches!(refused, Err(GpuError::Shape { .. })));
}

/// A NaN or +∞ logit of any token makes the row's scores NaN, capped or not, at any position.
#[test]
fn a_broken_logit_of_any_token_shows_in_the_scores() {
    let vocabulary = 300;
    for softcap in [None, Some(30.0)] {
        for broken in [f32::NAN, f32::INFINITY] {
            for at in [0, 17, 150, 299] {
                let mut logits = vec![1.0; vocabulary];
                logits[at] = broken;
                let found = scores(&logits, &[5], vocabulary, softcap).unwrap();
                let case = format!("{broken} at {at}, {softcap:?}: {found:?}");
                assert!(found.iter().all(|score| score.is_nan()), "{case}");
            }
        }
    }
}

/// The raw logit of one token, unaffected by others.
#[test]
fn a_broken_logit_stays_broken_under_a_softcap() {
    for softcap in [None, Some(30.0)] {
        for broken in [f32::NAN, f32::INFINITY] {
            let (weight, states) = making(&[1.0, broken, 1.0], 3);
            let head = Head {
                weight: &weight,
                bias: None,
                softcap,
            };
            let rows = Rows {
                count: 1,
                counts: &upload(&[1_u32]),
            };
            let out = marked(1);
            target_logits(gpu(), &states, rows, &upload(&[1_u32]), head, &out).unwrap();
            let found = read(&[&out]).remove(0)[0];
            assert!(!found.is_finite(), "{broken}, {softcap:?}: {found}");
        }
    }
}
