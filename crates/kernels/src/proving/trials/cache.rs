//! Trials of the kernels of the KV cache.

use super::numbers::{Numbers, unwritten};
use super::{Trial, close};
use crate::ops::attention::attention_by;
use crate::{
    Append, Attention, Buffer, Caches, Channels, Gpu, GpuError, HeadNorm, Heads, NormOf, Place,
    Projected, QkNorm, Rotary, Rows, Scores, Taps, attention_partials, places_in_line,
    places_of_candidate, rope_table,
};

/// Queries, keys and values; then rows of queries alone, without a norm, which leave the caches
/// unchanged.
pub(super) fn append(gpu: &Gpu, exact: bool, over: NormOf) -> Result<Trial, GpuError> {
    /// Positions of the table, fewer than used; rotating numbers of a head.
    const CONTEXT: usize = 10;
    const ROTARY: usize = 40;
    let of = HeadNorm {
        epsilon: 1e-3,
        over,
        values: true,
    };
    let heads = Heads {
        heads: 4,
        kv_heads: 2,
        width: 72,
        capacity: 12,
        exact,
    };
    // One row of the second candidate lies past the cache and is not written.
    let places = places_in_line(8, &[2, 3]);
    let tokens = places.len();
    let mut numbers = Numbers(3);
    // With gates, which are skipped: the case without is simpler.
    let qkv = numbers.many(tokens * heads.gated_row(true));
    let norms = [numbers.many(heads.width), numbers.many(heads.width)];
    let frequencies: Vec<f32> = (0..ROTARY / 2).map(|i| 0.9_f32.powi(i as i32)).collect();
    let table = rope_table(CONTEXT, &frequencies, 1.25);
    let cache = numbers.many(heads.capacity * heads.kv_heads * heads.width);
    let mut caches = [heads.pack(&cache), heads.pack(&cache)];
    let gpu_caches = [gpu.upload(&caches[0])?, gpu.upload(&caches[1])?];
    let [keys, values] = &mut caches;
    let norm = Some(QkNorm {
        query: &norms[0][..],
        key: &norms[1],
        of,
    });
    let mut twin = |projected, norm| {
        let caches = [&mut keys[..], &mut values[..]];
        let rope = Rotary {
            table: &table[..],
            context: CONTEXT,
            rotary: ROTARY,
        };
        crate::append_cpu((&qkv, projected), norm, rope, &places, heads, caches)
    };
    let queries = [twin(Projected::Gated, norm), twin(Projected::Queries, None)];
    let wide = tokens * heads.heads * heads.width;
    let q = [unwritten(gpu, wide)?, unwritten(gpu, wide)?];
    let (found, found_caches) = (q.clone(), gpu_caches.clone());
    let [qkv, table] = [gpu.upload(&qkv)?, gpu.upload(&table)?];
    let norms = [gpu.upload(&norms[0])?, gpu.upload(&norms[1])?];
    let places = gpu.upload(&places)?;
    let trial = Trial::new(move |launcher| {
        let norm = QkNorm {
            query: &norms[0],
            key: &norms[1],
            of,
        };
        let rope = Rotary {
            table: &table,
            context: CONTEXT,
            rotary: ROTARY,
        };
        let [keys, values] = &gpu_caches;
        let caches = [keys, values];
        let rows = [(Projected::Gated, Some(norm)), (Projected::Queries, None)];
        rows.into_iter()
            .zip(&q)
            .try_for_each(|((projected, norm), q)| {
                let of = Append {
                    qkv: &qkv,
                    tokens,
                    projected,
                    norm,
                    rope,
                    places: &places,
                    heads,
                    q,
                    caches,
                };
                crate::append(launcher, of)
            })
    });
    // Three results of one launch, and one of another.
    let trial = trial.all_numbers(found.into_iter().zip(queries));
    let both = found_caches.into_iter().zip(caches);
    Ok(both.fold(trial, |trial, (found, cache)| {
        let expected = heads.unpack(&cache);
        // The last bit of an f32 may decide a rounding.
        trial.answer(&found, move |bytes| {
            close(
                &heads.unpack(&bytemuck::pod_collect_to_vec(bytes)),
                &expected,
            )
        })
    }))
}

/// Over more keys than a workgroup has threads; a workgroup's queries belong to two candidates.
/// With the kernel for `long` caches, though this one is short.
pub(super) fn attention(
    gpu: &Gpu,
    exact: bool,
    long: bool,
    wide: bool,
    chunks: usize,
) -> Result<Trial, GpuError> {
    let places = places_in_line(70, &[3, 2]);
    let heads = Heads {
        heads: 4,
        kv_heads: 2,
        // A quad more than the columns of one workgroup.
        width: if wide { 260 } else { 20 },
        capacity: 75,
        exact,
    };
    let count = places.len();
    let mut numbers = Numbers(4);
    let q = numbers.many(count * heads.heads * heads.width);
    let mut cache = || heads.pack(&numbers.many(heads.capacity * heads.kv_heads * heads.width));
    let caches = [cache(), cache()];
    let scores = Scores {
        scale: 1.5,
        window: (chunks == 1).then_some(68),
        softcap: (chunks == 1).then_some(3.0),
    };
    let expected = crate::attention_cpu(&q, [&caches[0], &caches[1]], &places, heads, scores);
    let out = unwritten(gpu, q.len())?;
    let found = out.clone();
    let partials = unwritten(gpu, attention_partials(count, heads, chunks))?;
    let counts = gpu.upload(&[count as u32, chunks as u32])?;
    let (q, places) = (gpu.upload(&q)?, gpu.upload(&places)?);
    let [keys, values] = [gpu.upload(&caches[0])?, gpu.upload(&caches[1])?];
    let trial = Trial::new(move |launcher| {
        let of = Attention {
            q: &q,
            rows: Rows {
                count,
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
        attention_by(launcher, launcher.choices().serial && !long, of)
    });
    Ok(trial.numbers(&found, expected))
}

/// Overlapping rows, wider than a workgroup has threads.
pub(super) fn keep_rows(gpu: &Gpu) -> Result<Trial, GpuError> {
    let moves = gpu.upload(&MOVES)?;
    let [(keys, of_keys), (values, of_values)] = [moved(gpu, 5)?, moved(gpu, 6)?];
    let found = [keys.clone(), values.clone()];
    let trial = Trial::new(move |launcher| {
        crate::keep_rows(launcher, &moves, MOVED, Caches::Pair([&keys, &values]))
    });
    Ok(trial.words(&found[0], of_keys).words(&found[1], of_values))
}

pub(super) fn keep_rows_of_one(gpu: &Gpu) -> Result<Trial, GpuError> {
    let (moves, (cache, expected)) = (gpu.upload(&MOVES)?, moved(gpu, 5)?);
    let found = cache.clone();
    let trial =
        Trial::new(move |launcher| crate::keep_rows(launcher, &moves, MOVED, Caches::One(&cache)));
    Ok(trial.words(&found, expected))
}

const MOVED: Heads = Heads {
    heads: 3,
    kv_heads: 3,
    width: 48,
    capacity: 9,
    exact: true,
};

const MOVES: [u32; 3] = [4, 2, 3];

/// A cache, and the same after the moves.
fn moved(gpu: &Gpu, seed: u64) -> Result<(Buffer, Vec<u32>), GpuError> {
    let numbers = Numbers(seed).many(MOVED.capacity * MOVED.kv_heads * MOVED.width);
    let mut cache = MOVED.pack(&numbers);
    let buffer = gpu.upload(&cache)?;
    crate::keep_rows_cpu(&mut cache, MOVED.row_words(), MOVES);
    Ok((buffer, cache))
}

/// Two candidates: some tokens of the first ran before; the second has a row past the cache, and
/// reaches before the text's beginning.
pub(super) fn convolve(gpu: &Gpu, exact: bool) -> Result<Trial, GpuError> {
    const TAPS: usize = 4;
    let channels = Channels {
        width: 72,
        capacity: 6,
        exact,
    };
    let mut places: Vec<Place> = places_of_candidate(2, 2, 2, 1).collect();
    places.extend(places_of_candidate(2, 5, 0, 2));
    let tokens = places.len();
    let mut numbers = Numbers(6);
    let bcx = numbers.many(3 * tokens * channels.width);
    let [weight, bias] = [TAPS, 1].map(|count| numbers.many(count * channels.width));
    let heads = channels.heads();
    let mut cache = heads.pack(&numbers.many(channels.capacity * channels.width));
    let gpu_cache = gpu.upload(&cache)?;
    let expected = crate::convolve_cpu(&bcx, &weight, Some(&bias), &places, channels, &mut cache);
    let out = unwritten(gpu, expected.len())?;
    let (found, found_cache) = (out.clone(), gpu_cache.clone());
    let [bcx, weight, bias] = [gpu.upload(&bcx)?, gpu.upload(&weight)?, gpu.upload(&bias)?];
    let places = gpu.upload(&places)?;
    let trial = Trial::new(move |launcher| {
        let taps = Taps {
            weight: &weight,
            count: TAPS,
            bias: Some(&bias),
        };
        let cache = (&gpu_cache, channels);
        crate::convolve(launcher, (&bcx, tokens), taps, &places, cache, &out)
    });
    let expected_cache = heads.unpack(&cache);
    let trial = trial.numbers(&found, expected);
    // The last bit of an f32 may decide a rounding.
    Ok(trial.answer(&found_cache, move |bytes| {
        close(
            &heads.unpack(&bytemuck::pod_collect_to_vec(bytes)),
            &expected_cache,
        )
    }))
}
