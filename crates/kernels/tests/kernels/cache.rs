//! The KV cache: append, attention in line, keeping the winner's rows.

use conclave_kernels::*;
use proptest::prelude::*;

use crate::support::*;

/// Packed numbers in the GPU's format.
fn read_words(buffers: &[&Buffer]) -> Vec<Vec<u32>> {
    let read = pollster::block_on(gpu().read(buffers)).expect("a read");
    read.iter()
        .map(|bytes| bytemuck::pod_collect_to_vec(bytes))
        .collect()
}

/// Words of a cache with numbers in −1..1.
fn cache(numbers: &mut Numbers, heads: Heads) -> Vec<u32> {
    let all = heads.capacity * heads.kv_heads * heads.width;
    heads.pack(&numbers.many(all))
}

/// Attention by the kernel, in about `chunks` chunks.
fn attend(
    q: &[f32],
    caches: [&[u32]; 2],
    places: &[Place],
    heads: Heads,
    scores: Scores,
    chunks: usize,
) -> Vec<f32> {
    // Serial threads join theirs in a workgroup.
    let chunks = match gpu().choices().serial {
        true => {
            let most = match heads.width {
                0..=128 => 8,
                129..=256 => 4,
                _ => 2,
            };
            1 << chunks.min(most).ilog2()
        }
        false => chunks,
    };
    let m = places.len();
    let wide = heads.heads * heads.width;
    let partials = marked(attention_partials(m, heads, chunks));
    let out = marked(m * wide);
    let (q, counts) = (upload(q), upload(&[m as u32, chunks as u32]));
    let (places, [keys, values]) = (upload(places), caches.map(upload));
    let of = Attention {
        q: &q,
        rows: Rows {
            count: m,
            counts: &counts,
        },
        chunks,
        places: &places,
        heads,
        scores,
        caches: [&keys, &values],
        partials: &partials,
        out: &out,
    };
    attention(gpu(), of).unwrap();
    read(&[&out]).remove(0)
}

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn append_equals_its_twin(
        seed: u64, tokens in 1_usize..20, kv_heads in 1_usize..4, group in 1_usize..4,
        quads in 1_usize..=128, half_rotary in prop_oneof![Just(0), 0_usize..260],
        norm in 0_usize..4, of_values: bool, row in 0_usize..3, exact: bool,
    ) {
        let mut numbers = Numbers(seed);
        let heads = Heads {
            heads: kv_heads * group,
            kv_heads,
            width: 4 * quads,
            capacity: 50,
            exact,
        };
        let rotary = 2 * half_rotary.min(2 * quads);
        let frequencies: Vec<f32> =
            (0..rotary / 2).map(|i| 10_000_f32.powf(-2.0 * i as f32 / rotary as f32)).collect();
        let table = rope_table(300, &frequencies, 1.25);
        // A layer without rotary embedding takes any table.
        let gpu_table = if table.is_empty() { marked(4) } else { upload(&table) };
        // Rows in any order; two of three tokens stay inside the cache.
        let mut rows: Vec<u32> = (0..75).collect();
        for i in (1..rows.len()).rev() {
            rows.swap(i, numbers.below(i + 1));
        }
        let places: Vec<Place> = (0..tokens)
            .map(|i| Place {
                position: numbers.below(320) as u32,
                row: rows[i],
                start: 0,
                prefix: 0,
            })
            .collect();
        let over = [NormOf::Head, NormOf::AllHeads, NormOf::RotatedHead][norm.saturating_sub(1)];
        let projected = [Projected::All, Projected::Queries, Projected::Gated][row];
        let projected = match over {
            NormOf::AllHeads if row == 2 => Projected::All,
            _ => projected,
        };
        let wide = match projected {
            Projected::All => heads.row(),
            Projected::Gated => heads.gated_row(true),
            Projected::Queries => heads.heads * heads.width,
        };
        let qkv = numbers.many(tokens * wide);
        let of_heads = HeadNorm { epsilon: 1e-6, over, values: of_values };
        let of = |count: usize| {
            if over == NormOf::AllHeads {
                count * heads.width
            } else {
                heads.width
            }
        };
        let (q_norm, k_norm) = (numbers.many(of(heads.heads)), numbers.many(of(kv_heads)));
        let (gpu_q_norm, gpu_k_norm) = (upload(&q_norm), upload(&k_norm));
        let (mut keys, mut values) = (cache(&mut numbers, heads), cache(&mut numbers, heads));
        let (q, gpu_keys, gpu_values) = (
            marked(tokens * heads.heads * heads.width),
            upload(&keys),
            upload(&values),
        );
        let norms = norm > 0;
        append(gpu(), Append {
            qkv: &upload(&qkv),
            tokens,
            projected,
            norm: norms.then_some(QkNorm { query: &gpu_q_norm, key: &gpu_k_norm, of: of_heads }),
            rope: Rotary { table: &gpu_table, context: 300, rotary },
            places: &upload(&places),
            heads,
            q: &q,
            caches: [&gpu_keys, &gpu_values],
        }).unwrap();
        let norm_of = norms.then_some(QkNorm { query: &q_norm[..], key: &k_norm, of: of_heads });
        let rope = Rotary { table: &table[..], context: 300, rotary };
        let caches = [&mut keys[..], &mut values];
        let expected = append_cpu((&qkv, projected), norm_of, rope, &places, heads, caches);
        assert_close(&read(&[&q])[0], &expected, 1e-5);
        let found = read_words(&[&gpu_keys, &gpu_values]);
        // The last bit of an f32 may decide a rounding; rows not named by a token stay unchanged.
        for (found, cache) in found.iter().zip([&keys, &values]) {
            let [found, wanted] = [found, cache].map(|cache| heads.unpack(cache));
            assert_close(&found, &wanted, 4e-5);
        }
        let units = |cache: &[u32]| -> Vec<u32> {
            let heads = cache.chunks(heads.words()).map(|head| &head[heads.width / 2..]);
            heads.flatten().copied().collect()
        };
        if norm == 0 || !of_values {
            prop_assert_eq!(units(&found[1]), units(&values));
        }
    }

    /// One pass over ragged candidates, in any number of chunks, equals a plain pass for each
    /// candidate: the basis of verifying in line.
    #[test]
    fn one_pass_in_line_equals_plain_passes(
        seed: u64,
        lengths in prop::collection::vec(1_u32..=24, 2..=8),
        prefix in 1_u32..=1000,
        kv_heads in 1_usize..3,
        group in 1_usize..6,
        quads in prop_oneof![1_usize..=24, 33_usize..=64, 65_usize..=128],
        chunks in 1_usize..=9,
        window in prop::option::of(1_u32..300),
        softcap in prop::option::of(5.0_f32..50.0),
        exact: bool,
    ) {
        let mut numbers = Numbers(seed);
        let places = places_in_line(prefix, &lengths);
        let capacity = prefix as usize + places.len() + 3;
        let heads = Heads { heads: kv_heads * group, kv_heads, width: 4 * quads, capacity, exact };
        let scores = Scores { scale: 4.0 / (heads.width as f32).sqrt(), window, softcap };
        let wide = heads.heads * heads.width;
        let q = numbers.many(places.len() * wide);
        let (keys, values) = (cache(&mut numbers, heads), cache(&mut numbers, heads));
        let found = attend(&q, [&keys, &values], &places, heads, scores, chunks);
        assert_close(&found, &attention_cpu(&q, [&keys, &values], &places, heads, scores), 2e-5);

        let mut first = 0;
        let words = heads.row_words();
        for length in lengths.iter().map(|l| *l as usize) {
            let kept = prefix as usize * words;
            let own = (prefix as usize + first) * words..(prefix as usize + first + length) * words;
            let plain = |cache: &[u32]| [&cache[..kept], &cache[own.clone()]].concat();
            let part = first * wide..(first + length) * wide;
            let alone = attend(
                &q[part.clone()], [&plain(&keys), &plain(&values)],
                &places_in_sequence(prefix, length as u32),
                Heads { capacity: prefix as usize + length, ..heads }, scores, 1,
            );
            assert_close(&found[part], &alone, 2e-5);
            first += length;
        }
    }
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn keep_rows_equals_its_twin(
        seed: u64, quads in 1_usize..50, src in 0_u32..45, dst in 0_u32..45, count in 0_u32..60,
    ) {
        let mut numbers = Numbers(seed);
        let heads = Heads {
            heads: 3,
            kv_heads: 3,
            width: 4 * quads,
            capacity: 40,
            exact: count % 2 == 0,
        };
        let (mut keys, mut values) = (cache(&mut numbers, heads), cache(&mut numbers, heads));
        let (gpu_keys, gpu_values) = (upload(&keys), upload(&values));
        keep_rows(
            gpu(),
            &upload(&[src, dst, count]),
            heads,
            Caches::Pair([&gpu_keys, &gpu_values]),
        )
        .unwrap();
        keep_rows_cpu(&mut keys, heads.row_words(), [src, dst, count]);
        keep_rows_cpu(&mut values, heads.row_words(), [src, dst, count]);
        prop_assert_eq!(read_words(&[&gpu_keys, &gpu_values]), vec![keys, values.clone()]);
        let gpu_cache = upload(&values);
        keep_rows(gpu(), &upload(&[src, dst, count]), heads, Caches::One(&gpu_cache)).unwrap();
        keep_rows_cpu(&mut values, heads.row_words(), [src, dst, count]);
        prop_assert_eq!(read_words(&[&gpu_cache]), vec![values]);
    }

    /// One pass over ragged candidates equals its twin, and a plain pass for each candidate.
    #[test]
    fn convolve_in_line_equals_its_twin_and_plain_passes(
        seed: u64, lengths in prop::collection::vec(1_u32..=9, 1..=5), prefix in 0_u32..=6,
        quads in 1_usize..=40, count in 1_usize..=6, biased: bool, exact: bool, spare in 0_usize..4,
    ) {
        let mut numbers = Numbers(seed);
        let places = places_in_line(prefix, &lengths);
        let tokens = places.len();
        let width = 4 * quads;
        // One row may lie past the cache, which has at least one.
        let capacity = (prefix as usize + tokens - 1 + spare).max(1);
        let channels = Channels { width, capacity, exact };
        let heads = channels.heads();
        let [bcx, weight, bias] = [3 * tokens, count, 1].map(|rows| numbers.many(rows * width));
        let bias = biased.then_some(&bias[..]);
        let mut cache = heads.pack(&numbers.many(channels.capacity * width));
        let run = |bcx: &[f32], places: &[Place], cache: &[u32]| {
            let (gpu_cache, out) = (upload(cache), marked(places.len() * width));
            let (weight, bias) = (upload(&weight), bias.map(upload));
            let taps = Taps { weight: &weight, count, bias: bias.as_ref() };
            let (bcx, places) = ((&upload(bcx), places.len()), &upload(places));
            convolve(gpu(), bcx, taps, places, (&gpu_cache, channels), &out).unwrap();
            (read(&[&out]).remove(0), read_words(&[&gpu_cache]).remove(0))
        };
        let before = cache.clone();
        let (found, found_cache) = run(&bcx, &places, &cache);
        let expected = convolve_cpu(&bcx, &weight, bias, &places, channels, &mut cache);
        assert_close(&found, &expected, 1e-5);
        assert_close(&heads.unpack(&found_cache), &heads.unpack(&cache), 4e-5);
        let mut first = 0;
        for length in lengths.iter().map(|&length| length as usize) {
            let own = &bcx[3 * first * width..3 * (first + length) * width];
            let (alone, _) = run(own, &places_in_sequence(prefix, length as u32), &before);
            assert_close(&found[first * width..(first + length) * width], &alone, 1e-5);
            first += length;
        }
    }
}

/// Widest head over a long prefix; one key; a whole prefill from nothing; more chunks than keys.
#[test]
fn attention_at_the_ends_of_its_range() {
    let mut numbers = Numbers(9);
    for (places, width, kv_heads, group, chunks) in [
        (places_in_sequence(5000, 1), 256, 1, 2, 7),
        (places_in_sequence(5000, 1), 64, 3, 3, 1),
        (places_in_sequence(700, 9), 256, 3, 2, 4),
        (places_in_sequence(700, 9), 256, 3, 2, 1),
        (places_in_sequence(1000, 1), 64, 3, 3, 8),
        (places_in_sequence(0, 1), 4, 2, 1, 1),
        (places_in_sequence(0, 1), 4, 2, 1, 9),
        (places_in_sequence(0, 200), 100, 1, 3, 1),
        (places_in_sequence(63, 3), 64, 3, 7, 2),
        (places_in_sequence(63, 3), 64, 3, 3, 1),
        (places_in_sequence(5000, 1), 512, 1, 8, 7),
        (places_in_sequence(2000, 5), 512, 2, 2, 2),
    ] {
        let heads = Heads {
            heads: kv_heads * group,
            kv_heads,
            width,
            capacity: places.last().unwrap().row as usize + 1,
            exact: chunks == 1,
        };
        let scores = Scores {
            scale: 8.0,
            window: None,
            softcap: None,
        };
        let q = numbers.many(places.len() * heads.heads * width);
        let (keys, values) = (cache(&mut numbers, heads), cache(&mut numbers, heads));
        let found = attend(&q, [&keys, &values], &places, heads, scores, chunks);
        let expected = attention_cpu(&q, [&keys, &values], &places, heads, scores);
        // Wider heads have larger scores, and larger roundings.
        assert_close(&found, &expected, 3e-5 * (width as f32 / 256.0).max(1.0));
    }
}

/// Each tile of keys has a new highest score, so a serial thread takes its most iterations: no
/// adapter ends its loops before the last key, which here counts most.
#[test]
fn attention_takes_all_keys_of_a_long_cache() {
    for (width, capacity) in [(64, 16_000), (256, 4_850), (512, 2_400)] {
        let heads = Heads {
            heads: 1,
            kv_heads: 1,
            width,
            capacity,
            exact: true,
        };
        let rising = |row: usize| 20.0 * row as f32 / capacity as f32;
        let keys: Vec<f32> = (0..capacity * width).map(|i| rising(i / width)).collect();
        let values = Numbers(12).many(capacity * width);
        let (keys, values) = (heads.pack(&keys), heads.pack(&values));
        let scores = Scores {
            scale: 1.0 / width as f32,
            window: None,
            softcap: None,
        };
        let (q, places) = (vec![1.0; width], places_in_sequence(capacity as u32 - 1, 1));
        let found = attend(&q, [&keys, &values], &places, heads, scores, 1);
        let expected = attention_cpu(&q, [&keys, &values], &places, heads, scores);
        // Thousands of summands.
        assert_close(&found, &expected, 1e-4);
    }
}

/// With nonsense in `places`, no row outside the cache is read, and results are numbers.
#[test]
fn attention_stays_inside_the_cache() {
    let mut numbers = Numbers(11);
    let heads = Heads {
        heads: 2,
        kv_heads: 1,
        width: 8,
        capacity: 10,
        exact: false,
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
        place(9, 9, 0, 0),
    ];
    let q = numbers.many(64);
    let (keys, values) = (cache(&mut numbers, heads), cache(&mut numbers, heads));
    for window in [None, Some(2)] {
        let scores = Scores {
            scale: 1.0,
            window,
            softcap: None,
        };
        let found = attend(&q, [&keys, &values], &places, heads, scores, 2);
        let expected = attention_cpu(&q, [&keys, &values], &places, heads, scores);
        assert_close(&found, &expected, 1e-5);
    }
}

/// Numbers of any size fit: each head has its own scale.
#[test]
fn a_head_of_any_size_fits() {
    let heads = Heads {
        heads: 1,
        kv_heads: 1,
        width: 4,
        capacity: 1,
        exact: false,
    };
    for row in [
        [1.0e30, -0.25e30, 0.0, 3.0e25_f32],
        [1.0e-30, 1.0e-31, -1.0e-30, 0.0],
        [0.0; 4],
    ] {
        let (qkv, keys, values) = (upload(&row.repeat(3)), marked(4), marked(4));
        let rope = Rotary {
            table: &marked(4),
            context: 1,
            rotary: 0,
        };
        let places = upload(&places_in_sequence(0, 1));
        let q = marked(4);
        let of = Append {
            qkv: &qkv,
            tokens: 1,
            projected: Projected::All,
            norm: None,
            rope,
            places: &places,
            heads,
            q: &q,
            caches: [&keys, &values],
        };
        append(gpu(), of).unwrap();
        let largest = row.iter().fold(0.0_f32, |a, b| a.max(b.abs()));
        for cache in read_words(&[&keys, &values]) {
            for (found, wanted) in heads.unpack(&cache).iter().zip(row) {
                assert!(
                    (found - wanted).abs() <= largest / 60_000.0,
                    "{found} is not {wanted}"
                );
            }
        }
    }
}

/// LongRoPE and YaRN multiply cosine and sine: at position 0 a head is scaled without rotation.
#[test]
fn a_rope_factor_scales_what_turns() {
    let table = rope_table(3, &[1.0, 0.25], 1.5);
    assert_eq!(table[..4], [1.5, 0.0, 1.5, 0.0]);
    assert_eq!(table[10..], [0.5_f32.cos() * 1.5, 0.5_f32.sin() * 1.5]);
    let plain = rope_table(3, &[1.0, 0.25], 1.0);
    assert_eq!(plain[10..], [0.5_f32.cos(), 0.5_f32.sin()]);
}
