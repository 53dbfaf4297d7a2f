//! The gated short convolution of LFM2 and its cache: one dispatch after the product of B, C and x.

use bytemuck::{Pod, Zeroable};
use conclave_gpu::{Use, count};

use crate::serial::{ShaderPair, items_by, select, shader_pair};
use crate::{Buffer, GpuError, Heads, Launcher, Place};

const WGSL: &str = wgsl!("convolve.wgsl");
const SHORT: [&str; 2] = [
    wgsl!("shared/cache/write_short.wgsl"),
    wgsl!("shared/cache/number_short.wgsl"),
];
const EXACT: [&str; 2] = [
    wgsl!("shared/cache/write_exact.wgsl"),
    wgsl!("shared/cache/number_exact.wgsl"),
];

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    groups: u32,
    width: u32,
    capacity: u32,
    taps: u32,
    biased: u32,
    spare: [u32; 3],
}

/// Shaders for 16-bit caches and for exact ones.
pub(crate) static SHADERS: [ShaderPair; 2] = [
    shader_pair!("convolve", [WGSL, SHORT[0], SHORT[1]], Params),
    shader_pair!("convolve_exact", [WGSL, EXACT[0], EXACT[1]], Params),
];

/// Largest group of channels that share a scale.
const GROUP: usize = 64;

/// The channels of a gated convolution and their cache, with rows as in [`Heads`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channels {
    /// Number of channels: a multiple of 4.
    pub width: usize,
    /// Rows of the cache.
    pub capacity: usize,
    /// The cache holds f32; otherwise 16 bits a number.
    pub exact: bool,
}

impl Channels {
    /// Groups of channels as heads of a cache.
    pub fn heads(&self) -> Heads {
        let fits = |group: &usize| self.width.is_multiple_of(*group);
        let group = (4..=GROUP).rev().step_by(4).find(fits).unwrap_or(4);
        let groups = self.width / group;
        Heads {
            heads: groups,
            kv_heads: groups,
            width: group,
            capacity: self.capacity,
            exact: self.exact,
        }
    }

    /// Bytes of the cache.
    pub fn cache_bytes(&self) -> usize {
        self.heads().cache_bytes()
    }
}

/// Weights of a gated convolution.
#[derive(Debug, Clone, Copy)]
pub struct Taps<'a> {
    /// `[width, count]`, each channel's factors, the oldest token's first.
    pub weight: &'a Buffer,
    /// Tokens visible to one, itself included.
    pub count: usize,
    /// `[width]`.
    pub bias: Option<&'a Buffer>,
}

/// Writes C · (conv(B · x) + bias) for B, C and x in `bcx` `[tokens, 3, width]` to `out`
/// `[tokens, width]`: a token sees B · x of itself and of the tokens before it that are visible by
/// `places`. B · x of each goes to its row of `cache`, in the format of [`Channels`]; a row past
/// the capacity is not written. The rows of `places` are consecutive.
///
/// # Errors
/// [`GpuError::Shape`] for widths that do not fit and buffers too small.
pub fn convolve(
    launcher: &Launcher,
    (bcx, tokens): (&Buffer, usize),
    taps: Taps<'_>,
    places: &Buffer,
    (cache, channels): (&Buffer, Channels),
    out: &Buffer,
) -> Result<(), GpuError> {
    let shader = select(launcher, &SHADERS[usize::from(channels.exact)]);
    let name = shader.name;
    let Channels { width, .. } = channels;
    if width == 0 || !width.is_multiple_of(4) || taps.count == 0 {
        let problem = format!(
            "{width} channels, {} taps: a multiple of 4, some",
            taps.count
        );
        return Err(GpuError::shape(name, problem));
    }
    let heads = channels.heads();
    heads.check(name)?;
    count(name, "tokens · row", 3 * tokens * width)?;
    bcx.holds(3 * tokens * width, name, "bcx")?;
    cache.holds(channels.cache_bytes() / 4, name, "cache")?;
    places.holds(tokens * 4, name, "places")?;
    taps.weight.holds(width * taps.count, name, "taps")?;
    out.holds(tokens * width, name, "out")?;
    if let Some(bias) = taps.bias {
        bias.holds(width, name, "bias")?;
    }
    let params = Params {
        groups: heads.kv_heads as u32,
        width: heads.width as u32,
        capacity: heads.capacity as u32,
        taps: count(name, "taps", taps.count)?,
        biased: u32::from(taps.bias.is_some()),
        spare: [0; 3],
    };
    let buffers = [
        Use::Read(bcx),
        Use::Write(cache),
        Use::Read(places),
        Use::Read(taps.weight),
        Use::Read(taps.bias.unwrap_or(launcher.zeros())),
        Use::Write(out),
    ];
    let [x, ..] = items_by(launcher.choices().serial, heads.kv_heads);
    launcher.launch(shader, &buffers, &params, [x, tokens as u32, 1])
}

/// The CPU twin; returns `out`. The cache is packed as on the GPU.
pub fn convolve_cpu(
    bcx: &[f32],
    taps: &[f32],
    bias: Option<&[f32]>,
    places: &[Place],
    channels: Channels,
    cache: &mut [u32],
) -> Vec<f32> {
    let (width, heads) = (channels.width, channels.heads());
    let (count, words) = (taps.len() / width, heads.row_words());
    let products: Vec<Vec<f32>> = bcx
        .chunks(3 * width)
        .map(|row| (0..width).map(|i| row[i] * row[2 * width + i]).collect())
        .collect();
    let first = places.first().map_or(0, |place| place.row as usize);
    let mut out = Vec::new();
    for (row, place) in bcx.chunks(3 * width).zip(places) {
        let seen = (0..count).map(|tap| {
            let row = place.before((count - 1 - tap) as u32)?;
            match row.checked_sub(first) {
                Some(token) => Some(heads.unpack(&heads.pack(&products[token]))),
                None if row < channels.capacity => {
                    Some(heads.unpack(&cache[row * words..][..words]))
                }
                None => None,
            }
        });
        let seen: Vec<Option<Vec<f32>>> = seen.collect();
        out.extend((0..width).map(|i| {
            let of_tap = |(tap, row): (usize, &Option<Vec<f32>>)| {
                row.as_ref()
                    .map_or(0.0, |row| taps[i * count + tap] * row[i])
            };
            let sum: f32 = seen.iter().enumerate().map(of_tap).sum();
            row[width + i] * (sum + bias.map_or(0.0, |bias| bias[i]))
        }));
    }
    for (place, products) in places.iter().zip(&products) {
        let row = place.row as usize;
        if row < channels.capacity {
            cache[row * words..][..words].copy_from_slice(&heads.pack(products));
        }
    }
    out
}
