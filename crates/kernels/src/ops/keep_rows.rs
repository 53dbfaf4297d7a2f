//! Keeps the winner's rows in the caches of [`Heads`].

use bytemuck::{Pod, Zeroable};
use conclave_gpu::{Shader, Use, flat};

use crate::{Buffer, Gpu, GpuError, Heads};

const WGSL: &str = wgsl!("keep_rows.wgsl");
const ONE: &str = wgsl!("shared/cache/keep_one.wgsl");
const PAIR: &str = wgsl!("shared/cache/keep_pair.wgsl");

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    pairs: u32,
    capacity: u32,
    spare: [u32; 2],
}

/// Shaders for a block with one cache and with two.
pub(crate) static SHADERS: [Shader; 2] = [
    Shader::new::<Params>("keep_rows_of_one", &[WGSL, ONE]),
    Shader::new::<Params>("keep_rows", &[WGSL, PAIR]),
];

/// Caches of a block, in the format of [`Heads`].
#[derive(Debug, Clone, Copy)]
pub enum Caches<'a> {
    /// A convolution's.
    One(&'a Buffer),
    /// Keys and values.
    Pair([&'a Buffer; 2]),
}

/// Moves rows of a block's caches by `moves` `[3]` (u32): source row, target row, at most the
/// source, and number of rows. The ranges may overlap; no rows or an unchanged row is a no-op.
///
/// # Errors
/// [`GpuError::Shape`] for heads that do not fit and buffers too small.
pub fn keep_rows(
    gpu: &Gpu,
    moves: &Buffer,
    heads: Heads,
    caches: Caches<'_>,
) -> Result<(), GpuError> {
    let shader = &SHADERS[usize::from(matches!(caches, Caches::Pair(_)))];
    let name = shader.name;
    heads.check(name)?;
    moves.holds(3, name, "moves")?;
    let pairs = heads.row_words() / 2;
    let params = Params {
        pairs: pairs as u32,
        capacity: heads.capacity as u32,
        spare: [0; 2],
    };
    let caches: &[&Buffer] = match &caches {
        Caches::One(cache) => &[cache],
        Caches::Pair(pair) => pair,
    };
    let mut buffers = vec![Use::Read(moves)];
    for &cache in caches {
        cache.holds(heads.cache_bytes() / 4, name, "cache")?;
        buffers.push(Use::Write(cache));
    }
    gpu.launch(shader, &buffers, &params, flat(shader, pairs))
}

/// The CPU twin, for one cache with rows of `words` words.
pub fn keep_rows_cpu(cache: &mut [u32], words: usize, [src, dst, count]: [u32; 3]) {
    let (src, dst) = (src as usize, dst as usize);
    let rows = cache.len() / words;
    if dst < src && src < rows {
        let end = rows.min(src + count as usize);
        cache.copy_within(src * words..end * words, dst * words);
    }
}
