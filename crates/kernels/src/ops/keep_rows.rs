//! Keeping the winner's rows in the caches of [`Heads`].

use bytemuck::{Pod, Zeroable};
use conclave_gpu::{Shader, Use, flat};

use crate::{Buffer, Gpu, GpuError, Heads};

const WGSL: &str = include_str!("../../../../shaders/keep_rows.wgsl");

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    pairs: u32,
    capacity: u32,
    spare: [u32; 2],
}

pub(crate) static SHADER: Shader = Shader::of::<Params>("keep_rows", &[WGSL]);

/// Move rows of both caches as `moves` `[3]` (u32) says: its first number of rows is where
/// they are, the second where they go, not behind the first, the third how many. They may
/// overlap; no rows, or a move to where they are, does nothing.
///
/// # Errors
/// [`GpuError::Shape`] for heads that do not fit and buffers too small.
pub fn keep_rows(
    gpu: &Gpu,
    moves: &Buffer,
    heads: Heads,
    [keys, values]: [&Buffer; 2],
) -> Result<(), GpuError> {
    let name = SHADER.name;
    heads.check(name)?;
    moves.holds(3, name, "moves")?;
    keys.holds(heads.cache_bytes() / 4, name, "keys")?;
    values.holds(heads.cache_bytes() / 4, name, "values")?;
    let pairs = heads.row_words() / 2;
    let params = Params {
        pairs: pairs as u32,
        capacity: heads.capacity as u32,
        spare: [0; 2],
    };
    let buffers = [Use::Read(moves), Use::Write(keys), Use::Write(values)];
    gpu.launch(&SHADER, &buffers, &params, flat(&SHADER, pairs))
}

/// The CPU twin, for one cache of rows of so many words.
pub fn keep_rows_cpu(cache: &mut [u32], words: usize, [src, dst, count]: [u32; 3]) {
    let (src, dst) = (src as usize, dst as usize);
    let rows = cache.len() / words;
    if dst < src && src < rows {
        let end = rows.min(src + count as usize);
        cache.copy_within(src * words..end * words, dst * words);
    }
}
