//! Choosing the next token from a row of logits.

use conclave_kernels::{Draws, NO_TOKEN, sample_cpu};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::error::ModelError;

/// Highest temperature of [`Sampling`].
pub const MAX_TEMPERATURE: f32 = 10.0;

/// Settings of a member's draws. Defaults are the paper's: temperature 0.6, top-p 0.9.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase", default)]
pub struct Sampling {
    /// Divides the logits, 0 to 10; 0 is greedy.
    pub temperature: f32,
    /// The smallest set of most probable tokens whose probability reaches this, 0 to 1; 1 keeps
    /// all.
    pub top_p: f32,
    /// At most this many of the most probable tokens; 0 keeps all.
    pub top_k: u32,
    /// Seed of the draws. The same seed gives the same text on the same device.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 0.6,
            top_p: 0.9,
            top_k: 0,
            seed: 0,
        }
    }
}

impl Sampling {
    /// Sampling that always takes the most probable token.
    pub fn greedy() -> Self {
        Self {
            temperature: 0.0,
            ..Self::default()
        }
    }
}

/// A seeded stream of choices: the same on the CPU as on a GPU, by the kernels' [`sample_cpu`].
#[derive(Debug, Clone)]
pub struct Sampler {
    sampling: Sampling,
    random: ChaCha8Rng,
}

impl Sampler {
    /// A sampler at the start of its seed's stream. `stream` keeps members
    /// that share a seed from drawing the same numbers.
    pub fn new(sampling: Sampling, stream: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(sampling.seed);
        random.set_stream(stream);
        Self { sampling, random }
    }

    /// The next token under `logits` (`[vocabulary]`). Ties go to the lowest id.
    ///
    /// # Errors
    /// [`ModelError::NotFinite`] if the logits hold NaN, +∞ or no finite number.
    pub fn choose(&mut self, logits: &[f32]) -> Result<u32, ModelError> {
        match sample_cpu(logits, self.draws(), self.random.next_u32()) {
            NO_TOKEN => Err(ModelError::NotFinite),
            id => Ok(id),
        }
    }

    /// Settings of the draw; logits are softcapped where the model does that.
    pub fn draws(&self) -> Draws {
        Draws {
            temperature: self.sampling.temperature,
            top_k: self.sampling.top_k,
            top_p: self.sampling.top_p,
            softcap: None,
        }
    }

    /// Random numbers for the next `count` draws.
    pub fn numbers(&self, count: usize) -> Vec<u32> {
        let mut random = self.random.clone();
        (0..count).map(|_| random.next_u32()).collect()
    }

    /// Skips the random numbers of `count` draws that were made elsewhere.
    pub fn skip(&mut self, count: usize) {
        for _ in 0..count {
            self.random.next_u32();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(sampling: Sampling, logits: &[f32], draws: usize) -> Vec<usize> {
        let mut sampler = Sampler::new(sampling, 0);
        let mut counts = vec![0; logits.len()];
        for _ in 0..draws {
            counts[sampler.choose(logits).unwrap() as usize] += 1;
        }
        counts
    }

    #[test]
    fn greedy_takes_the_lowest_of_equal_best() {
        let mut sampler = Sampler::new(Sampling::greedy(), 0);
        assert_eq!(sampler.choose(&[0.0, 3.0, 3.0, 1.0]).unwrap(), 1);
    }

    #[test]
    fn frequencies_follow_the_softmax() {
        let logits = [0.0_f32, 1.0, 2.0];
        let sampling = Sampling {
            temperature: 1.0,
            top_p: 1.0,
            ..Sampling::default()
        };
        let total: f64 = logits.iter().map(|&x| f64::from(x).exp()).sum();
        for (count, logit) in counts(sampling, &logits, 20_000).into_iter().zip(logits) {
            let expected = f64::from(logit).exp() / total;
            assert!((count as f64 / 20_000.0 - expected).abs() < 0.015);
        }
    }

    #[test]
    fn top_p_and_top_k_cut_the_tail() {
        let logits = [5.0_f32, 4.9, 0.0, -1.0];
        let nucleus = Sampling {
            temperature: 1.0,
            top_p: 0.6,
            ..Sampling::default()
        };
        let seen = counts(nucleus, &logits, 500);
        assert!(seen[0] > 0 && seen[1] > 0 && seen[2] == 0 && seen[3] == 0);
        let one = Sampling {
            temperature: 5.0,
            top_p: 1.0,
            top_k: 1,
            ..Sampling::default()
        };
        assert_eq!(counts(one, &logits, 100)[0], 100);
    }

    #[test]
    fn the_seed_decides_and_streams_differ() {
        let logits: Vec<f32> = (0..50).map(|i| (i % 7) as f32 * 0.3).collect();
        let run = |seed, stream| {
            let sampling = Sampling {
                temperature: 1.0,
                top_p: 1.0,
                seed,
                ..Sampling::default()
            };
            let mut sampler = Sampler::new(sampling, stream);
            (0..20)
                .map(|_| sampler.choose(&logits).unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(run(7, 0), run(7, 0));
        assert_ne!(run(7, 0), run(8, 0));
        assert_ne!(run(7, 0), run(7, 1));
    }

    #[test]
    fn broken_logits_are_an_error() {
        for sampling in [Sampling::default(), Sampling::greedy()] {
            let mut sampler = Sampler::new(sampling, 0);
            for broken in [
                &[0.0, f32::NAN][..],
                &[0.0, f32::INFINITY],
                &[f32::NEG_INFINITY],
            ] {
                let chosen = sampler.choose(broken);
                assert!(matches!(chosen, Err(ModelError::NotFinite)), "{broken:?}");
            }
            assert_eq!(sampler.choose(&[f32::NEG_INFINITY, 0.0]).unwrap(), 1);
        }
    }
}
