//! Rotary position embedding, and the append of keys and values to the cache.

use bytemuck::{Pod, Zeroable};

use crate::launch::{Shader, Use, count, flat, launch, workgroup};
use crate::{Buffer, Gpu, GpuError, Place};

const WGSL: &str = include_str!("../../../shaders/rope_append.wgsl");

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    tokens: u32,
    heads: u32,
    kv_heads: u32,
    half_width: u32,
    half_rotary: u32,
    capacity: u32,
    context: u32,
    neighbours: u32,
}

pub(crate) static SHADER: Shader = Shader {
    name: "rope_append",
    pieces: &[WGSL],
    workgroup: workgroup(WGSL),
    params: size_of::<Params>(),
};

/// Which numbers of a head turn together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pairs {
    /// i and i + rotary/2 (GPT-NeoX, Hugging Face).
    #[default]
    Halves,
    /// 2i and 2i + 1 (the order of Llama's weights in GGUF).
    Neighbours,
}

/// The shape of a rotary embedding and its cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RopeShape {
    /// Tokens of the pass.
    pub tokens: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Numbers in a head, even.
    pub width: usize,
    /// Numbers of a head that turn, even, at most `width`.
    pub rotary: usize,
    /// Rows of each cache.
    pub capacity: usize,
    /// Rows of the table: positions it knows.
    pub context: usize,
    /// Which numbers turn together.
    pub pairs: Pairs,
}

/// Cosines and sines `[context, rotary / 2, 2]` of `position · frequency`, to be uploaded
/// once. `frequencies` is `[rotary / 2]`, usually `base^(-2i / rotary)`; `factor` multiplies
/// both, as YaRN and LongRoPE scale attention, and is 1 otherwise.
///
/// The angle is rounded to f32, as transformers has it: models are trained with those angles,
/// and at position 600 exact ones move a small model's logits by 1.5e-4 of the largest.
pub fn rope_table(context: usize, frequencies: &[f32], factor: f32) -> Vec<f32> {
    (0..context)
        .flat_map(|position| {
            frequencies.iter().flat_map(move |frequency| {
                let angle = position as f32 * frequency;
                let (sin, cos) = f64::from(angle).sin_cos();
                [cos as f32 * factor, sin as f32 * factor]
            })
        })
        .collect()
}

/// Rotate `q` `[tokens, heads, width]` in place, and `k` `[tokens, kv_heads, width]` into
/// the rows of `keys` that `places` names; copy `v` into the same rows of `values`. Caches
/// are `[capacity, kv_heads, width]`, `table` as from [`rope_table`]; with a rotary of 0
/// nothing turns, whatever the table. A row past the
/// capacity is not written; a position past the table takes its last row.
#[expect(clippy::too_many_arguments, reason = "a kernel's bindings")]
pub fn rope_append(
    gpu: &Gpu,
    q: &Buffer,
    k: &Buffer,
    v: &Buffer,
    keys: &Buffer,
    values: &Buffer,
    places: &Buffer,
    table: &Buffer,
    shape: RopeShape,
) -> Result<(), GpuError> {
    let name = SHADER.name;
    let s = shape;
    if s.width == 0
        || !s.width.is_multiple_of(2)
        || !s.rotary.is_multiple_of(2)
        || s.rotary > s.width
    {
        return Err(GpuError::shape(
            name,
            format!(
                "width {}, rotary {}: both even, the latter no larger",
                s.width, s.rotary
            ),
        ));
    }
    if s.context == 0 || s.capacity == 0 {
        return Err(GpuError::shape(name, "an empty cache or table"));
    }
    q.holds(s.tokens * s.heads * s.width, name, "q")?;
    k.holds(s.tokens * s.kv_heads * s.width, name, "k")?;
    v.holds(s.tokens * s.kv_heads * s.width, name, "v")?;
    keys.holds(s.capacity * s.kv_heads * s.width, name, "keys")?;
    values.holds(s.capacity * s.kv_heads * s.width, name, "values")?;
    places.holds(s.tokens * 4, name, "places")?;
    table.holds(s.context * s.rotary, name, "table")?;
    let params = Params {
        tokens: count(name, "tokens", s.tokens)?,
        heads: count(name, "heads", s.heads)?,
        kv_heads: count(name, "kv_heads", s.kv_heads)?,
        half_width: count(name, "width", s.width)? / 2,
        half_rotary: count(name, "rotary", s.rotary)? / 2,
        capacity: count(name, "capacity", s.capacity)?,
        context: count(name, "context", s.context)?,
        neighbours: u32::from(s.pairs == Pairs::Neighbours),
    };
    let buffers = [
        Use::Write(q),
        Use::Read(k),
        Use::Read(v),
        Use::Write(keys),
        Use::Write(values),
        Use::Read(places),
        Use::Read(table),
    ];
    let threads = s.tokens * (s.heads + 2 * s.kv_heads) * s.width / 2;
    launch(gpu, &SHADER, &buffers, &params, flat(&SHADER, threads))
}

/// The CPU twin.
#[expect(clippy::too_many_arguments, reason = "a kernel's bindings")]
pub fn rope_append_cpu(
    q: &mut [f32],
    k: &[f32],
    v: &[f32],
    keys: &mut [f32],
    values: &mut [f32],
    places: &[Place],
    table: &[f32],
    shape: RopeShape,
) {
    let RopeShape {
        heads,
        kv_heads,
        width,
        rotary,
        ..
    } = shape;
    let turn = |head: &mut [f32], position: u32| {
        let at = (position as usize).min(shape.context - 1) * rotary;
        for pair in 0..rotary / 2 {
            let (i, j) = match shape.pairs {
                Pairs::Halves => (pair, pair + rotary / 2),
                Pairs::Neighbours => (2 * pair, 2 * pair + 1),
            };
            let (cos, sin) = (table[at + 2 * pair], table[at + 2 * pair + 1]);
            let (a, b) = (head[i], head[j]);
            head[i] = a * cos - b * sin;
            head[j] = b * cos + a * sin;
        }
    };
    for (token, place) in places.iter().enumerate() {
        for head in q[token * heads * width..(token + 1) * heads * width].chunks_mut(width) {
            turn(head, place.position);
        }
        let row = place.row as usize;
        if row >= shape.capacity {
            continue;
        }
        let wide = kv_heads * width;
        let (from, into) = (
            token * wide..(token + 1) * wide,
            row * wide..(row + 1) * wide,
        );
        keys[into.clone()].copy_from_slice(&k[from.clone()]);
        for head in keys[into.clone()].chunks_mut(width) {
            turn(head, place.position);
        }
        values[into].copy_from_slice(&v[from]);
    }
}
