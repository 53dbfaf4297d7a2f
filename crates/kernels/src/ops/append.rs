//! Norm and rotary embedding of queries and keys, and the append of keys and values to their
//! caches: one dispatch after the product of q, k and v.

use bytemuck::{Pod, Zeroable};
use conclave_gpu::{Use, count};

use crate::serial::{ShaderPair, items_by, shader_pair};
use crate::{Buffer, Dispatch, GpuError, Launcher, Place, rms_norm_cpu};

const WGSL: &str = wgsl!("append.wgsl");
const SHORT: &str = wgsl!("shared/cache/write_short.wgsl");
const EXACT: &str = wgsl!("shared/cache/write_exact.wgsl");

/// Parameters of the kernel.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub struct Params {
    heads: u32,
    kv_heads: u32,
    width: u32,
    half_rotary: u32,
    capacity: u32,
    context: u32,
    normed: u32,
    epsilon: f32,
    gated: u32,
    spare: [u32; 3],
}

/// Shaders for 16-bit caches and for exact ones.
pub(crate) static SHADERS: [ShaderPair; 2] = [
    shader_pair!("append", [WGSL, SHORT], Params),
    shader_pair!("append_exact", [WGSL, EXACT], Params),
];

/// The heads of an attention and their caches, `[capacity, kv_heads, words of a head]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heads {
    /// Number of query heads, a multiple of `kv_heads`; consecutive ones share a key head.
    pub heads: usize,
    /// Number of key and value heads.
    pub kv_heads: usize,
    /// Numbers in a head: a multiple of 4, at most 512.
    pub width: usize,
    /// Rows of each cache.
    pub capacity: usize,
    /// Whether caches hold f32. Otherwise a head has three parts: 16-bit fractions of the largest
    /// of each eight numbers; these largest, rounded up to BF16, two a word; and zeros up to an
    /// even number of words.
    pub exact: bool,
}

impl Heads {
    /// Numbers of a token's queries, keys and values together.
    pub fn row(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.width
    }

    /// The same, with a gate after each query head where `gated`.
    pub fn gated_row(&self, gated: bool) -> usize {
        self.row() + if gated { self.heads * self.width } else { 0 }
    }

    /// Words of a head in a cache.
    pub fn words(&self) -> usize {
        if self.exact {
            self.width
        } else {
            self.width / 2 + 2 * self.width.div_ceil(32)
        }
    }

    /// Words of a cache's row.
    pub fn row_words(&self) -> usize {
        self.kv_heads * self.words()
    }

    /// Bytes of a cache of keys, or of values.
    pub fn cache_bytes(&self) -> usize {
        4 * self.capacity * self.row_words()
    }

    /// Packs heads in the caches' format.
    pub fn pack(&self, numbers: &[f32]) -> Vec<u32> {
        if self.exact {
            return numbers.iter().map(|v| v.to_bits()).collect();
        }
        // As drivers do: adding a half in f32 rounds some numbers near a half the other way.
        let share = |v: f32| {
            let steps = (v.clamp(-1.0, 1.0) * 32767.0).round_ties_even();
            u32::from(steps as i16 as u16)
        };
        let heads = numbers.chunks_exact(self.width).flat_map(|head| {
            let (mut words, mut units) = (Vec::new(), vec![0; self.words() - self.width / 2]);
            for (i, eight) in head.chunks(8).enumerate() {
                let largest = eight.iter().fold(0.0_f32, |most, v| most.max(v.abs()));
                let half = largest.to_bits().div_ceil(1 << 16);
                units[i / 2] |= half << (i % 2 * 16);
                let unit = f32::from_bits(half << 16);
                let inverse = if unit > 1.0e-37 { 1.0 / unit } else { 0.0 };
                let pairs = eight.chunks_exact(2);
                words.extend(
                    pairs.map(|pair| share(pair[0] * inverse) | share(pair[1] * inverse) << 16),
                );
            }
            words.into_iter().chain(units)
        });
        heads.collect()
    }

    /// Inverse of [`Self::pack`].
    pub fn unpack(&self, words: &[u32]) -> Vec<f32> {
        if self.exact {
            return words.iter().map(|&word| f32::from_bits(word)).collect();
        }
        let half = self.width / 2;
        let heads = words.chunks_exact(self.words()).flat_map(|head| {
            let (pairs, units) = head.split_at(half);
            pairs.iter().enumerate().flat_map(|(i, &pair)| {
                let unit = units[i / 8] >> (i / 4 % 2 * 16) << 16;
                let number = move |bits: u32| {
                    let share = (f32::from(bits as u16 as i16) / 32767.0).max(-1.0);
                    share * f32::from_bits(unit)
                };
                [number(pair), number(pair >> 16)]
            })
        });
        heads.collect()
    }

    pub(crate) fn check(&self, kernel: &'static str) -> Result<(), GpuError> {
        let Self {
            heads,
            kv_heads,
            width,
            capacity,
            ..
        } = *self;
        if width == 0 || !width.is_multiple_of(4) || width > 512 {
            return Err(GpuError::shape(
                kernel,
                format!("heads of {width} numbers, must be a multiple of 4 up to 512"),
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
        count(kernel, "the cache's words", self.cache_bytes() / 4)?;
        Ok(())
    }
}

/// Content of a token's row of the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Projected {
    /// Queries, keys and values.
    All,
    /// The same with a gate as wide after each query head, which is skipped; norms are of each head
    /// then.
    Gated,
    /// Queries alone, in a layer that attends to another's keys and values: nothing is appended.
    Queries,
}

/// Extent of a norm of queries or keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormOf {
    /// A norm over each head, before its rotation.
    Head,
    /// A norm over all heads together, before their rotation.
    AllHeads,
    /// A norm over each head, after its rotation.
    RotatedHead,
}

/// Parameters of the norms of heads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeadNorm {
    /// Number added to the mean square.
    pub epsilon: f32,
    /// The norm's extent.
    pub over: NormOf,
    /// Whether each value head is normalised too, without a weight.
    pub values: bool,
}

/// Norm of queries and keys.
#[derive(Debug, Clone, Copy)]
pub struct QkNorm<W> {
    /// `[width]`, or `[heads, width]` for a norm over all heads together.
    pub query: W,
    /// `[width]`, or `[kv_heads, width]`; arbitrary without keys.
    pub key: W,
    /// Parameters.
    pub of: HeadNorm,
}

/// The rotary embedding of a layer: the first `rotary` numbers of a head rotate, i with i + rotary
/// / 2.
#[derive(Debug, Clone, Copy)]
pub struct Rotary<T> {
    /// `[context, rotary / 2, 2]`, from [`rope_table`]; arbitrary with a rotary of 0.
    pub table: T,
    /// Positions in the table.
    pub context: usize,
    /// Number of rotating numbers of a head; even, at most its width.
    pub rotary: usize,
}

/// Cosines and sines `[context, rotary / 2, 2]` of `position · frequency`, to be uploaded once.
/// `frequencies` is `[rotary / 2]`, usually `base^(-2i / rotary)`; `factor` multiplies both, as in
/// YaRN and LongRoPE, and is 1 otherwise.
///
/// The angle is rounded to f32, as in transformers: models are trained with those angles, and at
/// position 600 exact ones move a small model's logits by 1.5e-4 of the largest.
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

/// Inputs and outputs of [`append()`].
#[derive(Debug, Clone, Copy)]
pub struct Append<'a> {
    /// `[tokens, heads + 2 kv_heads, width]`; for [`Projected::Queries`] `[tokens, heads, width]`.
    pub qkv: &'a Buffer,
    /// Number of tokens.
    pub tokens: usize,
    /// Content of a row of `qkv`.
    pub projected: Projected,
    /// Norm of queries and keys.
    pub norm: Option<QkNorm<&'a Buffer>>,
    /// Rotation of queries and keys.
    pub rope: Rotary<&'a Buffer>,
    /// Row and position of each token: `tokens` [`Place`]s.
    pub places: &'a Buffer,
    /// The caches' shape.
    pub heads: Heads,
    /// `[tokens, heads, width]`.
    pub q: &'a Buffer,
    /// Keys and values, `[capacity, kv_heads, words of a head]`.
    pub caches: [&'a Buffer; 2],
}

/// Normalises and rotates the queries in `qkv` into `q`; normalises and rotates its keys into the
/// rows of the first cache given by `places`, and copies its values into the same rows of the
/// second, both in the format of [`Heads`]. A row past the capacity is not written; a position past
/// the table uses its last row. For [`Projected::Queries`] the caches stay unchanged.
///
/// # Errors
/// [`GpuError::Shape`] for widths that do not fit and buffers too small.
pub fn append(launcher: &Launcher, of: Append<'_>) -> Result<(), GpuError> {
    let Append {
        qkv,
        tokens,
        projected,
        norm,
        rope,
        places,
        heads,
        q,
        caches: [keys, values],
    } = of;
    let Heads {
        kv_heads, width, ..
    } = heads;
    let rotating = [rope.context, rope.rotary];
    let normed = norm.map(|norm| norm.of);
    let serial = launcher.choices().serial;
    let dispatch = append_dispatch(serial, tokens, projected, heads, normed, rotating)?;
    let name = dispatch.name();
    q.holds(tokens * heads.heads * width, name, "q")?;
    qkv.holds(tokens * projected.row(heads), name, "qkv")?;
    keys.holds(heads.cache_bytes() / 4, name, "keys")?;
    values.holds(heads.cache_bytes() / 4, name, "values")?;
    places.holds(tokens * 4, name, "places")?;
    rope.table
        .holds(rope.context * rope.rotary, name, "table")?;
    if let Some(norm) = norm {
        let of = |count: usize| match norm.of.over {
            NormOf::AllHeads => count * width,
            NormOf::Head | NormOf::RotatedHead => width,
        };
        norm.query.holds(of(heads.heads), name, "query norm")?;
        if projected != Projected::Queries {
            norm.key.holds(of(kv_heads), name, "key norm")?;
        }
    }
    let buffers = [
        Use::Read(qkv),
        Use::Write(q),
        Use::Write(keys),
        Use::Write(values),
        Use::Read(places),
        Use::Read(rope.table),
        Use::Read(norm.map_or(launcher.zeros(), |norm| norm.query)),
        Use::Read(norm.map_or(launcher.zeros(), |norm| norm.key)),
    ];
    launcher.run(&dispatch, &buffers)
}

/// Dispatch of [`append()`] with `serial` or cooperative threads, with norms, and with a table of
/// `context` positions and `rotary` rotating numbers. It binds qkv, q, keys, values, places, the
/// table and both norms.
///
/// # Errors
/// [`GpuError::Shape`] for widths that do not fit.
pub fn append_dispatch(
    serial: bool,
    tokens: usize,
    projected: Projected,
    heads: Heads,
    norm: Option<HeadNorm>,
    [context, rotary]: [usize; 2],
) -> Result<Dispatch<Params>, GpuError> {
    let shader = &SHADERS[usize::from(heads.exact)][usize::from(serial)];
    let name = shader.name;
    heads.check(name)?;
    if !rotary.is_multiple_of(2) || rotary > heads.width || context == 0 {
        return Err(GpuError::shape(
            name,
            format!(
                "{rotary} of {} numbers rotate by a table of {context} positions: the former \
                even, the latter not empty",
                heads.width
            ),
        ));
    }
    count(name, "tokens · row", tokens * projected.row(heads))?;
    let kv_heads = match projected {
        Projected::All | Projected::Gated => heads.kv_heads,
        Projected::Queries => 0,
    };
    let params = Params {
        heads: heads.heads as u32,
        kv_heads: kv_heads as u32,
        width: heads.width as u32,
        half_rotary: rotary as u32 / 2,
        capacity: heads.capacity as u32,
        context: count(name, "context", context)?,
        normed: norm.map_or(0, |of| {
            let over = match of.over {
                NormOf::Head => 1,
                NormOf::AllHeads => 2,
                NormOf::RotatedHead => 3,
            };
            over + 4 * u32::from(of.values)
        }),
        epsilon: norm.map_or(0.0, |of| of.epsilon),
        gated: u32::from(projected == Projected::Gated),
        spare: [0; 3],
    };
    let [x, ..] = items_by(serial, heads.heads + 2 * kv_heads);
    Ok(Dispatch {
        shader,
        params,
        groups: [x, tokens as u32, 1],
    })
}

impl Projected {
    /// Numbers of a token.
    fn row(self, heads: Heads) -> usize {
        match self {
            Self::All => heads.row(),
            Self::Gated => heads.gated_row(true),
            Self::Queries => heads.heads * heads.width,
        }
    }
}

/// The CPU twin; returns the queries. Caches are packed as on the GPU.
pub fn append_cpu(
    (qkv, projected): (&[f32], Projected),
    norm: Option<QkNorm<&[f32]>>,
    rope: Rotary<&[f32]>,
    places: &[Place],
    heads: Heads,
    [keys, values]: [&mut [u32]; 2],
) -> Vec<f32> {
    let (width, wide) = (heads.width, heads.kv_heads * heads.width);
    let Rotary {
        table,
        context,
        rotary,
    } = rope;
    let mut queries = Vec::new();
    for (row, place) in qkv.chunks(projected.row(heads)).zip(places) {
        let apart = match projected {
            Projected::Gated => 2 * width,
            Projected::All | Projected::Queries => width,
        };
        let (q, rest) = row.split_at(heads.heads * apart);
        let (k, v) = rest.split_at(wide.min(rest.len()));
        let queries_alone = q.chunks(apart).flat_map(|head| &head[..width]);
        let mut q: Vec<f32> = queries_alone.copied().collect();
        let (mut k, mut v) = (k.to_vec(), v.to_vec());
        // Normalises over as many numbers as there are weights.
        let normalise = |[q, k]: [&mut Vec<f32>; 2], rotated: bool| match norm {
            Some(QkNorm { query, key, of }) if (of.over == NormOf::RotatedHead) == rotated => {
                *q = rms_norm_cpu(q, query, of.epsilon);
                *k = rms_norm_cpu(k, key, of.epsilon);
            }
            _ => {}
        };
        normalise([&mut q, &mut k], false);
        if let Some(QkNorm { of, .. }) = norm
            && of.values
        {
            v = rms_norm_cpu(&v, &vec![1.0; width], of.epsilon);
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
        normalise([&mut q, &mut k], true);
        let into =
            place.row as usize * heads.row_words()..(place.row as usize + 1) * heads.row_words();
        if projected != Projected::Queries && (place.row as usize) < heads.capacity {
            keys[into.clone()].copy_from_slice(&heads.pack(&k));
            values[into].copy_from_slice(&heads.pack(&v));
        }
        queries.extend(q);
    }
    queries
}
