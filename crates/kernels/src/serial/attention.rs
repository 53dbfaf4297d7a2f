//! Attention by serial threads, and the number of keys one can take.

use conclave_gpu::{Shader, grid, number_in};

use crate::Heads;
use crate::ops::attention::{EXACT, Params, SHARE, SHORT};

const WGSL: &str = wgsl!("attention/serial.wgsl");

/// Shaders for 16-bit caches and for exact ones.
pub(crate) static SHADERS: [Shader; 2] = [
    Shader::new::<Params>("attention_serial", &[WGSL, SHARE, SHORT]),
    Shader::new::<Params>("attention_exact_serial", &[WGSL, SHARE, EXACT]),
];

/// Most loop iterations of a thread: after 65,535 lavapipe ends all loops.
const MAX_ITERATIONS: usize = 65_000;

/// Number of shares in a workgroup, which joins the chunks of a query's keys.
fn shares(heads: Heads) -> usize {
    const WORKGROUP: usize = number_in(WGSL, "WORKGROUP: u32 = ") as usize;
    const NARROW: usize = number_in(WGSL, "NARROW: u32 = ") as usize;
    const WIDE: usize = number_in(WGSL, "WIDE: u32 = ") as usize;
    match heads.width / 4 {
        quads if quads <= NARROW => WORKGROUP,
        quads if quads <= WIDE => WORKGROUP / 2,
        _ => WORKGROUP / 4,
    }
}

/// Most iterations of a thread, counting the last check of each loop. A tile of four keys takes
/// one, and three loops of four quads an iteration; begin, end and join take six for each number
/// of a head.
fn iterations(heads: Heads, chunks: usize) -> usize {
    let tiles = heads.capacity.div_ceil(chunks).div_ceil(4);
    tiles * (1 + 3 * (1 + heads.width.div_ceil(16))) + 6 * heads.width + 100
}

/// Whether a thread can take its keys in `chunks` chunks. Otherwise attention is cooperative,
/// whatever the [choices](crate::Choices).
pub(crate) fn fits(heads: Heads, chunks: usize) -> bool {
    shares(heads).is_multiple_of(chunks) && iterations(heads, chunks) <= MAX_ITERATIONS
}

/// Number of chunks: always as many as a workgroup computes side by side. Another number would
/// change the rounding of sums, and so a token's result would depend on its pass.
pub(crate) fn chunks(heads: Heads) -> usize {
    shares(heads)
}

/// Numbers that `partials` needs: highest score and sum of each chunk.
pub(crate) fn partials(tokens: usize, heads: Heads, chunks: usize) -> usize {
    4 * tokens * heads.heads * chunks
}

/// Workgroups for `count` shares.
pub(crate) fn groups(heads: Heads, count: usize) -> [u32; 3] {
    grid(count.div_ceil(shares(heads)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `attention_takes_all_keys_of_a_long_cache` (`tests/kernels/cache.rs`) runs caches of these
    /// sizes.
    #[test]
    fn a_thread_takes_so_many_keys() {
        for (width, capacity) in [(64, 16_000), (256, 4_850), (512, 2_400)] {
            let heads = Heads {
                heads: 1,
                kv_heads: 1,
                width,
                capacity,
                exact: true,
            };
            let longer = Heads {
                capacity: capacity + 250,
                ..heads
            };
            assert!(fits(heads, 1) && !fits(longer, 1));
        }
    }
}
