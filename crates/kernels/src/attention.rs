//! Masked attention, for verifying all candidates in line; decode
//! and prefill are one candidate right behind the prefix.

use bytemuck::{Pod, Zeroable};

use crate::crew::Crews;
use crate::launch::{Shader, Use, count, grid, launch, number_in, run};
use crate::{Buffer, Dispatch, Gpu, GpuError, Heads, Place, Rows};

const WGSL: &str = include_str!("../../../shaders/attention.wgsl");
const ALONE: &str = include_str!("../../../shaders/attention_alone.wgsl");
const SHARE: &str = include_str!("../../../shaders/attention/share.wgsl");
const SHORT: &str = include_str!("../../../shaders/cache/read_short.wgsl");
const EXACT: &str = include_str!("../../../shaders/cache/read_exact.wgsl");
const COMBINE: &str = include_str!("../../../shaders/attention_combine.wgsl");
const JOIN: &str = include_str!("../../../shaders/attention/join.wgsl");

/// Queries of a share.
const QUERIES: usize = number_in(SHARE, "QUERIES: u32 = ") as usize;
/// Workgroups that keep a large GPU busy; with fewer, keys are shared out in chunks.
const WORKGROUPS: usize = 128;
/// Keys of a chunk, at least. Threads alone join theirs at once, others by a dispatch more.
const CHUNK: usize = 256;
const CHUNK_ALONE: usize = 64;

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

/// For caches of 16 bits a number, and for exact ones; by a workgroup together, and by a thread
/// alone.
pub(crate) static SHADERS: [Crews; 2] = [
    [
        Shader::of::<Params>("attention", &[WGSL, SHARE, SHORT]),
        Shader::of::<Params>("attention_alone", &[ALONE, SHARE, SHORT, JOIN]),
    ],
    [
        Shader::of::<Params>("attention_exact", &[WGSL, SHARE, EXACT]),
        Shader::of::<Params>("attention_exact_alone", &[ALONE, SHARE, EXACT, JOIN]),
    ],
];

pub(crate) static COMBINE_SHADER: Shader =
    Shader::of::<CombineParams>("attention_combine", &[COMBINE, JOIN]);

/// Shares of a workgroup of threads alone, where it joins the chunks of a query's keys.
fn shares_alone(heads: Heads) -> usize {
    const WORKGROUP: usize = number_in(ALONE, "WORKGROUP: u32 = ") as usize;
    const NARROW: usize = number_in(ALONE, "NARROW: u32 = ") as usize;
    match heads.width / 4 <= NARROW {
        true => WORKGROUP,
        false => WORKGROUP / 2,
    }
}

/// Turns that the loops of a thread alone may have together: after 65,535 lavapipe ends them all.
const MOST_TURNS: usize = 65_000;

/// Turns of a thread alone at most, the last look of each loop being one. A tile of four keys takes
/// one, and three loops of four quads a turn; to begin, to end and to join take six a number of a head.
fn turns(heads: Heads, chunks: usize) -> usize {
    let tiles = heads.capacity.div_ceil(chunks).div_ceil(4);
    tiles * (1 + 3 * (1 + heads.width.div_ceil(16))) + 6 * heads.width + 100
}

/// Whether a thread alone can take its keys in so many chunks.
fn fits_alone(heads: Heads, chunks: usize) -> bool {
    shares_alone(heads).is_multiple_of(chunks) && turns(heads, chunks) <= MOST_TURNS
}

/// Whether a cache has so many rows that a thread alone cannot take its keys in one chunk: there a
/// workgroup makes attention together, whatever the [choices](crate::Choices).
pub fn attention_is_long(heads: Heads) -> bool {
    !fits_alone(heads, 1)
}

/// How scores are made and which count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scores {
    /// Factor of the scores, usually 1 / √width.
    pub scale: f32,
    /// Positions a query sees back from itself, itself included.
    pub window: Option<u32>,
    /// Scores become `softcap · tanh(score / softcap)`.
    pub softcap: Option<f32>,
}

/// Chunks that the keys of a pass are shared out in, where its tokens see up to `keys` rows: by
/// threads alone no more than lie side by side in a workgroup.
pub fn attention_chunks(alone: bool, tokens: usize, heads: Heads, keys: usize) -> usize {
    let share = heads.heads / heads.kv_heads.max(1);
    let groups = heads.kv_heads * (tokens * share).div_ceil(QUERIES);
    let wanted = WORKGROUPS.div_ceil(groups.max(1));
    match alone {
        true => {
            let most = wanted.min(shares_alone(heads)).min(keys / CHUNK_ALONE);
            1 << most.max(1).ilog2()
        }
        false => wanted.min(keys / CHUNK).max(1),
    }
}

impl Gpu {
    /// [`attention_chunks`] on this device.
    pub fn attention_chunks(&self, tokens: usize, heads: Heads, keys: usize) -> usize {
        let choices = self.choices();
        let [together, alone] =
            [false, true].map(|alone| attention_chunks(alone, tokens, heads, keys));
        match choices.chunks {
            true if choices.alone && fits_alone(heads, alone) => alone,
            true => together,
            false => 1,
        }
    }
}

/// Numbers that `partials` needs for a pass in so many chunks.
pub fn attention_partials(tokens: usize, heads: Heads, chunks: usize) -> usize {
    match chunks {
        0 | 1 => 4,
        _ => tokens * heads.heads * chunks * (heads.width + 4),
    }
}

/// What attention reads and writes.
#[derive(Debug, Clone, Copy)]
pub struct Attention<'a> {
    /// Queries `[m, heads, width]`.
    pub q: &'a Buffer,
    /// m; the second number of its `counts` is `chunks`.
    pub rows: Rows<'a>,
    /// From [`Gpu::attention_chunks`].
    pub chunks: usize,
    /// What each query sees: `m` [`Place`]s.
    pub places: &'a Buffer,
    /// The caches' shape.
    pub heads: Heads,
    /// How scores are made.
    pub scores: Scores,
    /// Keys and values, `[capacity, kv_heads, words of a head]`.
    pub caches: [&'a Buffer; 2],
    /// Room for what chunks leave: [`attention_partials`].
    pub partials: &'a Buffer,
    /// `[m, heads, width]`.
    pub out: &'a Buffer,
}

/// Attention of queries over the caches of [`Heads`]. Each query sees what its [`Place`] says:
/// cache rows `0..prefix` (row = position there) and `start..=row`. Rows past the capacity are
/// clamped, never read. More than one chunk are joined by a second dispatch, unless threads work
/// alone.
///
/// # Errors
/// [`GpuError::Shape`] for widths that do not fit and buffers too small.
pub fn attention(gpu: &Gpu, of: Attention<'_>) -> Result<(), GpuError> {
    let alone = gpu.choices().alone && fits_alone(of.heads, of.chunks);
    attention_by(gpu, alone, of)
}

/// [`attention`] by threads alone, or by workgroups together.
///
/// # Errors
/// As [`attention`].
pub(crate) fn attention_by(gpu: &Gpu, alone: bool, of: Attention<'_>) -> Result<(), GpuError> {
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
    let dispatch = attention_dispatch(alone, m, heads, scores, chunks)?;
    let name = dispatch.name();
    let queries = m * heads.heads * heads.width;
    q.holds(queries, name, "q")?;
    keys.holds(heads.cache_bytes() / 4, name, "keys")?;
    values.holds(heads.cache_bytes() / 4, name, "values")?;
    places.holds(m * 4, name, "places")?;
    rows.counts.holds(2, name, "counts")?;
    out.holds(queries, name, "out")?;
    let partial = attention_partials(m, heads, chunks);
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
    run(gpu, &dispatch, &buffers)?;
    if alone || chunks == 1 {
        return Ok(());
    }
    let params = CombineParams {
        heads: dispatch.params.heads,
        quads: dispatch.params.quads,
        spare: [0; 2],
    };
    let buffers = [Use::Read(partials), Use::Read(rows.counts), Use::Write(out)];
    let groups = [params.heads, m as u32, 1];
    launch(gpu, &COMBINE_SHADER, &buffers, &params, groups)
}

/// What [`attention()`] launches first, by threads `alone` or together, for `m` queries over keys in
/// so many chunks; of one chunk it is all. Bound are q, keys, values, places, counts (m and the
/// chunks), out, and partials ([`attention_partials`]).
///
/// # Errors
/// [`GpuError::Shape`] for widths that do not fit.
pub fn attention_dispatch(
    alone: bool,
    m: usize,
    heads: Heads,
    scores: Scores,
    chunks: usize,
) -> Result<Dispatch<Params>, GpuError> {
    let shader = &SHADERS[usize::from(heads.exact)][usize::from(alone)];
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
    let groups = match alone {
        true => grid((heads.kv_heads * shares as usize * chunks).div_ceil(shares_alone(heads))),
        false => [params.kv_heads, shares, chunks_wide],
    };
    Ok(Dispatch {
        shader,
        params,
        groups,
    })
}

/// The CPU twin, on queries `[m, heads, width]` and packed caches.
pub fn attention_cpu(
    q: &[f32],
    [keys, values]: [&[u32]; 2],
    places: &[Place],
    heads: Heads,
    scores: Scores,
) -> Vec<f32> {
    let [keys, values] = [keys, values].map(|cache| heads.unpack(cache));
    let (width, kv_heads) = (heads.width, heads.kv_heads);
    let mut out = vec![0.0; q.len()];
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
        let found: Vec<f32> = rows
            .iter()
            .map(|&row| {
                let key = &keys[at(row)..][..width];
                let dot: f32 = query.iter().zip(key).map(|(a, b)| a * b).sum();
                let score = dot * scores.scale;
                scores
                    .softcap
                    .map_or(score, |cap| cap * (score / cap).tanh())
            })
            .collect();
        let top = found.iter().copied().fold(f32::MIN, f32::max);
        let total: f32 = found.iter().map(|score| (score - top).exp()).sum();
        for (row, score) in rows.iter().zip(&found) {
            let chance = (score - top).exp() / total;
            let value = &values[at(*row)..][..width];
            for (sum, v) in out[i * width..][..width].iter_mut().zip(value) {
                *sum += chance * v;
            }
        }
    }
    out
}
