//! The gated convolution against its definition.

use conclave_cpu::ConvolutionCache;

/// Pseudorandom numbers in −1..1 (SplitMix64).
fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let signed = |bits: u64| (bits >> 40) as f32 / (1 << 23) as f32 - 1.0;
    (0..count).map(|_| signed(next())).collect()
}

/// C · (Σ taps · B · x + bias) over the visible tokens, oldest first.
#[test]
fn a_token_sees_what_its_rows_say() {
    const ROWS: usize = 9;
    for (width, taps, exact) in [
        (1, 1, true),
        (64, 3, false),
        (100, 4, false),
        (100, 4, true),
    ] {
        let [b, x] = [1, 2].map(|seed| numbers(seed, ROWS * width));
        let [c, bias, weights] =
            [(3, 1), (4, 1), (5, taps)].map(|(seed, rows)| numbers(seed, rows * width));
        let mut cache = ConvolutionCache::new(ROWS, width, exact);
        let row = |of: &[f32], row: usize| of[row * width..(row + 1) * width].to_vec();
        for at in 0..ROWS {
            cache.write(at, &row(&b, at), &row(&x, at));
        }
        // Ignored: beyond the last row.
        cache.write(ROWS, &row(&b, 0), &row(&x, 0));
        let seen: [&[Option<usize>]; 3] = [
            &[None, Some(7), Some(2), Some(8)],
            &[Some(0); 4],
            &[None; 4],
        ];
        for seen in seen.map(|rows| &rows[4 - taps..]) {
            for bias in [None, Some(&bias[..])] {
                let mut found = vec![f32::NAN; width];
                cache.convolve(seen, &weights, bias, &c, &mut found);
                for channel in 0..width {
                    let of_tap = |(tap, row): (usize, &Option<usize>)| {
                        let at = row.map(|row| row * width + channel);
                        at.map_or(0.0, |at| weights[channel * taps + tap] * b[at] * x[at])
                    };
                    let sum: f32 = seen.iter().enumerate().map(of_tap).sum();
                    let wanted = c[channel] * (sum + bias.map_or(0.0, |bias| bias[channel]));
                    let limit = if exact { 1e-6 } else { 1e-4 };
                    assert!(
                        (found[channel] - wanted).abs() <= limit,
                        "{width} {taps} {exact}"
                    );
                }
            }
        }
    }
}

#[test]
fn moved_rows_are_what_they_were() {
    for exact in [true, false] {
        let (width, rows) = (70, 6);
        let [b, x] = [6, 7].map(|seed| numbers(seed, rows * width));
        let mut cache = ConvolutionCache::new(rows, width, exact);
        for (at, (b, x)) in b.chunks(width).zip(x.chunks(width)).enumerate() {
            cache.write(at, b, x);
        }
        let ones = vec![1.0; width];
        let read = |cache: &ConvolutionCache, row: usize| {
            let mut out = vec![0.0; width];
            cache.convolve(&[Some(row)], &ones, None, &ones, &mut out);
            out
        };
        let before: Vec<_> = (0..rows).map(|row| read(&cache, row)).collect();
        // Overlapping, and beyond the last row.
        cache.move_rows(2, 1, 9);
        let after: Vec<_> = (0..rows).map(|row| read(&cache, row)).collect();
        assert_eq!(after[0], before[0]);
        assert_eq!(after[1..5], before[2..6]);
        assert_eq!(after[5], before[5]);
    }
}
