//! The KV cache: rotary append, verify-in-line attention, keeping the winner's rows.

use conclave_kernels::*;
use proptest::prelude::*;

use crate::support::*;

fn frequencies(rotary: usize) -> Vec<f32> {
    (0..rotary / 2)
        .map(|i| 10_000_f32.powf(-2.0 * i as f32 / rotary as f32))
        .collect()
}

/// Attention by the kernel.
fn attend(
    q: &[f32],
    keys: &[f32],
    values: &[f32],
    places: &[Place],
    s: AttentionShape,
) -> Vec<f32> {
    let out = marked(q.len());
    verify_attention(
        gpu(),
        &upload(q),
        &upload(keys),
        &upload(values),
        &upload(places),
        s,
        &out,
    )
    .unwrap();
    read(&[&out]).remove(0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..Default::default() })]

    #[test]
    fn rope_append_equals_its_twin(
        seed: u64, tokens in 1_usize..20, kv_heads in 1_usize..4, group in 1_usize..4,
        half_width in 1_usize..40, half_rotary in prop_oneof![Just(0), 0_usize..40],
        neighbours: bool, factor in 0.5_f32..2.0,
    ) {
        let mut numbers = Numbers(seed);
        let shape = RopeShape {
            tokens,
            heads: kv_heads * group,
            kv_heads,
            width: 2 * half_width,
            rotary: 2 * half_rotary.min(half_width),
            capacity: 50,
            context: 300,
            pairs: if neighbours { Pairs::Neighbours } else { Pairs::Halves },
        };
        let wide = kv_heads * shape.width;
        let table = rope_table(shape.context, &frequencies(shape.rotary), factor);
        // A layer without rotary embedding takes any table.
        let gpu_table = if table.is_empty() { marked(4) } else { upload(&table) };
        // Rows may come in any order; two of three tokens stay inside the cache.
        let mut rows: Vec<u32> = (0..75).collect();
        for i in (1..rows.len()).rev() {
            rows.swap(i, numbers.below(i + 1));
        }
        let places: Vec<Place> = (0..tokens)
            .map(|i| Place { position: numbers.below(320) as u32, row: rows[i], start: 0, prefix: 0 })
            .collect();
        let mut q = numbers.many(tokens * shape.heads * shape.width);
        let (k, v) = (numbers.many(tokens * wide), numbers.many(tokens * wide));
        let (mut keys, mut values) = (numbers.many(50 * wide), numbers.many(50 * wide));
        let (gq, gkeys, gvalues) = (upload(&q), upload(&keys), upload(&values));
        rope_append(
            gpu(), &gq, &upload(&k), &upload(&v), &gkeys, &gvalues, &upload(&places), &gpu_table, shape,
        ).unwrap();
        rope_append_cpu(&mut q, &k, &v, &mut keys, &mut values, &places, &table, shape);
        let found = read(&[&gq, &gkeys, &gvalues]);
        assert_close(&found[0], &q, 1e-6);
        assert_close(&found[1], &keys, 1e-6);
        prop_assert_eq!(&found[2], &values);
    }

    /// One pass over ragged candidates equals one plain pass a candidate: the property
    /// that verifying in line rests on.
    #[test]
    fn one_pass_in_line_equals_plain_passes(
        seed: u64, lengths in prop::collection::vec(1_u32..=24, 2..=8), prefix in 1_u32..=1000,
        kv_heads in 1_usize..3, group in 1_usize..4, quads in 1_usize..=24,
        window in prop::option::of(1_u32..300), softcap in prop::option::of(5.0_f32..50.0),
    ) {
        let mut numbers = Numbers(seed);
        let places = places_in_line(prefix, &lengths);
        let (tokens, heads, width) = (places.len(), kv_heads * group, quads * 4);
        let capacity = prefix as usize + tokens + 3;
        let shape = AttentionShape {
            tokens, heads, kv_heads, width, capacity,
            scale: 4.0 / (width as f32).sqrt(), window, softcap,
        };
        let wide = kv_heads * width;
        let q = numbers.many(tokens * heads * width);
        let (keys, values) = (numbers.many(capacity * wide), numbers.many(capacity * wide));
        let found = attend(&q, &keys, &values, &places, shape);
        assert_close(&found, &verify_attention_cpu(&q, &keys, &values, &places, shape), 1e-5);

        let mut first = 0;
        for length in lengths.iter().map(|l| *l as usize) {
            let kept = prefix as usize * wide;
            let own = (prefix as usize + first) * wide..(prefix as usize + first + length) * wide;
            let plain = |cache: &[f32]| [&cache[..kept], &cache[own.clone()]].concat();
            let part = first * heads * width..(first + length) * heads * width;
            let shape = AttentionShape { tokens: length, capacity: prefix as usize + length, ..shape };
            let places = places_in_sequence(prefix, length as u32);
            let alone = attend(&q[part.clone()], &plain(&keys), &plain(&values), &places, shape);
            assert_close(&found[part], &alone, 1e-5);
            first += length;
        }
    }

    #[test]
    fn move_rows_equals_its_twin(
        seed: u64, quads in 1_usize..100, dst in 0_usize..20, distance in 0_usize..20, count in 0_usize..20,
    ) {
        let mut numbers = Numbers(seed);
        let (width, rows) = (quads * 4, dst + distance + count + 2);
        let (mut keys, mut values) = (numbers.many(rows * width), numbers.many(rows * width));
        let (gkeys, gvalues) = (upload(&keys), upload(&values));
        let src = dst + distance..dst + distance + count;
        move_rows(gpu(), &gkeys, &gvalues, width, src.clone(), dst).unwrap();
        move_rows_cpu(&mut keys, width, src.clone(), dst);
        move_rows_cpu(&mut values, width, src, dst);
        prop_assert_eq!(read(&[&gkeys, &gvalues]), vec![keys, values]);
    }
}

/// LongRoPE and YaRN multiply cosine and sine: at position 0 a head is scaled and not turned.
#[test]
fn a_rope_factor_scales_what_turns() {
    let table = rope_table(3, &[1.0, 0.25], 1.5);
    assert_eq!(table[..4], [1.5, 0.0, 1.5, 0.0]);
    assert_eq!(table[10..], [0.5_f32.cos() * 1.5, 0.5_f32.sin() * 1.5]);
    let plain = rope_table(3, &[1.0, 0.25], 1.0);
    assert_eq!(plain[10..], [0.5_f32.cos(), 0.5_f32.sin()]);
}

#[test]
fn attention_at_the_ends_of_its_range() {
    let mut numbers = Numbers(9);
    // Widest head over a long prefix; one key; a whole prefill from nothing.
    for (places, width, kv_heads, group) in [
        (places_in_sequence(5000, 1), 256, 1, 2),
        (places_in_sequence(0, 1), 4, 2, 1),
        (places_in_sequence(0, 200), 100, 1, 3),
        (places_in_sequence(63, 3), 64, 3, 3),
    ] {
        let capacity = places.last().unwrap().row as usize + 1;
        let (heads, tokens) = (kv_heads * group, places.len());
        let shape = AttentionShape {
            tokens,
            heads,
            kv_heads,
            width,
            capacity,
            scale: 8.0,
            window: None,
            softcap: None,
        };
        let q = numbers.many(tokens * heads * width);
        let keys = numbers.many(capacity * kv_heads * width);
        let values = numbers.many(capacity * kv_heads * width);
        let found = attend(&q, &keys, &values, &places, shape);
        let expected = verify_attention_cpu(&q, &keys, &values, &places, shape);
        assert_close(&found, &expected, 2e-5);
    }
}

/// Nonsense in `places` reads no row outside the cache, and makes numbers.
#[test]
fn attention_stays_inside_the_cache() {
    let mut numbers = Numbers(11);
    let shape = AttentionShape {
        tokens: 3,
        heads: 2,
        kv_heads: 1,
        width: 8,
        capacity: 10,
        scale: 1.0,
        window: None,
        softcap: None,
    };
    let place = |position, row, start, prefix| Place {
        position,
        row,
        start,
        prefix,
    };
    let places = [
        place(u32::MAX, u32::MAX, 3, u32::MAX),
        place(0, 4, u32::MAX, 7),
        place(1, 2, 0, 9),
    ];
    let (q, keys, values) = (numbers.many(48), numbers.many(80), numbers.many(80));
    let found = attend(&q, &keys, &values, &places, shape);
    let expected = verify_attention_cpu(&q, &keys, &values, &places, shape);
    assert_close(&found, &expected, 1e-5);
}

#[test]
fn rows_move_towards_the_start_only() {
    let (keys, values) = (marked(80), marked(80));
    let moved = move_rows(gpu(), &keys, &values, 8, 2..4, 3);
    assert!(matches!(moved, Err(GpuError::Shape { .. })));
    let past_the_end = move_rows(gpu(), &keys, &values, 8, 9..11, 3);
    assert!(matches!(past_the_end, Err(GpuError::Shape { .. })));
}
