//! The fused products of a pass.

use conclave_kernels::*;
use proptest::prelude::*;

use crate::support::*;

struct Case {
    kernel: ProductKernel,
    format: Format,
    m: usize,
    /// Rows of the stacked matrices.
    stack: Vec<usize>,
    k: usize,
    rows_a_part: usize,
    norm: bool,
    bias: bool,
    gate: Option<Activation>,
    adds: bool,
}

/// Root of the mean square.
fn rms(numbers: &[f32]) -> f32 {
    let squares: f32 = numbers.iter().map(|number| number * number).sum();
    (squares / numbers.len() as f32).sqrt()
}

fn check(seed: u64, case: &Case) {
    let Case { format, m, k, .. } = *case;
    let mut numbers = Numbers(seed);
    let n: usize = case.stack.iter().sum();
    let columns = if case.gate.is_some() { n / 2 } else { n };
    let x = numbers.many(m * k);
    let norm_weight = numbers.many(k);
    let bias = numbers.many(n);
    let before = numbers.many(m * columns);
    let mut weights = Vec::new();
    let mut matrices = Vec::new();
    for &rows in &case.stack {
        let blocks = numbers.blocks(format, rows * k);
        weights.extend(dequantised(format, &blocks));
        matrices.push(matrix(format, [rows, k], &blocks, case.rows_a_part));
    }
    let (gpu_norm, gpu_bias, scratch) = (upload(&norm_weight), upload(&bias), marked(m * k));
    // Rows after the last one stay unchanged.
    let out = upload(&[&before[..], &[MARK; 8]].concat());
    let fused = Fused {
        norm: case.norm.then_some(Norm {
            weight: &gpu_norm,
            epsilon: 1e-5,
            scratch: &scratch,
            inside: true,
        }),
        bias: case.bias.then_some(&gpu_bias),
        gate: case.gate,
        adds: case.adds,
    };
    let rows = Rows {
        count: m,
        counts: &upload(&[m as u32]),
    };
    let matrices: Vec<&Matrix> = matrices.iter().collect();
    product_by(
        gpu(),
        (&upload(&x), rows),
        &matrices,
        fused,
        &out,
        case.kernel,
    )
    .unwrap();
    let found = read(&[&out]).remove(0);
    let x = if case.norm {
        rms_norm_cpu(&x, &norm_weight, 1e-5)
    } else {
        x
    };
    let expected = product_cpu(
        &x,
        k,
        &weights,
        case.bias.then_some(&bias),
        case.gate,
        case.adds.then_some(&before),
    );
    // One product may cancel to nearly 0, and a gate's tail is nearly 0: rounding is relative to
    // the products' standard deviation there.
    let spread = rms(&x) * rms(&weights) * (k as f32).sqrt();
    let size = if case.gate.is_some() {
        spread * spread
    } else {
        spread
    };
    let off = difference_over(&found[..m * columns], &expected, size);
    assert!(
        off <= 3e-5,
        "{:?} {format:?} [{m}, {k}] x {:?}: off by {off}",
        case.kernel,
        case.stack
    );
    assert_eq!(found[m * columns..], [MARK; 8]);
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn products_equal_their_twin(
        seed: u64,
        kernel in 0..ProductKernel::ALL.len(),
        format in 0..Format::ALL.len(),
        m in 1_usize..75,
        stack in prop::collection::vec(1_usize..70, 1..4),
        blocks in 1_usize..20,
        rows_a_part in 1_usize..80,
        norm: bool,
        bias: bool,
        gate in 0..4_usize,
        adds: bool,
    ) {
        let format = Format::ALL[format];
        let k = blocks * format.block();
        let gate = [None, None, Some(Activation::Silu), Some(Activation::Gelu)][gate];
        let (stack, rows_a_part) = match gate {
            None => (stack, rows_a_part),
            Some(_) => (vec![2 * stack[0]], 1 << 20),
        };
        let kernel = products().nth(kernel).unwrap_or(ProductKernel::Vector);
        check(seed, &Case { kernel, format, m, stack, k, rows_a_part, norm, bias, gate, adds });
    }
}

/// In its only gate's tail silu is −4e-31 or −0, depending on rounding.
#[test]
fn one_number_in_a_gates_tail_is_right() {
    let case = Case {
        kernel: ProductKernel::ALL[0],
        format: Format::ALL[17],
        m: 1,
        stack: vec![2],
        k: 12 * 256,
        rows_a_part: 1 << 20,
        norm: false,
        bias: false,
        gate: Some(Activation::Silu),
        adds: false,
    };
    check(7_025_082_123_950_031_620, &case);
}

#[test]
fn every_kernel_takes_every_format_at_the_widths_of_models() {
    for kernel in products() {
        for format in Format::ALL {
            let k = if format.block() == 256 { 1024 } else { 576 };
            for gate in [None, Some(Activation::Silu)] {
                check(
                    3,
                    &Case {
                        kernel,
                        format,
                        m: 30,
                        stack: vec![192],
                        k,
                        rows_a_part: 1 << 20,
                        norm: true,
                        bias: true,
                        gate,
                        adds: true,
                    },
                );
            }
        }
    }
}

/// A tile for rows that nearly fill tiles of 32.
#[test]
fn kernels_go_by_the_rows() {
    let rows = [1, 2, 27, 28, 32, 33, 55, 56, 111, 112, 256];
    let kernels = rows.map(|rows| Choices::usual(false).product(rows));
    let [vector, block, tile, ..] = ProductKernel::ALL;
    let expected = [
        vector, block, block, tile, tile, block, block, tile, block, tile, tile,
    ];
    assert_eq!(kernels, expected);
}

/// A gate over a split matrix, matrices of different widths, and no rows at all.
#[test]
fn products_that_do_not_fit_are_refused() {
    let blocks = Numbers(1).blocks(Format::Q8_0, 4 * 64);
    let split = matrix(Format::Q8_0, [4, 64], &blocks, 2);
    let narrow = matrix(Format::Q8_0, [8, 32], &blocks, 8);
    let (x, out, counts) = (marked(64), marked(12), upload(&[1_u32]));
    let refused = |matrices: &[&Matrix], fused, count| {
        let rows = Rows {
            count,
            counts: &counts,
        };
        let result = product(gpu(), &x, rows, matrices, fused, &out);
        matches!(result, Err(GpuError::Shape { .. }))
    };
    let gated = Fused {
        gate: Some(Activation::Silu),
        ..Fused::default()
    };
    assert!(!can_gate(&split));
    assert!(refused(&[&split], gated, 1));
    assert!(refused(&[&narrow, &narrow], gated, 1));
    assert!(refused(&[&split, &narrow], Fused::default(), 1));
    assert!(refused(&[&split], Fused::default(), 0));
    assert!(refused(&[], Fused::default(), 1));
    assert!(refused(&[&narrow], Fused::default(), 3));
    assert!(!refused(&[&narrow], Fused::default(), 1));
}

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn scores_without_logits_equal_their_twin(
        seed: u64, format in 0..Format::ALL.len(), m in 1_usize..70, vocabulary in 1_usize..300,
        blocks in 1_usize..6, rows_a_part in 1_usize..400, bias: bool,
        softcap in prop::option::of(0.5_f32..9.0),
    ) {
        let mut numbers = Numbers(seed);
        let format = Format::ALL[format];
        let k = blocks * format.block();
        let states = numbers.many(m * k);
        let data = numbers.blocks(format, vocabulary * k);
        // Logits up to 30, as a head's are: far larger ones, hidden by a softcap, would round.
        let plain = product_cpu(&states, k, &dequantised(format, &data), None, None, None);
        let largest = plain.iter().fold(1e-3_f32, |largest, v| largest.max(v.abs()));
        let x: Vec<f32> = states.iter().map(|v| v * 30.0 / largest).collect();
        let weights = matrix(format, [vocabulary, k], &data, rows_a_part);
        let biases = numbers.many(vocabulary);
        // Some ids lie past the vocabulary.
        let targets: Vec<u32> = (0..m).map(|_| numbers.below(vocabulary + 1) as u32).collect();
        let (gpu_x, gpu_targets, gpu_bias) = (upload(&x), upload(&targets), upload(&biases));
        let rows = Rows { count: m, counts: &upload(&[m as u32]) };
        let head = Head { weight: &weights, bias: bias.then_some(&gpu_bias), softcap };
        let (out, logits) = (marked(2 * m + 2), marked(m + 2));
        let partials = marked(score_partials(m, &weights));
        score_head(gpu(), &gpu_x, rows, &gpu_targets, head, [&partials, &out]).unwrap();
        target_logits(gpu(), &gpu_x, rows, &gpu_targets, head, &logits).unwrap();
        let expected = score_head_cpu(
            &x, k, &dequantised(format, &data), bias.then_some(&biases), softcap, &targets,
        );
        let found = read(&[&out, &logits]);
        // Terms of a logit may be much larger than the logit.
        let size = 3e-5 * (1.0 + expected.iter().map(|pair| pair[1].abs()).fold(0.0, f32::max));
        for (i, expected) in expected.iter().enumerate() {
            let [logit, sum] = *expected;
            for found in [found[0][2 * i], found[1][i]] {
                prop_assert!(
                    found == logit || (found - logit).abs() <= size,
                    "{} for {}",
                    found,
                    logit
                );
            }
            prop_assert!(
                (found[0][2 * i + 1] - sum).abs() <= size,
                "{} for {}",
                found[0][2 * i + 1],
                sum
            );
        }
        prop_assert_eq!(&found[0][2 * m..], &[MARK; 2]);
        prop_assert_eq!(&found[1][m..], &[MARK; 2]);
    }

    #[test]
    fn norms_behind_products_equal_their_twins(seed: u64, m in 1_usize..40, quads in 1_usize..300) {
        let mut numbers = Numbers(seed);
        let width = 4 * quads;
        let (x, weight, before) = (
            numbers.many(m * width),
            numbers.many(width),
            numbers.many(m * width),
        );
        let picks: Vec<u32> = (0..m).map(|_| numbers.below(m + 1) as u32).collect();
        let (gpu_x, gpu_weight) = (upload(&x), upload(&weight));
        let rows = Rows { count: m, counts: &upload(&[m as u32]) };
        let (sum, picked) = (upload(&[&before[..], &[MARK; 4]].concat()), marked(m * width + 4));
        let norm = PostNorm { weight: &gpu_weight, epsilon: 1e-6, width, each: 1, scale: None };
        norm_add(gpu(), &gpu_x, rows, norm, &sum).unwrap();
        let (states, final_norm) = ((&gpu_x, [m, width]), (&gpu_weight, 1e-6));
        pick_norm(gpu(), states, &upload(&picks), rows, final_norm, &picked).unwrap();
        // All rows belong to one count.
        let (rows, each) = (Rows { count: 1, counts: &upload(&[1_u32]) }, m);
        let scaled = upload(&[&before[..], &[MARK; 4]].concat());
        let norm = PostNorm { each, scale: Some(&upload(&[-0.25_f32; 4])), ..norm };
        norm_add(gpu(), &gpu_x, rows, norm, &scaled).unwrap();
        let found = read(&[&sum, &picked, &scaled]);
        assert_close(&found[0][..m * width], &norm_add_cpu(&x, &weight, 1e-6, 1.0, &before), 1e-5);
        assert_close(
            &found[2][..m * width],
            &norm_add_cpu(&x, &weight, 1e-6, -0.25, &before),
            1e-5,
        );
        prop_assert_eq!(&found[2][m * width..], &[MARK; 4]);
        assert_close(&found[1][..m * width], &pick_norm_cpu(&x, &picks, &weight, 1e-6), 1e-5);
        prop_assert_eq!(&found[0][m * width..], &[MARK; 4]);
        prop_assert_eq!(&found[1][m * width..], &[MARK; 4]);
    }
}
