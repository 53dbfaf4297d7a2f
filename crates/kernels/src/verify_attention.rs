//! Masked attention for verifying all candidates in line, in one pass: the same kernel
//! serves decode and prefill, which are one candidate right behind the prefix.

use bytemuck::{Pod, Zeroable};

use crate::launch::{Shader, Use, count, launch, workgroup};
use crate::{Buffer, Gpu, GpuError, Place};

const WGSL: &str = include_str!("../../../shaders/verify_attention.wgsl");

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    tokens: u32,
    heads: u32,
    kv_heads: u32,
    quads: u32,
    capacity: u32,
    window: u32,
    scale: f32,
    softcap: f32,
}

pub(crate) static SHADER: Shader = Shader {
    name: "verify_attention",
    pieces: &[WGSL],
    workgroup: workgroup(WGSL),
    params: size_of::<Params>(),
};

/// The shape and the extras of an attention.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttentionShape {
    /// Tokens of the pass.
    pub tokens: usize,
    /// Query heads, a multiple of `kv_heads`; consecutive ones share a key head.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Numbers in a head: a multiple of 4, at most 256.
    pub width: usize,
    /// Rows of each cache.
    pub capacity: usize,
    /// Factor of the scores, usually 1 / √width.
    pub scale: f32,
    /// Positions a query sees back from itself, itself included.
    pub window: Option<u32>,
    /// Scores become `softcap · tanh(score / softcap)`.
    pub softcap: Option<f32>,
}

/// Attention of `q` `[tokens, heads, width]` over the caches `[capacity, kv_heads, width]`
/// into `out` `[tokens, heads, width]`. Each query sees what its [`Place`] says: cache rows
/// `0..prefix` (row = position there) and `start..=row`. Rows past the capacity are
/// clamped, never read.
pub fn verify_attention(
    gpu: &Gpu,
    q: &Buffer,
    keys: &Buffer,
    values: &Buffer,
    places: &Buffer,
    shape: AttentionShape,
    out: &Buffer,
) -> Result<(), GpuError> {
    let name = SHADER.name;
    let s = shape;
    if s.width == 0 || !s.width.is_multiple_of(4) || s.width > 4 * SHADER.workgroup as usize {
        return Err(GpuError::shape(
            name,
            format!("width {}, must be a multiple of 4 up to 256", s.width),
        ));
    }
    if s.kv_heads == 0 || !s.heads.is_multiple_of(s.kv_heads) || s.capacity == 0 {
        return Err(GpuError::shape(
            name,
            format!(
                "{} heads on {} key heads, {} rows",
                s.heads, s.kv_heads, s.capacity
            ),
        ));
    }
    q.holds(s.tokens * s.heads * s.width, name, "q")?;
    keys.holds(s.capacity * s.kv_heads * s.width, name, "keys")?;
    values.holds(s.capacity * s.kv_heads * s.width, name, "values")?;
    places.holds(s.tokens * 4, name, "places")?;
    out.holds(s.tokens * s.heads * s.width, name, "out")?;
    let params = Params {
        tokens: count(name, "tokens", s.tokens)?,
        heads: count(name, "heads", s.heads)?,
        kv_heads: count(name, "kv_heads", s.kv_heads)?,
        quads: s.width as u32 / 4,
        capacity: count(name, "capacity", s.capacity)?,
        window: s.window.unwrap_or(0),
        scale: s.scale,
        softcap: s.softcap.unwrap_or(0.0),
    };
    let buffers = [
        Use::Read(q),
        Use::Read(keys),
        Use::Read(values),
        Use::Read(places),
        Use::Write(out),
    ];
    let groups = [params.heads, params.tokens, 1];
    launch(gpu, &SHADER, &buffers, &params, groups)
}

/// The CPU twin.
pub fn verify_attention_cpu(
    q: &[f32],
    keys: &[f32],
    values: &[f32],
    places: &[Place],
    shape: AttentionShape,
) -> Vec<f32> {
    let AttentionShape {
        heads,
        kv_heads,
        width,
        ..
    } = shape;
    let mut out = vec![0.0; q.len()];
    for (i, query) in q.chunks(width).enumerate() {
        let (place, kv_head) = (places[i / heads], i % heads / (heads / kv_heads));
        let last = (place.row as usize).min(shape.capacity - 1);
        let start = (place.start as usize).min(last);
        let prefix = (place.prefix as usize).min(start);
        let position = place.position as usize;
        let near = |distance: usize| shape.window.is_none_or(|window| distance < window as usize);
        let rows: Vec<usize> = (0..prefix)
            .filter(|&row| near(position.saturating_sub(row)))
            .chain((start..=last).filter(|&row| near(last - row)))
            .collect();
        let at = |row: usize| (row * kv_heads + kv_head) * width;
        let scores: Vec<f32> = rows
            .iter()
            .map(|&row| {
                let key = &keys[at(row)..][..width];
                let dot: f32 = query.iter().zip(key).map(|(a, b)| a * b).sum();
                let score = dot * shape.scale;
                shape
                    .softcap
                    .map_or(score, |cap| cap * (score / cap).tanh())
            })
            .collect();
        let top = scores.iter().copied().fold(f32::MIN, f32::max);
        let total: f32 = scores.iter().map(|score| (score - top).exp()).sum();
        for (row, score) in rows.iter().zip(&scores) {
            let chance = (score - top).exp() / total;
            let value = &values[at(*row)..][..width];
            for (sum, v) in out[i * width..][..width].iter_mut().zip(value) {
                *sum += chance * v;
            }
        }
    }
    out
}
