//! Products with quantised weights, against sums in f64 over dequantised weights.

use conclave_kernels::*;
use proptest::prelude::*;

use crate::support::*;

struct Case {
    format: Format,
    m: usize,
    n: usize,
    k: usize,
    rows_a_part: usize,
    bias: bool,
    /// Added to the content of the output.
    adds: bool,
}

fn check(seed: u64, case: &Case) {
    let Case {
        format, m, n, k, ..
    } = *case;
    let mut numbers = Numbers(seed);
    let x = numbers.many(m * k);
    let blocks = numbers.blocks(format, n * k);
    let (bias, residual) = (numbers.many(n), numbers.many(m * n));
    let matrix = matrix(format, [n, k], &blocks, case.rows_a_part);

    let gpu_bias = upload(&bias);
    let out = upload(&residual);
    let fused = Fused {
        bias: case.bias.then_some(&gpu_bias),
        adds: case.adds,
        ..Fused::default()
    };
    multiplied(&upload(&x), m, &matrix, fused, &out);
    let found = &read(&[&out])[0];

    let weights = dequantised(format, &blocks);
    for (i, row) in x.chunks(k).enumerate() {
        for (j, weight) in weights.chunks(k).enumerate() {
            let terms = row
                .iter()
                .zip(weight)
                .map(|(a, b)| f64::from(*a) * f64::from(*b));
            let size: f64 = terms.clone().map(f64::abs).sum();
            let mut expected: f64 = terms.sum();
            if case.bias {
                expected += f64::from(bias[j]);
            }
            if case.adds {
                expected += f64::from(residual[i * n + j]);
            }
            let off = (f64::from(found[i * n + j]) - expected).abs();
            assert!(
                off <= 1e-5 * (size + 1.0),
                "{format:?} [{m}, {k}] x [{n}, {k}], row {i}, column {j}: off by {off}, \
                 terms {size}"
            );
        }
    }
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn products_equal_f64(
        seed: u64,
        format in 0..Format::ALL.len(),
        m in 1_usize..40,
        n in 1_usize..70,
        blocks in 1_usize..40,
        rows_a_part in 1_usize..80,
        bias: bool,
        adds: bool,
    ) {
        let format = Format::ALL[format];
        let k = blocks * format.block();
        check(seed, &Case { format, m, n, k, rows_a_part, bias, adds });
    }
}

/// Wide, deep and tall extremes, each in its most sensitive format.
#[test]
fn products_at_the_ends_of_its_range() {
    let case = |format, m, n, k, rows_a_part| Case {
        format,
        m,
        n,
        k,
        rows_a_part,
        bias: true,
        adds: true,
    };
    check(1, &case(Format::Q4_0, 1, 9, 16_384, 9));
    check(2, &case(Format::Q8_0, 3, 5, 16_384, 2));
    check(3, &case(Format::F16, 2048, 3, 64, 3));
    check(4, &case(Format::Q4_0, 1, 262_144, 32, 100_000));
    check(5, &case(Format::F32, 2, 100_003, 4, 100_003));
    check(7, &case(Format::Q4K, 1, 9, 16_384, 4));
    check(8, &case(Format::Q6K, 5, 9, 16_384, 9));
    check(9, &case(Format::Q6K, 1, 32_768, 256, 10_000));
    check(10, &case(Format::Q4_1, 1, 9, 16_384, 4));
    check(11, &case(Format::Q4_1, 30, 20_003, 32, 8_000));
}

/// More workgroups than one dimension holds.
#[test]
fn products_beyond_one_dimension_of_workgroups() {
    check(
        6,
        &Case {
            format: Format::F32,
            m: 1,
            n: 8 * 65_535 + 11,
            k: 4,
            rows_a_part: 1 << 20,
            bias: false,
            adds: false,
        },
    );
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let row = [0; 34];
    let upload = |rows, cols| Matrix::upload(gpu(), Format::Q8_0, rows, cols, &row);
    for (rows, cols) in [
        (1, 33),
        (2, 32),
        (usize::MAX, 64),
        (1 << 40, 32),
        (0, 32),
        (1, 0),
    ] {
        let refused = upload(rows, cols);
        assert!(
            matches!(refused, Err(GpuError::Shape { .. })),
            "[{rows}, {cols}]"
        );
    }
    let message = upload(1, 33).unwrap_err().to_string();
    assert!(
        message.contains("[1, 33]") && message.contains("multiple of 32"),
        "{message}"
    );
    let tight = Matrix::begin_split(gpu(), Format::Q8_0, 1, 32, 40);
    assert!(matches!(tight, Err(GpuError::TooLarge { .. })));

    let matrix = upload(1, 32).unwrap();
    assert_eq!(matrix.bytes(), 48);
    let (short, x, out) = (marked(31), marked(32), marked(1));
    let counts = gpu().upload(&[1_u32]).unwrap();
    let multiply = |x: &Buffer, out: &Buffer| {
        let rows = Rows {
            count: 1,
            counts: &counts,
        };
        product(gpu(), x, rows, &[&matrix], Fused::default(), out)
    };
    assert!(matches!(
        multiply(&short, &out),
        Err(GpuError::Shape { .. })
    ));
    assert!(matches!(multiply(&x, &x), Err(GpuError::Shape { .. })));
    assert!(multiply(&x, &out).is_ok());
}
