//! Embedding, normalisation, gate and picked rows.

use conclave_kernels::*;
use proptest::prelude::*;

use crate::support::*;

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn embed_equals_its_twin(
        seed: u64, format in 0..Format::ALL.len(), vocabulary in 1_usize..90, blocks in 1_usize..7,
        tokens in 1_usize..40, rows_a_part in 1_usize..100,
    ) {
        let mut numbers = Numbers(seed);
        let format = Format::ALL[format];
        let cols = blocks * format.block();
        let data = numbers.blocks(format, vocabulary * cols);
        let matrix = matrix(format, [vocabulary, cols], &data, rows_a_part);
        // Some ids lie past the vocabulary.
        let ids: Vec<u32> = (0..tokens)
            .map(|i| {
                if i % 7 == 3 {
                    u32::MAX - i as u32
                } else {
                    numbers.below(vocabulary + 2) as u32
                }
            })
            .collect();
        let out = marked(tokens * cols);
        embed(gpu(), &upload(&ids), tokens, &matrix, 1.5, &out).unwrap();
        let expected = embed_cpu(&ids, &dequantised(format, &data), cols, 1.5);
        assert_close(&read(&[&out])[0], &expected, 1e-6);
    }

    #[test]
    fn rms_norm_equals_its_twin(seed: u64, rows in 1_usize..70, quads in 1_usize..300) {
        let mut numbers = Numbers(seed);
        let width = quads * 4;
        let (x, weight) = (numbers.many(rows * width), numbers.many(width));
        let out = marked(rows * width + 4);
        rms_norm(gpu(), &upload(&x), &upload(&weight), 1e-6, [rows, width], &out).unwrap();
        let found = &read(&[&out])[0];
        assert_close(&found[..rows * width], &rms_norm_cpu(&x, &weight, 1e-6), 1e-5);
        prop_assert_eq!(&found[rows * width..], &[MARK; 4]);
    }

    #[test]
    fn gated_and_gather_equal_their_twins(seed: u64, rows in 1_usize..60, quads in 1_usize..50) {
        let mut numbers = Numbers(seed);
        let width = quads * 4;
        let count = rows * width;
        // Wide enough for both ends of the curves.
        let a: Vec<f32> = numbers.many(count).iter().map(|v| v * 120.0).collect();
        let b = numbers.many(count);
        let (ga, gb) = (upload(&a), upload(&b));
        for activation in [Activation::Silu, Activation::Gelu] {
            let out = marked(count + 4);
            let all = Columns { of: &gb, across: width, first: 0 };
            gated(gpu(), &ga, all, activation, [rows, width], &out).unwrap();
            let found = &read(&[&out])[0];
            assert_close(&found[..count], &gated_cpu(&a, &b, activation), 1e-5);
            prop_assert_eq!(&found[count..], &[MARK; 4]);
            // The last quad of each row alone.
            let last = |of: &[f32]| -> Vec<f32> {
                of.chunks(width).flat_map(|row| row[width - 4..].to_vec()).collect()
            };
            let (few, out) = (last(&a), marked(4 * rows + 4));
            let columns = Columns { of: &gb, across: width, first: width - 4 };
            gated(gpu(), &upload(&few), columns, activation, [rows, 4], &out).unwrap();
            let found = &read(&[&out])[0];
            assert_close(&found[..4 * rows], &gated_cpu(&few, &last(&b), activation), 1e-5);
            prop_assert_eq!(&found[4 * rows..], &[MARK; 4]);
        }
        let picked: Vec<u32> = (0..rows + 3).map(|_| numbers.below(rows + 1) as u32).collect();
        let some = marked(picked.len() * width);
        gather_rows(gpu(), &gb, [rows, width], &upload(&picked), picked.len(), &some).unwrap();
        prop_assert_eq!(&read(&[&some])[0], &gather_rows_cpu(&b, width, &picked));
    }
}

/// The widths of small families, whole and by head.
#[test]
fn rms_norm_at_the_widths_of_models() {
    let mut numbers = Numbers(3);
    for (rows, width) in [
        (2, 576),
        (3, 960),
        (5, 2304),
        (1, 3072),
        (37 * 9, 64),
        (37 * 4, 256),
    ] {
        let (x, weight) = (numbers.many(rows * width), numbers.many(width));
        let out = marked(rows * width);
        rms_norm(
            gpu(),
            &upload(&x),
            &upload(&weight),
            1e-6,
            [rows, width],
            &out,
        )
        .unwrap();
        assert_close(&read(&[&out])[0], &rms_norm_cpu(&x, &weight, 1e-6), 1e-5);
    }
}

#[test]
fn gates_are_right_near_zero() {
    let gate: Vec<f32> = (-40..40).map(|i| i as f32 / 8.0).collect();
    let up = vec![1.0; gate.len()];
    for activation in [Activation::Silu, Activation::Gelu] {
        let out = marked(gate.len());
        gated(
            gpu(),
            &upload(&gate),
            Columns {
                of: &upload(&up),
                across: gate.len(),
                first: 0,
            },
            activation,
            [1, gate.len()],
            &out,
        )
        .unwrap();
        assert_close(&read(&[&out])[0], &gated_cpu(&gate, &up, activation), 1e-6);
    }
}

#[test]
fn more_rows_than_one_dimension_holds() {
    let rows = 65_535 + 10;
    let x: Vec<f32> = (0..rows * 4).map(|i| (i % 97) as f32 - 40.0).collect();
    let weight = [1.0, 2.0, 0.5, -1.0];
    let out = marked(rows * 4);
    rms_norm(gpu(), &upload(&x), &upload(&weight), 1e-6, [rows, 4], &out).unwrap();
    assert_close(&read(&[&out])[0], &rms_norm_cpu(&x, &weight, 1e-6), 1e-5);
}
