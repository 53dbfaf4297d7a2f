//! Matrices that arrive in pieces, and the memory they take.

use conclave_kernels::*;
use proptest::prelude::*;

use crate::support::*;

/// Rows of an odd number of blocks: their scales end in the middle of a word, and pieces and parts
/// begin there. The embedding shows every number, and every one is exact.
#[test]
fn rows_arrive_in_any_pieces() {
    for format in Format::ALL {
        let (rows, cols) = (23, 3 * format.block());
        let blocks = Numbers(17).blocks(format, rows * cols);
        let row_bytes = 3 * format.block_bytes();
        let ids: Vec<u32> = (0..rows as u32).collect();
        let expected = embed_cpu(&ids, &dequantised(format, &blocks), cols, 1.0);
        for (rows_a_part, pieces) in [(23, vec![23]), (23, vec![1; 23]), (5, vec![2, 9, 0, 12])] {
            let limit = format.bytes(rows_a_part as u64, cols) + 16;
            let mut upload = Matrix::begin_split(gpu(), format, rows, cols, limit).unwrap();
            assert_eq!(upload.row_bytes(), row_bytes);
            let mut rest = &blocks[..];
            for rows in pieces {
                let (piece, tail) = rest.split_at(rows * row_bytes);
                upload.push(piece).unwrap();
                rest = tail;
            }
            let matrix = upload.finish().unwrap();
            let out = marked(rows * cols);
            embed(
                gpu(),
                &crate::support::upload(&ids),
                rows,
                &matrix,
                1.0,
                &out,
            )
            .unwrap();
            assert_eq!(read(&[&out])[0], expected, "{format:?} by {rows_a_part}");
        }
    }
}

#[test]
fn missing_surplus_and_broken_rows_are_refused() {
    let begin = || Matrix::begin(gpu(), Format::Q4_0, 3, 64).unwrap();
    let refused = |result: Result<(), GpuError>| matches!(result, Err(GpuError::Shape { .. }));
    let mut upload = begin();
    assert!(refused(upload.push(&[0; 35])));
    assert!(refused(upload.push(&[0; 4 * 36])));
    upload.push(&[0; 2 * 36]).unwrap();
    assert!(refused(upload.push(&[0; 2 * 36])));
    let missing = upload.finish().unwrap_err().to_string();
    assert!(missing.contains("2 of 3 rows"), "{missing}");
    let mut upload = begin();
    upload.push(&[]).unwrap();
    upload.push(&[0; 3 * 36]).unwrap();
    assert!(upload.finish().is_ok());
}

/// Between a queued launch and an upload that may reuse its memory, and before the launch that
/// reads it.
#[test]
fn uploads_and_launches_keep_their_order() {
    let x = upload(&[1.0_f32; 32]);
    for round in 0..40_u8 {
        let byte = round.wrapping_mul(3);
        let rows: Vec<u8> = (0..5)
            .flat_map(|_| [0, 0x3c].into_iter().chain([byte; 32]))
            .collect();
        let matrix = Matrix::upload(gpu(), Format::Q8_0, 5, 32, &rows).unwrap();
        let out = marked(5);
        multiplied(&x, 1, &matrix, Fused::default(), &out);
        drop(matrix);
        let other = Matrix::upload(gpu(), Format::Q8_0, 5, 32, &[0x11; 5 * 34]).unwrap();
        assert_eq!(read(&[&out])[0], [32.0 * f32::from(byte as i8); 5]);
        drop(other);
    }
}

proptest! {
    #![proptest_config(cases(24))]

    /// A stack multiplies like its matrices in sequence.
    #[test]
    fn a_stack_is_its_matrices_one_below_another(
        seed: u64,
        index in 0_usize..Format::ALL.len(),
        blocks in 1_usize..4,
        rows in proptest::collection::vec(1_usize..40, 1..4),
    ) {
        let format = Format::ALL[index];
        let cols = blocks * format.block();
        let mut numbers = Numbers(seed);
        let of: Vec<_> = rows.iter().map(|&rows| (format, rows)).collect();
        let stored: Vec<Vec<u8>> = rows
            .iter()
            .map(|&rows| numbers.blocks(format, rows * cols))
            .collect();
        let matrices: Vec<Matrix> = rows.iter().zip(&stored)
            .map(|(&rows, blocks)| Matrix::upload(gpu(), format, rows, cols, blocks).unwrap())
            .collect();
        let stack = Matrix::stack(gpu(), &matrices.iter().collect::<Vec<_>>()).unwrap();
        prop_assert_eq!(stack.is_some(), Matrix::stacks(&of, cols));
        if let Some(stack) = stack {
            let whole =
                Matrix::upload(gpu(), format, rows.iter().sum(), cols, &stored.concat()).unwrap();
            let x = upload(&numbers.many(cols));
            let outs = [&stack, &whole].map(|matrix| {
                let out = marked(matrix.rows());
                multiplied(&x, 1, matrix, Fused::default(), &out);
                read(&[&out]).remove(0)
            });
            prop_assert_eq!(&outs[0], &outs[1]);
        }
    }

    #[test]
    fn put_rows_equals_its_twin(
        seed: u64,
        rows in 1_usize..9,
        quads in 1_usize..40,
        at in 0_u32..10,
    ) {
        let mut numbers = Numbers(seed);
        let (width, count) = (4 * quads, 3);
        let x = numbers.many(count * width);
        let mut out = numbers.many(rows * width);
        let buffer = upload(&out);
        put_rows(
            gpu(),
            &upload(&x),
            count,
            (&upload(&[7_u32, at]), 1),
            &buffer,
            [rows, width],
        )
        .unwrap();
        put_rows_cpu(&x, at as usize, &mut out, width);
        prop_assert_eq!(&read(&[&buffer])[0], &out);
    }
}
