//! Mixtures of experts: the choice, its groups, products with the chosen, and their sum.

use conclave_kernels::*;
use proptest::prelude::*;

use crate::support::*;

/// `used` experts of each token, no expert twice.
fn choices(numbers: &mut Numbers, tokens: usize, of: ExpertCounts) -> Vec<u32> {
    let logits = numbers.many(tokens * of.count);
    route_cpu(&logits, of, false, None).0
}

fn words(buffer: &Buffer) -> Vec<u32> {
    let read = pollster::block_on(gpu().read(&[buffer])).expect("a read");
    bytemuck::pod_collect_to_vec(&read[0])
}

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn routes_equal_their_twin(
        seed: u64,
        tokens in 1_usize..20,
        count in 1_usize..140,
        used in 1_usize..12,
        sigmoid: bool,
        biased: bool,
    ) {
        let of = ExpertCounts { count, used: used.min(count) };
        let mut numbers = Numbers(seed);
        // Spread, so that rounding does not change the choice.
        let mut logits: Vec<f32> = Vec::new();
        for _ in 0..tokens {
            let mut row: Vec<f32> = (0..count).map(|i| i as f32 / 16.0 - 4.0).collect();
            for i in (1..count).rev() {
                row.swap(i, numbers.below(i + 1));
            }
            logits.extend(row);
        }
        let bias: Vec<f32> = (0..count).map(|_| numbers.below(3) as f32 * 10.0).collect();
        let gpu_bias = upload(&bias);
        let bias = biased.then_some(&bias[..]);
        let [chosen, scores] = [marked(tokens * of.used + 4), marked(tokens * of.used + 4)];
        let rows = Rows { count: tokens, counts: &upload(&[tokens as u32]) };
        let out = [&chosen, &scores];
        let gpu_bias = biased.then_some(&gpu_bias);
        route(gpu(), (&upload(&logits), rows), of, sigmoid, gpu_bias, out).unwrap();
        let (wanted, wanted_scores) = route_cpu(&logits, of, sigmoid, bias);
        prop_assert_eq!(&words(&chosen)[..tokens * of.used], &wanted[..]);
        prop_assert_eq!(&read(&[&chosen])[0][tokens * of.used..], &[MARK; 4]);
        let found = &read(&[&scores])[0];
        assert_close(&found[..tokens * of.used], &wanted_scores, 1e-5);
        prop_assert_eq!(&found[tokens * of.used..], &[MARK; 4]);
    }

    #[test]
    fn groups_equal_their_twin(
        seed: u64, tokens in 1_usize..70, count in 1_usize..140, used in 1_usize..9,
    ) {
        let of = ExpertCounts { count, used: used.min(count) };
        let chosen = choices(&mut Numbers(seed), tokens, of);
        let wanted = group_choices_cpu(&chosen, of).into_flattened();
        let groups = marked(wanted.len() + 4);
        let rows = Rows { count: tokens, counts: &upload(&[tokens as u32]) };
        group_choices(gpu(), &upload(&chosen), rows, of, &groups).unwrap();
        prop_assert_eq!(&words(&groups)[..wanted.len()], &wanted[..]);
        prop_assert_eq!(&read(&[&groups])[0][wanted.len()..], &[MARK; 4]);
    }

    /// In parts that end within an expert, and one by one as in groups.
    #[test]
    fn products_of_experts_equal_their_twin(
        seed: u64,
        format in 0..Format::ALL.len(),
        tokens in 1_usize..14,
        count in 1_usize..7,
        used in 1_usize..4,
        n in 1_usize..40,
        blocks in 1_usize..8,
        rows_a_part in 1_usize..90,
        of_choices: bool,
        grouped: bool,
    ) {
        let (format, of) = (Format::ALL[format], ExpertCounts { count, used: used.min(count) });
        let k = blocks * format.block();
        let mut numbers = Numbers(seed);
        let chosen = choices(&mut numbers, tokens, of);
        let x = numbers.many(k * if of_choices { chosen.len() } else { tokens });
        let blocks = numbers.blocks(format, count * n * k);
        let matrix = matrix(format, [count * n, k], &blocks, rows_a_part);
        let groups = upload(&group_choices_cpu(&chosen, of));
        let out = marked(chosen.len() * n + 4);
        let of_tokens = Chosen {
            rows: Rows { count: tokens, counts: &upload(&[tokens as u32]) },
            of,
            experts: &upload(&chosen),
            groups: grouped.then_some(&groups),
        };
        experts(gpu(), (&upload(&x), of_choices), of_tokens, &matrix, &out).unwrap();
        let wanted = experts_cpu(&x, k, &dequantised(format, &blocks), count, &chosen);
        let found = &read(&[&out])[0];
        assert_close(&found[..wanted.len()], &wanted, 2e-5);
        prop_assert_eq!(&found[wanted.len()..], &[MARK; 4]);
    }

    #[test]
    fn joined_experts_equal_their_twin(
        seed: u64,
        tokens in 1_usize..20,
        used in 1_usize..9,
        quads in 1_usize..80,
        adds: bool,
        normalised: bool,
    ) {
        let of = Joined {
            used, width: 4 * quads, adds, normalised: normalised.then_some(1e-6), scale: 1.25,
        };
        let mut numbers = Numbers(seed);
        let made = numbers.many(tokens * used * of.width);
        let scores: Vec<f32> = numbers.many(tokens * used).iter().map(|x| x.abs() + 0.01).collect();
        let before = numbers.many(tokens * of.width + 4);
        let out = upload(&before);
        let rows = Rows { count: tokens, counts: &upload(&[tokens as u32]) };
        join_experts(gpu(), &upload(&made), &upload(&scores), rows, of, &out).unwrap();
        let (before, tail) = before.split_at(tokens * of.width);
        let found = &read(&[&out])[0];
        assert_close(&found[..before.len()], &join_experts_cpu(&made, &scores, of, before), 1e-5);
        prop_assert_eq!(&found[before.len()..], tail);
    }
}

#[test]
fn counts_that_no_kernel_takes_are_refused() {
    let (buffer, counts) = (marked(4096), upload(&[1_u32]));
    let rows = Rows {
        count: 1,
        counts: &counts,
    };
    let both = [&buffer, &buffer];
    for (count, used) in [(4, 0), (0, 0), (4, 5), (513, 1)] {
        let of = ExpertCounts { count, used };
        let refused = route(gpu(), (&buffer, rows), of, false, None, both);
        assert!(matches!(refused, Err(GpuError::Shape { .. })), "{of:?}");
        let refused = group_choices(gpu(), &buffer, rows, of, &buffer);
        assert!(matches!(refused, Err(GpuError::Shape { .. })), "{of:?}");
    }
    let matrix = Matrix::upload(gpu(), Format::Q8_0, 3, 32, &[0; 3 * 34]).unwrap();
    let of = |rows, count| Chosen {
        rows,
        of: ExpertCounts { count, used: 1 },
        experts: &buffer,
        groups: None,
    };
    let many = Rows {
        count: 1 << 16,
        counts: &counts,
    };
    let large = marked(33 << 16);
    let out = marked(4096);
    for (x, chosen) in [(&buffer, of(rows, 2)), (&large, of(many, 3))] {
        let refused = experts(gpu(), (x, false), chosen, &matrix, &out);
        assert!(matches!(refused, Err(GpuError::Shape { .. })));
    }
    experts(gpu(), (&buffer, false), of(rows, 3), &matrix, &out).unwrap();
}
