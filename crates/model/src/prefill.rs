//! How much of a prompt runs in one step: little enough that the device stays free for others and
//! a stop is soon heard.

use std::ops::RangeInclusive;

/// Rows of a tile of the products: a chunk of a multiple of them wastes none.
const TILE: usize = 32;

/// Tokens of a chunk.
const CHUNK: RangeInclusive<usize> = TILE..=256;

/// Launches that the GPU's queue submits at once, and those that a block takes about.
const SUBMIT: u64 = 64;
const BLOCK: u64 = 8;

/// What a laptop's GPU computes in 50 ms, at 1 TFLOP/s of products in effect.
const FLOP: u64 = 50_000_000_000;

/// Tokens of a prompt that a GPU runs in one step, for a model of so many weights in so many
/// blocks: a multiple of 32 between 32 and 256.
///
/// An estimate, so that no task holds a laptop's GPU, taken as 1 TFLOP/s, for more than 50 ms: the
/// page draws on it too. A task is one submit of 64 launches, of which a block takes about 8, so
/// that 2 · parameters · tokens · min(1, 64 / (8 · layers)) ≤ 50 GFLOP. For models of 3 to 4 billion
/// weights 32 tokens are up to 62 GFLOP; fewer would leave rows of a tile idle and take as long.
pub fn gpu_chunk(parameters: u64, layers: usize) -> usize {
    let blocks = layers as u64;
    let launches = BLOCK.saturating_mul(blocks).max(SUBMIT);
    let each = u128::from(parameters.max(1)) * 2 * u128::from(SUBMIT);
    let tokens = u128::from(FLOP) * u128::from(launches) / each;
    let tokens = usize::try_from(tokens).unwrap_or(usize::MAX);
    (tokens / TILE * TILE).clamp(*CHUNK.start(), *CHUNK.end())
}

/// Tokens of a prompt that the CPU runs in one step: few, since nothing else is heard meanwhile.
pub const CPU_CHUNK: usize = TILE;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_submit_stays_below_50_ms_of_a_laptop_gpu() {
        // The shapes of the catalogue, and a toy.
        for (parameters, layers, wanted) in [
            (1_000_000, 4, 256),
            (135_000_000, 30, 256),
            (494_000_000, 24, 128),
            (1_236_000_000, 16, 32),
            (1_544_000_000, 28, 32),
            (3_821_000_000, 32, 32),
        ] {
            let chunk = gpu_chunk(parameters, layers);
            assert_eq!(chunk, wanted, "{parameters} weights in {layers} blocks");
            let share = (64.0 / (8 * layers) as f64).min(1.0);
            let flop = 2.0 * parameters as f64 * chunk as f64 * share;
            assert!(flop <= 50e9 || chunk == 32, "{flop:e} FLOP");
        }
        assert_eq!(gpu_chunk(0, 0), 256);
        assert_eq!(gpu_chunk(u64::MAX, 64), 32);
    }
}
