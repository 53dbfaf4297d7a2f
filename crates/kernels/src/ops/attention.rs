//! Masked attention for verifying all candidates in line; decode and prefill are the case of one
//! candidate right after the prefix.

use bytemuck::{Pod, Zeroable};
use conclave_gpu::{Shader, Use, count, number_in};

use crate::{Buffer, Dispatch, Gpu, GpuError, Heads, Launcher, Place, Rows, serial};

const WGSL: &str = wgsl!("attention/cooperative.wgsl");
pub(crate) const SHARE: &str = wgsl!("shared/attention/share.wgsl");
pub(crate) const SHORT: &str = wgsl!("shared/cache/read_short.wgsl");
pub(crate) const EXACT: &str = wgsl!("shared/cache/read_exact.wgsl");
const NARROW: &str = wgsl!("shared/attention/narrow.wgsl");
const WIDE: &str = wgsl!("shared/attention/wide.wgsl");
const COMBINE: &str = wgsl!("attention_combine.wgsl");
const JOIN: &str = wgsl!("shared/attention/join.wgsl");

/// Widest head of the narrow kernels.
const NARROW_WIDTH: usize = 4 * number_in(NARROW, "MAX_QUADS: u32 = ") as usize;
/// Number of value columns that a workgroup of cooperative threads computes.
const OWNED: usize = 4 * number_in(WGSL, "WORKGROUP: u32 = ") as usize;
/// Number of queries in a share.
const QUERIES: usize = number_in(SHARE, "QUERIES: u32 = ") as usize;
/// Number of workgroups that keeps a large GPU busy; with fewer, keys are divided into chunks.
const WORKGROUPS: usize = 256;
/// Smallest number of keys that are divided into chunks: joining chunks costs a dispatch.
const DIVIDED: usize = 512;
/// Smallest number of keys in a chunk: those of a tile.
const CHUNK: usize = 64;

/// Parameters of the kernel.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub struct Params {
    heads: u32,
    kv_heads: u32,
    quads: u32,
    capacity: u32,
    window: u32,
    scale: f32,
    softcap: f32,
    spare: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct CombineParams {
    heads: u32,
    quads: u32,
    spare: [u32; 2],
}

/// Shaders for heads of up to 256 numbers and for wider ones, each for 16-bit caches and for exact
/// ones.
pub(crate) static SHADERS: [[Shader; 2]; 2] = [
    [
        Shader::new::<Params>("attention", &[WGSL, SHARE, SHORT, NARROW]),
        Shader::new::<Params>("attention_exact", &[WGSL, SHARE, EXACT, NARROW]),
    ],
    [
        Shader::new::<Params>("attention_wide", &[WGSL, SHARE, SHORT, WIDE]),
        Shader::new::<Params>("attention_wide_exact", &[WGSL, SHARE, EXACT, WIDE]),
    ],
];

pub(crate) static COMBINE_SHADER: Shader =
    Shader::new::<CombineParams>("attention_combine", &[COMBINE, JOIN]);

/// Scale, window and softcap of the scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scores {
    /// Factor on the scores, usually 1 / √width.
    pub scale: f32,
    /// Positions visible to a query, backwards from its own, inclusive.
    pub window: Option<u32>,
    /// Scores become `softcap · tanh(score / softcap)`.
    pub softcap: Option<f32>,
}

/// Whether cooperative threads use the kernel for wide heads.
pub(crate) fn is_wide(heads: Heads) -> bool {
    heads.width > NARROW_WIDTH
}

/// Number of chunks of the keys for a pass whose tokens see up to `keys` rows.
fn attention_chunks(serial: bool, tokens: usize, heads: Heads, keys: usize) -> usize {
    let share = heads.heads / heads.kv_heads.max(1);
    let groups = heads.kv_heads * (tokens * share).div_ceil(QUERIES);
    let wanted = WORKGROUPS.div_ceil(groups.max(1));
    match serial {
        true => serial::attention::chunks(heads),
        false if keys < DIVIDED => 1,
        false => wanted.min(keys / CHUNK).max(1),
    }
}

impl Launcher {
    /// Number of chunks of the keys for attentions with all of these heads, in a pass whose tokens
    /// see up to `keys` rows.
    pub fn attention_chunks(
        &self,
        tokens: usize,
        all: impl IntoIterator<Item = Heads>,
        keys: usize,
    ) -> usize {
        let choices = self.choices();
        if !choices.chunks {
            return 1;
        }
        let mut any_serial = false;
        let chunks = all.into_iter().map(|heads| {
            let [cooperative, serial] =
                [false, true].map(|serial| attention_chunks(serial, tokens, heads, keys));
            let is_serial = choices.serial && serial::attention::fits(heads, serial);
            any_serial |= is_serial;
            if is_serial { serial } else { cooperative }
        });
        let chunks = chunks.min().unwrap_or(1);
        // The largest number may exceed what serial threads hold side by side in a workgroup.
        if any_serial {
            1 << chunks.ilog2()
        } else {
            chunks
        }
    }
}

/// Numbers that `partials` needs for all passes of up to `tokens` tokens with any kernel: a
/// device's [choices](crate::Choices) may change later.
pub fn attention_room(tokens: usize, heads: Heads) -> usize {
    let passes = (1..=tokens).flat_map(|tokens| {
        [false, true].map(|serial| {
            let chunks = attention_chunks(serial, tokens, heads, heads.capacity);
            match serial {
                true => serial::attention::partials(tokens, heads, chunks),
                false => attention_partials(tokens, heads, chunks),
            }
        })
    });
    passes.max().unwrap_or(attention_partials(0, heads, 1))
}

/// Numbers that `partials` needs for a pass in `chunks` chunks.
pub fn attention_partials(tokens: usize, heads: Heads, chunks: usize) -> usize {
    match chunks {
        0 | 1 => 4,
        _ => tokens * heads.heads * chunks * (heads.width + 4),
    }
}

/// Inputs and outputs of attention.
#[derive(Debug, Clone, Copy)]
pub struct Attention<'a> {
    /// Queries `[m, heads, width]`.
    pub q: &'a Buffer,
    /// Number m of queries; the second number of its `counts` is `chunks`.
    pub rows: Rows<'a>,
    /// Number of chunks of the keys, from [`Launcher::attention_chunks`].
    pub chunks: usize,
    /// Visible rows of each query: `m` [`Place`]s.
    pub places: &'a Buffer,
    /// The caches' shape.
    pub heads: Heads,
    /// Scale, window and softcap of the scores.
    pub scores: Scores,
    /// Keys and values, `[capacity, kv_heads, words of a head]`.
    pub caches: [&'a Buffer; 2],
    /// Space for chunks' results: [`attention_partials`], or [`attention_room`] for any pass.
    pub partials: &'a Buffer,
    /// `[m, heads, width]`.
    pub out: &'a Buffer,
}

/// Attention of queries over the caches of [`Heads`]. Each query sees the cache rows `0..prefix`
/// (row = position there) and `start..=row` of its [`Place`]. Rows past the capacity are clamped,
/// never read. Chunks are joined by a second dispatch, except with serial threads.
///
/// # Errors
/// [`GpuError::Shape`] for widths that do not fit and buffers too small.
pub fn attention(launcher: &Launcher, of: Attention<'_>) -> Result<(), GpuError> {
    let serial = launcher.choices().serial && serial::attention::fits(of.heads, of.chunks);
    attention_by(launcher, serial, of)
}

/// [`attention`] by serial threads, or by cooperative ones.
///
/// # Errors
/// As [`attention`].
pub(crate) fn attention_by(gpu: &Gpu, serial: bool, of: Attention<'_>) -> Result<(), GpuError> {
    let Attention {
        q,
        rows,
        chunks,
        places,
        heads,
        scores,
        caches: [keys, values],
        partials,
        out,
    } = of;
    let m = rows.count;
    let dispatch = attention_dispatch(serial, m, heads, scores, chunks)?;
    let name = dispatch.name();
    let queries = m * heads.heads * heads.width;
    q.holds(queries, name, "q")?;
    keys.holds(heads.cache_bytes() / 4, name, "keys")?;
    values.holds(heads.cache_bytes() / 4, name, "values")?;
    places.holds(m * 4, name, "places")?;
    rows.counts.holds(2, name, "counts")?;
    out.holds(queries, name, "out")?;
    let partial = match serial {
        true if chunks > 1 => serial::attention::partials(m, heads, chunks),
        true => 0,
        false => attention_partials(m, heads, chunks),
    };
    partials.holds(partial, name, "partials")?;
    let buffers = [
        Use::Read(q),
        Use::Read(keys),
        Use::Read(values),
        Use::Read(places),
        Use::Read(rows.counts),
        Use::Write(out),
        Use::Write(partials),
    ];
    gpu.run(&dispatch, &buffers)?;
    if serial || chunks == 1 {
        return Ok(());
    }
    let params = CombineParams {
        heads: dispatch.params.heads,
        quads: dispatch.params.quads,
        spare: [0; 2],
    };
    let buffers = [Use::Read(partials), Use::Read(rows.counts), Use::Write(out)];
    let groups = [params.heads, m as u32, 1];
    gpu.launch(&COMBINE_SHADER, &buffers, &params, groups)
}

/// First dispatch of [`attention()`], with `serial` or cooperative threads, for `m` queries over
/// keys in `chunks` chunks. For one chunk there is no other dispatch. It binds q, keys, values,
/// places, counts (m and the chunks), out, and partials ([`attention_partials`]).
///
/// # Errors
/// [`GpuError::Shape`] for widths that do not fit.
pub fn attention_dispatch(
    serial: bool,
    m: usize,
    heads: Heads,
    scores: Scores,
    chunks: usize,
) -> Result<Dispatch<Params>, GpuError> {
    let shaders = match serial {
        true => &serial::attention::SHADERS,
        false => &SHADERS[usize::from(is_wide(heads))],
    };
    let shader = &shaders[usize::from(heads.exact)];
    let name = shader.name;
    heads.check(name)?;
    count(name, "numbers of queries", m * heads.heads * heads.width)?;
    let partial = attention_partials(m, heads, chunks);
    count(name, "numbers of partial results", partial)?;
    let chunks_wide = count(name, "chunks", chunks)?;
    let params = Params {
        heads: heads.heads as u32,
        kv_heads: heads.kv_heads as u32,
        quads: heads.width as u32 / 4,
        capacity: heads.capacity as u32,
        window: scores.window.unwrap_or(0),
        scale: scores.scale,
        softcap: scores.softcap.unwrap_or(0.0),
        spare: 0,
    };
    let share = heads.heads / heads.kv_heads;
    let shares = (m * share).div_ceil(QUERIES) as u32;
    let groups = match serial {
        true => serial::attention::groups(heads, heads.kv_heads * shares as usize * chunks),
        false => {
            let parts = heads.width.div_ceil(OWNED) as u32;
            [parts * params.kv_heads, shares, chunks_wide]
        }
    };
    Ok(Dispatch {
        shader,
        params,
        groups,
    })
}

/// The CPU twin, on queries `[m, heads, width]` and packed caches. It sums in f64: a sum over
/// thousands of keys in f32 would be off by as much as a GPU's.
pub fn attention_cpu(
    q: &[f32],
    [keys, values]: [&[u32]; 2],
    places: &[Place],
    heads: Heads,
    scores: Scores,
) -> Vec<f32> {
    let [keys, values] = [keys, values].map(|cache| heads.unpack(cache));
    let (width, kv_heads) = (heads.width, heads.kv_heads);
    let mut out = Vec::with_capacity(q.len());
    for (i, query) in q.chunks(width).enumerate() {
        let (place, head) = (places[i / heads.heads], i % heads.heads);
        let kv_head = head / (heads.heads / kv_heads);
        let last = (place.row as usize).min(heads.capacity - 1);
        let start = (place.start as usize).min(last);
        let prefix = (place.prefix as usize).min(start);
        let position = place.position as usize;
        let near = |distance: usize| {
            scores
                .window
                .is_none_or(|window| distance < window as usize)
        };
        let rows: Vec<usize> = (0..prefix)
            .filter(|&row| near(position.saturating_sub(row)))
            .chain((start..=last).filter(|&row| near(last - row)))
            .collect();
        let at = |row: usize| (row * kv_heads + kv_head) * width;
        let found: Vec<f64> = rows
            .iter()
            .map(|&row| {
                let key = &keys[at(row)..][..width];
                let products = query.iter().zip(key);
                let dot: f64 = products.map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
                let score = dot * f64::from(scores.scale);
                scores.softcap.map_or(score, |cap| {
                    f64::from(cap) * (score / f64::from(cap)).tanh()
                })
            })
            .collect();
        let top = found.iter().copied().fold(f64::MIN, f64::max);
        let total: f64 = found.iter().map(|score| (score - top).exp()).sum();
        let mut sums = vec![0.0_f64; width];
        for (row, score) in rows.iter().zip(&found) {
            let chance = (score - top).exp() / total;
            let value = &values[at(*row)..][..width];
            for (sum, &v) in sums.iter_mut().zip(value) {
                *sum += chance * f64::from(v);
            }
        }
        out.extend(sums.iter().map(|&sum| sum as f32));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AdapterChoice, Choices};

    /// Heads of two widths, the wider with a cache too long for serial threads: the others use the
    /// kernel that was tried for them at load.
    #[test]
    fn one_number_of_chunks_serves_heads_of_all_widths() {
        let launcher = pollster::block_on(Launcher::init(AdapterChoice::Best))
            .unwrap_or_else(|error| panic!("this test needs an adapter: {error}"));
        launcher.choose(Choices::usual(true));
        let [narrow, wide] = [64, 512].map(|width| Heads {
            heads: 2,
            kv_heads: 1,
            width,
            capacity: 6_000,
            exact: false,
        });
        for keys in [10, 300, 800, 6_000] {
            let chunks = launcher.attention_chunks(1, [narrow, wide], keys);
            assert!(serial::attention::fits(narrow, chunks), "{keys}: {chunks}");
            assert!(attention_partials(1, wide, chunks) <= attention_room(1, wide));
        }
        let alone = [narrow, wide].map(|heads| launcher.attention_chunks(1, [heads], 800));
        assert_eq!(alone, [8, 12]);
    }
}
