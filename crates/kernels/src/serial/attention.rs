//! Attention by serial threads, and how many keys one can take.

use conclave_gpu::{Shader, grid, number_in};

use crate::Heads;
use crate::ops::attention::{EXACT, JOIN, Params, SHARE, SHORT};

const WGSL: &str = wgsl!("attention/serial.wgsl");

/// For caches of 16 bits a number, and for exact ones.
pub(crate) static SHADERS: [Shader; 2] = [
    Shader::new::<Params>("attention_serial", &[WGSL, SHARE, SHORT, JOIN]),
    Shader::new::<Params>("attention_exact_serial", &[WGSL, SHARE, EXACT, JOIN]),
];

/// Keys of a chunk, at least: fewer than elsewhere, since chunks are joined at once.
const CHUNK: usize = 64;

/// Iterations that the loops of a thread may have together: after 65,535 lavapipe ends them all.
const MOST_ITERATIONS: usize = 65_000;

/// Shares of a workgroup, which joins the chunks of a query's keys.
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

/// Iterations of a thread at most, the last look of each loop being one. A tile of four keys takes
/// one, and three loops of four quads an iteration; to begin, to end and to join take six a number
/// of a head.
fn iterations(heads: Heads, chunks: usize) -> usize {
    let tiles = heads.capacity.div_ceil(chunks).div_ceil(4);
    tiles * (1 + 3 * (1 + heads.width.div_ceil(16))) + 6 * heads.width + 100
}

/// Whether a thread can take its keys in so many chunks. Where it cannot, attention is cooperative,
/// whatever the [choices](crate::Choices).
pub(crate) fn fits(heads: Heads, chunks: usize) -> bool {
    shares(heads).is_multiple_of(chunks) && iterations(heads, chunks) <= MOST_ITERATIONS
}

/// Chunks of so many `keys` where `wanted` would do: no more than lie side by side in a workgroup.
pub(crate) fn chunks(wanted: usize, heads: Heads, keys: usize) -> usize {
    let most = wanted.min(shares(heads)).min(keys / CHUNK);
    1 << most.max(1).ilog2()
}

/// Workgroups for so many shares.
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
