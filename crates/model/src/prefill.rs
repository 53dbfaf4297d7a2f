//! Length of a step of a prompt: short enough that the device stays free for others and a stop
//! takes effect soon.

use std::cell::Cell;
use std::ops::RangeInclusive;
use std::time::Duration;

use web_time::Instant;

/// Rows of a tile of the products: a chunk of a multiple of them wastes none.
const TILE: usize = 32;

/// Tokens of a chunk.
const CHUNK: RangeInclusive<usize> = TILE..=256;

/// Launches of one submit to the GPU's queue, and launches that a block takes, about.
const SUBMIT: u64 = 64;
const BLOCK: u64 = 8;

/// Operations of a laptop's GPU in 50 ms, at 1 TFLOP/s of products in effect.
const FLOP: u64 = 50_000_000_000;

/// Tokens of a prompt that a GPU runs in one step, for a model with `parameters` weights in
/// `layers` blocks: a multiple of 32 between 32 and 256.
///
/// The number is an estimate by which no task holds a laptop's GPU for more than 50 ms, since the
/// page draws on the same GPU. The GPU is taken to compute 1 TFLOP/s. A task is one submit of 64
/// launches, and a block takes about 8 launches, so that
/// 2 · parameters · tokens · min(1, 64 / (8 · layers)) ≤ 50 GFLOP. Fewer than 32 tokens would
/// leave rows of a tile idle and take as long as 32. For models that would need fewer,
/// [`blocks_a_submit`] makes the submits smaller.
pub fn gpu_chunk(parameters: u64, layers: usize) -> usize {
    let blocks = layers as u64;
    let launches = BLOCK.saturating_mul(blocks).max(SUBMIT);
    let each = u128::from(parameters.max(1)) * 2 * u128::from(SUBMIT);
    let tokens = u128::from(FLOP) * u128::from(launches) / each;
    let tokens = usize::try_from(tokens).unwrap_or(usize::MAX);
    (tokens / TILE * TILE).clamp(*CHUNK.start(), *CHUNK.end())
}

/// Number of blocks after which a pass of `tokens` tokens has to be submitted. `None` if the usual
/// submit of 64 launches stays within the 50 ms of [`gpu_chunk`].
pub fn blocks_a_submit(parameters: u64, layers: usize, tokens: usize) -> Option<usize> {
    let all = (2 * u128::from(parameters)).saturating_mul(tokens as u128);
    let blocks = u128::from(FLOP) * layers.max(1) as u128 / all.max(1);
    (blocks < u128::from(SUBMIT / BLOCK)).then_some(blocks.max(1) as usize)
}

/// Longest wait for a chunk after which the next one may be twice as long: that stays within 50 ms.
const SHORT: Duration = Duration::from_millis(25);

/// Wait for a chunk after which the next one is half as long.
const LONG: Duration = Duration::from_millis(100);

/// Tokens of a GPU's next chunk: [`gpu_chunk`] at first, more after chunks that were quick. A
/// large GPU takes as long for 256 rows as for 32, which leave most of it idle.
#[derive(Debug)]
pub struct Pace {
    tokens: Cell<usize>,
    begun: Cell<Option<Instant>>,
}

impl Pace {
    /// Pace whose first chunk is the [`gpu_chunk`] of a model of this size.
    pub fn new(parameters: u64, layers: usize) -> Self {
        Self {
            tokens: Cell::new(gpu_chunk(parameters, layers)),
            begun: Cell::new(None),
        }
    }

    /// Tokens of the next chunk.
    pub fn tokens(&self) -> usize {
        self.tokens.get()
    }

    /// Records that a pass of `tokens` tokens begins. Only whole chunks are timed.
    pub fn begin(&self, tokens: usize) {
        let whole = tokens == self.tokens.get();
        self.begun.set(whole.then(Instant::now));
    }

    /// Records that all passes have run.
    pub fn end(&self) {
        if let Some(begun) = self.begun.take() {
            self.adapt(begun.elapsed());
        }
    }

    fn adapt(&self, wait: Duration) {
        let tokens = self.tokens.get();
        let next = if wait <= SHORT {
            tokens * 2
        } else if wait >= LONG {
            tokens / 2
        } else {
            tokens
        };
        self.tokens.set(next.clamp(*CHUNK.start(), *CHUNK.end()));
    }
}

/// Tokens of a prompt that the CPU runs in one step: few, since it handles nothing else meanwhile.
pub const CPU_CHUNK: usize = TILE;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_grow_on_a_quick_gpu_and_shrink_on_a_slow_one() {
        let pace = Pace::new(1_236_000_000, 16);
        let mut after = |ms| {
            pace.adapt(Duration::from_millis(ms));
            pace.tokens()
        };
        let found = [5, 25, 26, 99, 20, 20, 100, 500, 500, 500].map(&mut after);
        assert_eq!(found, [64, 128, 128, 128, 256, 256, 128, 64, 32, 32]);
        // A shorter pass, and a wait without one, change nothing.
        pace.begin(7);
        pace.end();
        pace.end();
        assert_eq!(pace.tokens(), 32);
        pace.begin(32);
        pace.end();
        assert_eq!(pace.tokens(), 64);
    }

    #[test]
    fn a_submit_stays_below_50_ms_of_a_laptop_gpu() {
        // The shapes of the catalogue, and a toy.
        for (parameters, layers, wanted, blocks) in [
            (1_000_000, 4, 256, None),
            (135_000_000, 30, 256, None),
            (494_000_000, 24, 128, None),
            (1_236_000_000, 16, 32, None),
            (1_544_000_000, 28, 32, None),
            (3_213_000_000, 28, 32, Some(6)),
            (3_821_000_000, 32, 32, Some(6)),
            (4_022_000_000, 36, 32, Some(6)),
        ] {
            let chunk = gpu_chunk(parameters, layers);
            let model = format!("{parameters} weights in {layers} blocks");
            assert_eq!(chunk, wanted, "{model}");
            let early = blocks_a_submit(parameters, layers, chunk);
            assert_eq!(early, blocks, "{model}");
            let share = (early.unwrap_or(8) as f64 / layers as f64).min(1.0);
            let flop = 2.0 * parameters as f64 * chunk as f64 * share;
            assert!(flop <= 50e9, "{model}: {flop:e} FLOP");
            // A step never is.
            assert_eq!(blocks_a_submit(parameters, layers, 1), None, "{model}");
        }
        assert_eq!(gpu_chunk(0, 0), 256);
        assert_eq!(gpu_chunk(u64::MAX, 64), 32);
        assert_eq!(blocks_a_submit(0, 0, 0), None);
        assert_eq!(blocks_a_submit(u64::MAX, 64, usize::MAX), Some(1));
    }
}
