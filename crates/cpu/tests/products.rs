//! Products of packed matrices against f64 sums of their blocks' numbers.

use conclave_cpu::{CpuError, Input, Matrix, Upload, judge, kept, target_logits};
use conclave_weights::{Format, dequantise};

/// A xorshift generator: the same numbers on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 16
    }

    fn number(&mut self) -> f32 {
        (self.next() % 20_001) as f32 / 10_000.0 - 1.0
    }

    fn numbers(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.number()).collect()
    }

    /// Blocks of `format` with arbitrary quants and sound scales.
    fn blocks(&mut self, format: Format, elements: usize) -> Vec<u8> {
        let mut bytes = vec![0; format.bytes_of(elements).expect("whole blocks")];
        bytes.iter_mut().for_each(|byte| *byte = self.next() as u8);
        for block in bytes.chunks_mut(format.block_bytes()) {
            // Scales between 2⁻¹⁰ and 2⁻², of either sign.
            let mut next = || {
                let magnitude = 2.0_f32.powf(-8.0 * (self.number() + 1.0) / 2.0 - 2.0);
                magnitude.copysign(self.number())
            };
            format
                .set_scales(block, &mut next)
                .expect("no large numbers");
        }
        bytes
    }
}

/// A matrix, and its numbers.
fn matrix(random: &mut Random, format: Format, rows: usize, cols: usize) -> (Matrix, Vec<f32>) {
    let bytes = random.blocks(format, rows * cols);
    uploaded(random, format, &bytes, rows, cols)
}

fn uploaded(
    random: &mut Random,
    format: Format,
    bytes: &[u8],
    rows: usize,
    cols: usize,
) -> (Matrix, Vec<f32>) {
    let mut numbers = vec![0.0; rows * cols];
    dequantise(format, bytes, &mut numbers).unwrap();
    let mut upload = Upload::begin(format, rows, cols).unwrap();
    // In ragged pieces.
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, tail) = rest.split_at(rest.len().min(1 + random.next() as usize % 5000));
        upload.push(piece).unwrap();
        rest = tail;
    }
    (upload.finish().unwrap(), numbers)
}

/// The largest error of a product of two rows over the product of their lengths.
fn error(found: &[f32], weights: &[f32], x: &[f32], cols: usize) -> f64 {
    let mut worst = 0.0_f64;
    let rows = weights.len() / cols;
    let product = |a: &[f32], b: &[f32]| -> f64 {
        let terms = a.iter().zip(b);
        terms.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    for (found, x) in found.chunks(rows).zip(x.chunks(cols)) {
        for (found, weights) in found.iter().zip(weights.chunks(cols)) {
            let size = (product(weights, weights) * product(x, x)).sqrt();
            let error = (f64::from(*found) - product(weights, x)).abs();
            assert!(error.is_finite());
            worst = worst.max(error / size.max(1e-9));
        }
    }
    worst
}

#[test]
fn products_are_those_of_the_numbers() {
    let random = &mut Random(0x9e37_79b9_7f4a_7c15);
    for format in Format::ALL {
        let block = format.block_elements();
        for (rows, blocks) in [(1, 1), (8, 2), (13, 3), (64, 2)] {
            let cols = if block == 1 {
                7 * blocks
            } else {
                blocks * block
            };
            let (matrix, numbers) = matrix(random, format, rows, cols);
            for count in [1, 2, 3, 4, 5, 6, 7, 12] {
                // An outlier, as activations have them.
                let mut x = random.numbers(count * cols);
                x[cols / 2] = 300.0;
                let mut input = Input::new();
                input.set(&x, cols);
                let mut out = vec![f32::NAN; count * rows];
                matrix.times(&input, 0..rows, &mut out).unwrap();
                let worst = error(&out, &numbers, &x, cols);
                assert!(
                    worst < 2e-4,
                    "{format} [{rows}, {cols}] × {count}: {worst:e}"
                );
            }
        }
    }
}

/// Sixteen bits lose nothing: eight, as in other engines, miss this by a factor of 100.
#[test]
fn rounding_the_input_costs_nothing_that_shows() {
    let random = &mut Random(5);
    for format in Format::ALL {
        let (matrix, numbers) = matrix(random, format, 256, 1536);
        let x = random.numbers(1536);
        let mut input = Input::new();
        input.set(&x, 1536);
        let mut out = vec![0.0; 256];
        matrix.times(&input, 0..256, &mut out).unwrap();
        let worst = error(&out, &numbers, &x, 1536);
        assert!(worst < 3e-6, "{format}: {worst:e}");
    }
}

#[test]
fn a_share_of_the_rows_is_that_share_of_the_product() {
    let random = &mut Random(7);
    let (matrix, _) = matrix(random, Format::Q4_0, 43, 64);
    let mut input = Input::new();
    input.set(&random.numbers(5 * 64), 64);
    let mut whole = vec![0.0; 5 * 43];
    matrix.times(&input, 0..43, &mut whole).unwrap();
    for rows in [0..8, 8..32, 40..43, 16..16] {
        let mut share = vec![0.0; 5 * rows.len()];
        matrix.times(&input, rows.clone(), &mut share).unwrap();
        for (share, whole) in share.chunks(rows.len().max(1)).zip(whole.chunks(43)) {
            assert_eq!(share, &whole[rows.clone()]);
        }
    }
    for (of, whole) in whole.chunks(43).enumerate() {
        for row in [0, 7, 8, 42] {
            assert_eq!(matrix.dot(&input, of, row), Ok(whole[row]));
        }
    }
}

#[test]
fn rows_may_begin_anywhere() {
    let (mut random, cols, rows) = (Random(12), 64, 21);
    let (matrix, _) = matrix(&mut random, Format::Q8_0, rows, cols);
    let mut input = Input::new();
    input.set(&random.numbers(3 * cols), cols);
    let (mut whole, mut part) = (vec![0.0; 3 * rows], Vec::new());
    matrix.times(&input, 0..rows, &mut whole).unwrap();
    for of in [0..21, 7..14, 8..9, 13..21, 16..16] {
        matrix.times_part(&input, of.clone(), &mut part).unwrap();
        let wanted = whole.chunks(rows).flat_map(|row| &row[of.clone()]);
        assert!(part.iter().eq(wanted), "{of:?}");
    }
    let beyond = matrix.times_part(&input, 20..22, &mut part);
    assert!(matches!(beyond, Err(CpuError::Shape { .. })));
}

#[test]
fn a_row_is_what_its_blocks_stand_for_to_the_bit() {
    let random = &mut Random(11);
    for format in Format::ALL {
        let cols = 2 * format.block_elements();
        let mut bytes = random.blocks(format, 19 * cols);
        if format == Format::MXFP4 {
            // Every exponent is used, the smallest two for subnormal numbers.
            for (i, block) in bytes.chunks_mut(17).enumerate() {
                block[0] = [0, 1, 2, 127, 254, 255][i % 6];
            }
        }
        let (matrix, numbers) = uploaded(random, format, &bytes, 19, cols);
        let mut row = vec![0.0; cols];
        for (index, wanted) in numbers.chunks(cols).enumerate() {
            matrix.row(index, &mut row).unwrap();
            let same = row.iter().map(|x| x.to_bits());
            assert!(
                same.eq(wanted.iter().map(|x| x.to_bits())),
                "{format}, row {index}: {row:?} is not {wanted:?}"
            );
        }
        assert!(matches!(
            matrix.row(19, &mut row),
            Err(CpuError::Shape { .. })
        ));
    }
}

/// No format takes over a tenth more than its file's bytes, except in wasm Q6_K, whose quants
/// become bytes, and those with code books, whose entries are looked up at load: 3 or 4 bits a
/// number.
#[test]
fn memory_is_that_of_the_blocks() {
    let random = &mut Random(13);
    for format in Format::ALL {
        let bytes = match format {
            // Exponents become 16 bits.
            Format::MXFP4 => 18,
            // Six bits of a step or a minimum become eight.
            Format::Q3K => 114,
            Format::Q4K => 148,
            Format::Q5K => 180,
            Format::IQ4XS => 138,
            Format::Q6K if cfg!(target_family = "wasm") => 274,
            Format::IQ2XXS => 106,
            Format::IQ2XS | Format::IQ2S => 114,
            Format::IQ3XXS | Format::IQ3S => 138,
            _ => format.block_bytes(),
        };
        let small = 10 * bytes <= 11 * format.block_bytes();
        let bytewise = cfg!(target_family = "wasm") && format == Format::Q6K;
        assert!(small || bytewise || !format.grid().is_empty(), "{format}");
        let (matrix, _) = matrix(random, format, 64, 8 * format.block_elements());
        assert_eq!(matrix.bytes(), bytes * 8 * 64, "{format}");
    }
}

#[test]
fn what_is_no_number_stays_none() {
    let random = &mut Random(17);
    for format in Format::ALL {
        let cols = format.block_elements().max(32);
        let (matrix, _) = matrix(random, format, 9, cols);
        for broken in [f32::NAN, f32::INFINITY] {
            let mut x = random.numbers(2 * cols);
            x[cols + 5] = broken;
            let mut input = Input::new();
            input.set(&x, cols);
            let mut out = vec![0.0; 18];
            matrix.times(&input, 0..9, &mut out).unwrap();
            assert!(out[..9].iter().all(|x| x.is_finite()), "{format}");
            assert!(out[9..].iter().all(|x| !x.is_finite()), "{format}");
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    assert_eq!(
        Upload::begin(Format::Q8_0, 1, 33).unwrap_err(),
        CpuError::Cols {
            format: Format::Q8_0,
            cols: 33
        }
    );
    assert!(matches!(
        Upload::begin(Format::F32, usize::MAX / 2, 2),
        Err(CpuError::TooLarge { .. })
    ));
    let mut upload = Upload::begin(Format::F32, 3, 2).unwrap();
    upload.push(&[0; 20]).unwrap();
    assert!(matches!(
        upload.push(&[0; 5]),
        Err(CpuError::Bytes {
            expected: 24,
            found: 25
        })
    ));
    assert!(matches!(
        upload.finish(),
        Err(CpuError::Bytes {
            expected: 24,
            found: 20
        })
    ));
    let (matrix, _) = matrix(&mut Random(3), Format::F32, 16, 4);
    let mut input = Input::new();
    input.set(&[0.0; 4], 4);
    for (rows, length) in [(0..17, 17), (4..8, 4), (0..16, 15)] {
        let refused = matrix.times(&input, rows, &mut vec![0.0; length]);
        assert!(matches!(refused, Err(CpuError::Shape { .. })));
    }
    input.set(&[0.0; 5], 5);
    assert!(matrix.times(&input, 0..16, &mut [0.0; 16]).is_err());
}

#[test]
fn every_format_is_kept_as_it_is() {
    for format in Format::ALL {
        for cols in [256, 1024] {
            assert_eq!(kept(format, cols), format);
        }
        for cols in [1, 32, 96, 256] {
            let kept = kept(format, cols);
            assert!(Upload::begin(kept, 8, cols).is_ok(), "{format} × {cols}");
        }
    }
    assert_eq!(kept(Format::BF16, 3), Format::BF16);
    assert_eq!(kept(Format::Q4K, 96), Format::F32);
}

#[test]
fn a_token_is_judged_as_by_all_logits() {
    let random = &mut Random(23);
    let (head, _) = matrix(random, Format::Q8_0, 1300, 64);
    let bias = random.numbers(1300);
    let mut input = Input::new();
    input.set(&random.numbers(3 * 64), 64);
    let mut logits = vec![0.0; 3 * 1300];
    head.times(&input, 0..1300, &mut logits).unwrap();
    let targets = [0, 700, 1299];
    for (bias, cap) in [(None, None), (Some(&bias[..]), Some(5.0_f32))] {
        let found = judge(&head, bias, cap, &input, &targets, &mut Vec::new()).unwrap();
        let alone = target_logits(&head, bias, cap, &input, &targets).unwrap();
        assert_eq!(
            alone,
            found.iter().map(|found| found.logit).collect::<Vec<_>>()
        );
        for ((found, logits), target) in found.iter().zip(logits.chunks(1300)).zip(targets) {
            let logit = |(row, logit): (usize, &f32)| {
                let logit = logit + bias.map_or(0.0, |bias| bias[row]);
                f64::from(cap.map_or(logit, |cap| cap * (logit / cap).tanh()))
            };
            let logits: Vec<f64> = logits.iter().enumerate().map(logit).collect();
            let sum = logits.iter().map(|logit| logit.exp()).sum::<f64>().ln();
            assert!((f64::from(found.logit) - logits[target as usize]).abs() < 1e-5);
            assert!((f64::from(found.log_sum_exp) - sum).abs() < 1e-5);
        }
    }
    assert!(judge(&head, None, None, &input, &[0, 1], &mut Vec::new()).is_err());
    assert!(judge(&head, None, None, &input, &[0, 1, 1300], &mut Vec::new()).is_err());
    assert!(target_logits(&head, None, None, &input, &[0, 1, 1300]).is_err());
}
