//! Attention over the packed cache against its definition in f64. The tolerance covers the cache's
//! 16 bits.

use conclave_cpu::{Attention, Cache, Seen};

fn number(seed: usize) -> f32 {
    ((seed * 2_654_435_761) % 4001 % 255) as f32 / 64.0 - 2.0
}

fn key(row: usize, head: usize, i: usize) -> f32 {
    number(row * 977 + head * 131 + i)
}

fn value(row: usize, head: usize, i: usize) -> f32 {
    number(row * 613 + head * 71 + i + 5)
}

fn write(cache: &mut Cache, row: usize, of: usize) {
    let (heads, width) = (cache.heads(), cache.width());
    let all = |number: fn(usize, usize, usize) -> f32| -> Vec<f32> {
        (0..heads * width)
            .map(|i| number(of, i / width, i % width))
            .collect()
    };
    cache.write(row, &all(key), &all(value));
}

/// Compares attention to its definition: `of` returns the key and value in a row.
fn hold(cache: &Cache, attention: Attention, seen: &[Seen], of: impl Fn(usize) -> usize) {
    let (width, heads) = (cache.width(), attention.heads);
    let queries: Vec<f32> = (0..seen.len() * heads * width)
        .map(|i| number(i * 37 + 11))
        .collect();
    let mut out = vec![f32::NAN; queries.len()];
    attention.run(cache, &queries, seen, &mut vec![f32::NAN; 3], &mut out);
    for (token, seen) in seen.iter().enumerate() {
        for head in 0..heads {
            let at = (token * heads + head) * width;
            let kv = head / (heads / cache.heads());
            let rows: Vec<usize> = seen.prefix.clone().chain(seen.own.clone()).collect();
            let score = |row: &usize| {
                let dot: f64 = (0..width)
                    .map(|i| f64::from(queries[at + i]) * f64::from(key(of(*row), kv, i)))
                    .sum();
                let score = dot * f64::from(attention.scale);
                attention.softcap.map_or(score, |cap| {
                    f64::from(cap) * (score / f64::from(cap)).tanh()
                })
            };
            let scores: Vec<f64> = rows.iter().map(score).collect();
            let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = scores.iter().map(|score| (score - top).exp()).sum();
            for i in 0..width {
                let wanted: f64 = rows
                    .iter()
                    .zip(&scores)
                    .map(|(row, score)| {
                        (score - top).exp() / sum * f64::from(value(of(*row), kv, i))
                    })
                    .sum();
                let error = (f64::from(out[at + i]) - wanted).abs();
                assert!(
                    error < 3e-4,
                    "token {token}, head {head}, {i}: {} is not {wanted}",
                    out[at + i]
                );
            }
        }
    }
}

#[test]
fn a_prompt_sees_what_is_before() {
    for (heads, kv_heads, width) in [(1, 1, 8), (9, 3, 64), (4, 2, 20), (6, 1, 5)] {
        let mut cache = Cache::new(50, kv_heads, width, width == 20);
        (0..40).for_each(|row| write(&mut cache, row, row));
        let seen: Vec<Seen> = (29..40)
            .map(|row| Seen {
                prefix: 0..29,
                own: 29..row + 1,
            })
            .collect();
        let attention = Attention {
            heads,
            scale: 0.2,
            softcap: None,
        };
        hold(&cache, attention, &seen, |row| row);
        hold(&cache, attention, &seen[3..4], |row| row);
        let capped = Attention {
            softcap: Some(3.0),
            ..attention
        };
        hold(&cache, capped, &seen[2..8], |row| row);
    }
}

#[test]
fn candidates_in_line_see_the_prefix_and_themselves() {
    let mut cache = Cache::new(64, 2, 16, false);
    (0..60).for_each(|row| write(&mut cache, row, row));
    let mut seen = Vec::new();
    for (start, length) in [(21, 5), (26, 1), (27, 9), (36, 3)] {
        seen.extend((0..length).map(|i| Seen {
            // A window that excludes the first rows, and at last the prefix.
            prefix: (i * 5).min(21)..21,
            own: start..start + i + 1,
        }));
    }
    let attention = Attention {
        heads: 4,
        scale: 0.3,
        softcap: None,
    };
    hold(&cache, attention, &seen, |row| row);
    let none = Seen {
        prefix: 0..0,
        own: 0..1,
    };
    hold(&cache, attention, &[none], |row| row);
}

#[test]
fn moved_rows_are_what_they_were() {
    for exact in [false, true] {
        move_in(Cache::new(40, 3, 12, exact));
    }
}

fn move_in(mut cache: Cache) {
    (0..40).for_each(|row| write(&mut cache, row, row));
    cache.move_rows(23, 10, 14);
    let seen = [Seen {
        prefix: 0..10,
        own: 10..24,
    }];
    let attention = Attention {
        heads: 3,
        scale: 0.25,
        softcap: None,
    };
    hold(&cache, attention, &seen, |row| {
        if row < 10 { row } else { row + 13 }
    });
    // Rows out of range are skipped.
    cache.move_rows(35, 30, 100);
    cache.write(1000, &[0.0; 36], &[0.0; 36]);
    let after = [Seen {
        prefix: 0..0,
        own: 30..35,
    }];
    hold(&cache, attention, &after, |row| row + 5);
}
