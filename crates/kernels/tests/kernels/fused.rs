//! The fused products of a pass.

use conclave_kernels::*;
use proptest::prelude::*;

use crate::support::*;

const KERNELS: [ProductKernel; 3] = [
    ProductKernel::Vector,
    ProductKernel::Block,
    ProductKernel::Tile,
];

struct Case {
    kernel: ProductKernel,
    format: Format,
    m: usize,
    /// Rows of the matrices, one below another.
    stack: Vec<usize>,
    k: usize,
    rows_a_part: usize,
    norm: bool,
    bias: bool,
    gate: Option<Activation>,
    adds: bool,
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
    // Rows behind the last one are not touched.
    let out = upload(&[&before[..], &[MARK; 8]].concat());
    let fused = Fused {
        norm: case.norm.then_some(Norm {
            weight: &gpu_norm,
            epsilon: 1e-5,
            scratch: &scratch,
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
        &upload(&x),
        rows,
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
    let off = difference(&found[..m * columns], &expected);
    assert!(
        off <= 3e-5,
        "{:?} {format:?} [{m}, {k}] x {:?}: off by {off}",
        case.kernel,
        case.stack
    );
    assert_eq!(found[m * columns..], [MARK; 8]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..Default::default() })]

    #[test]
    fn products_equal_their_twin(
        seed: u64, kernel in 0..3_usize, format in 0..Format::ALL.len(), m in 1_usize..75,
        stack in prop::collection::vec(1_usize..70, 1..4), blocks in 1_usize..20,
        rows_a_part in 1_usize..80, norm: bool, bias: bool, gate in 0..4_usize, adds: bool,
    ) {
        let format = Format::ALL[format];
        let k = blocks * format.block();
        let gate = [None, None, Some(Activation::Silu), Some(Activation::Gelu)][gate];
        let (stack, rows_a_part) = match gate {
            None => (stack, rows_a_part),
            Some(_) => (vec![2 * stack[0]], 1 << 20),
        };
        let kernel = KERNELS[kernel];
        check(seed, &Case { kernel, format, m, stack, k, rows_a_part, norm, bias, gate, adds });
    }
}

#[test]
fn every_kernel_takes_every_format_at_the_widths_of_models() {
    for kernel in KERNELS {
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
