//! Norm and rotary embedding of queries and keys, and the append of keys and values to
//! caches of packed f16: one dispatch behind the product of q, k and v.

use bytemuck::{Pod, Zeroable};
use half::f16;

use crate::launch::{Shader, Use, count, launch, workgroup};
use crate::{Buffer, Gpu, GpuError, Place, rms_norm_cpu};

const WGSL: &str = include_str!("../../../shaders/append.wgsl");

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    heads: u32,
    kv_heads: u32,
    width: u32,
    half_rotary: u32,
    capacity: u32,
    context: u32,
    normed: u32,
    epsilon: f32,
}

pub(crate) static SHADER: Shader = Shader {
    name: "append",
    pieces: &[WGSL],
    workgroup: workgroup(WGSL),
    params: size_of::<Params>(),
};

/// The heads of an attention and their caches, `[capacity, kv_heads, width]` in f16.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heads {
    /// Query heads, a multiple of `kv_heads`; consecutive ones share a key head.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Numbers in a head: a multiple of 4, at most 256.
    pub width: usize,
    /// Rows of each cache.
    pub capacity: usize,
}

impl Heads {
    /// Numbers of a token's queries, keys and values together.
    pub fn row(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.width
    }

    /// Bytes of a cache of keys, or of values.
    pub fn cache_bytes(&self) -> usize {
        self.capacity * self.kv_heads * self.width * 2
    }

    pub(crate) fn check(&self, kernel: &'static str) -> Result<(), GpuError> {
        let Self {
            heads,
            kv_heads,
            width,
            capacity,
        } = *self;
        if width == 0 || !width.is_multiple_of(4) || width > 256 {
            return Err(GpuError::shape(
                kernel,
                format!("heads of {width} numbers, must be a multiple of 4 up to 256"),
            ));
        }
        if kv_heads == 0 || heads == 0 || !heads.is_multiple_of(kv_heads) || capacity == 0 {
            return Err(GpuError::shape(
                kernel,
                format!("{heads} heads on {kv_heads} key heads, {capacity} rows"),
            ));
        }
        // Kernels count the numbers of a cache in 32 bits.
        count(kernel, "rows of the cache", capacity)?;
        count(kernel, "the cache's numbers", self.cache_bytes() / 2)?;
        Ok(())
    }
}

/// Norm of queries and keys before they turn.
#[derive(Debug, Clone, Copy)]
pub struct QkNorm<'a> {
    /// `[width]`, or `[heads, width]` for a norm over all heads together.
    pub query: &'a Buffer,
    /// `[width]`, or `[kv_heads, width]`.
    pub key: &'a Buffer,
    /// Added to the mean square.
    pub epsilon: f32,
    /// Over all heads together, not over each.
    pub whole: bool,
}

/// The rotary embedding of a layer: the first `rotary` numbers of a head turn, i with
/// i + rotary / 2.
#[derive(Debug, Clone, Copy)]
pub struct Rotary<'a> {
    /// `[context, rotary / 2, 2]`, from [`crate::rope_table`]; with a rotary of 0 any will do.
    pub table: &'a Buffer,
    /// Positions of the table.
    pub context: usize,
    /// Even, at most the width of a head.
    pub rotary: usize,
}

/// Norm and turn the queries in `qkv` `[tokens, heads + 2 kv_heads, width]` into `q`
/// `[tokens, heads, width]`; norm and turn its keys into the rows of `keys` that `places` names, and copy its values into
/// the same rows of `values`, both rounded to f16. A row past the capacity is not written; a
/// position past the table takes its last row.
///
/// # Errors
/// [`GpuError::Shape`] for widths that do not fit and buffers too small.
#[expect(clippy::too_many_arguments, reason = "a kernel's bindings")]
pub fn append(
    gpu: &Gpu,
    qkv: &Buffer,
    tokens: usize,
    norm: Option<QkNorm<'_>>,
    rope: Rotary<'_>,
    places: &Buffer,
    heads: Heads,
    q: &Buffer,
    [keys, values]: [&Buffer; 2],
) -> Result<(), GpuError> {
    let name = SHADER.name;
    heads.check(name)?;
    let Heads {
        kv_heads, width, ..
    } = heads;
    if !rope.rotary.is_multiple_of(2) || rope.rotary > width || rope.context == 0 {
        return Err(GpuError::shape(
            name,
            format!(
                "{} of {width} numbers turn by a table of {} positions: the former even, the latter not empty",
                rope.rotary, rope.context
            ),
        ));
    }
    q.holds(tokens * heads.heads * width, name, "q")?;
    qkv.holds(tokens * heads.row(), name, "qkv")?;
    keys.holds(heads.cache_bytes() / 4, name, "keys")?;
    values.holds(heads.cache_bytes() / 4, name, "values")?;
    places.holds(tokens * 4, name, "places")?;
    rope.table
        .holds(rope.context * rope.rotary, name, "table")?;
    count(name, "tokens · row", tokens * heads.row())?;
    let normed = norm.map_or(0, |norm| 1 + u32::from(norm.whole));
    if let Some(norm) = norm {
        let of = |count: usize| if norm.whole { count * width } else { width };
        norm.query.holds(of(heads.heads), name, "query norm")?;
        norm.key.holds(of(kv_heads), name, "key norm")?;
    }
    let params = Params {
        heads: heads.heads as u32,
        kv_heads: kv_heads as u32,
        width: width as u32,
        half_rotary: rope.rotary as u32 / 2,
        capacity: heads.capacity as u32,
        context: count(name, "context", rope.context)?,
        normed,
        epsilon: norm.map_or(0.0, |norm| norm.epsilon),
    };
    let buffers = [
        Use::Read(qkv),
        Use::Write(q),
        Use::Write(keys),
        Use::Write(values),
        Use::Read(places),
        Use::Read(rope.table),
        Use::Read(norm.map_or(gpu.zeros(), |norm| norm.query)),
        Use::Read(norm.map_or(gpu.zeros(), |norm| norm.key)),
    ];
    let groups = [(heads.heads + 2 * kv_heads) as u32, tokens as u32, 1];
    launch(gpu, &SHADER, &buffers, &params, groups)
}

/// Norms of the CPU twin: weights of queries and keys, epsilon, and whether over all heads.
pub type QkNormCpu<'a> = (&'a [f32], &'a [f32], f32, bool);

/// The CPU twin: the queries. `table` has `rotary` numbers a position, caches are packed as on the GPU.
#[expect(clippy::too_many_arguments, reason = "a kernel's bindings")]
pub fn append_cpu(
    qkv: &[f32],
    norm: Option<QkNormCpu<'_>>,
    table: &[f32],
    rotary: usize,
    context: usize,
    places: &[Place],
    heads: Heads,
    [keys, values]: [&mut [u32]; 2],
) -> Vec<f32> {
    let (width, wide) = (heads.width, heads.kv_heads * heads.width);
    let mut queries = Vec::new();
    for (row, place) in qkv.chunks(heads.row()).zip(places) {
        let (q, rest) = row.split_at(heads.heads * width);
        let (k, v) = rest.split_at(wide);
        let (mut q, mut k) = (q.to_vec(), k.to_vec());
        if let Some((q_weight, k_weight, epsilon, _)) = norm {
            q = rms_norm_cpu(&q, q_weight, epsilon);
            k = rms_norm_cpu(&k, k_weight, epsilon);
        }
        let at = (place.position as usize).min(context - 1) * rotary;
        for head in q.chunks_mut(width).chain(k.chunks_mut(width)) {
            for i in 0..rotary / 2 {
                let (cos, sin) = (table[at + 2 * i], table[at + 2 * i + 1]);
                let (a, b) = (head[i], head[i + rotary / 2]);
                head[i] = a * cos - b * sin;
                head[i + rotary / 2] = b * cos + a * sin;
            }
        }
        let into = place.row as usize * wide / 2..(place.row as usize + 1) * wide / 2;
        if (place.row as usize) < heads.capacity {
            keys[into.clone()].copy_from_slice(&pack_halves(&k));
            values[into].copy_from_slice(&pack_halves(v));
        }
        queries.extend(q);
    }
    queries
}

/// Numbers as pairs of f16, the first of a pair in the low half; what exceeds f16 becomes
/// its largest number.
pub fn pack_halves(numbers: &[f32]) -> Vec<u32> {
    let largest = f16::MAX.to_f32();
    let half = |v: f32| u32::from(f16::from_f32(v.clamp(-largest, largest)).to_bits());
    let pairs = numbers.chunks_exact(2);
    pairs
        .map(|pair| half(pair[0]) | half(pair[1]) << 16)
        .collect()
}

/// The numbers of [`pack_halves`].
pub fn unpack_halves(words: &[u32]) -> Vec<f32> {
    let half = |bits: u32| f16::from_bits(bits as u16).to_f32();
    let words = words.iter();
    words
        .flat_map(|&word| [half(word), half(word >> 16)])
        .collect()
}
