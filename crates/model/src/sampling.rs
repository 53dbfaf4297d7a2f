//! Choosing the next token from a row of logits.

use conclave_kernels::{Draws, NO_TOKEN, sample_cpu};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::ModelError;

/// Settings of a member's draws. Defaults are the paper's: temperature 0.6, top-p 0.9.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase", default)]
pub struct Sampling {
    /// Divides the logits, 0 to 10; 0 is greedy.
    pub temperature: f64,
    /// The smallest set of most probable tokens whose probability reaches this, 0 to 1; 1 keeps
    /// all.
    pub top_p: f64,
    /// At most this many of the most probable tokens; 0 keeps all.
    pub top_k: u32,
    /// Tokens with at least this share of the most probable one's probability, 0 to 1; 0 keeps all.
    pub min_p: f64,
    /// Seed of the draws. The same seed gives the same text on the same device.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 0.6,
            top_p: 0.9,
            top_k: 0,
            min_p: 0.0,
            seed: 0,
        }
    }
}

/// Option of [`Sampling`], as the tool, the server and the page offer it. The seed is apart: its
/// absence means a new one.
#[derive(Debug)]
pub struct SamplingOption {
    /// Name in requests, as in OpenAI's interface: `top_p`, which is `topP` in TypeScript.
    pub name: &'static str,
    /// Name on the page.
    pub label: &'static str,
    /// Its effect, in a sentence for users.
    pub help: &'static str,
    /// Highest value; the lowest is 0.
    pub most: f64,
    /// Highest value in requests and on the page.
    pub usual: f64,
    /// Step of its control on the page; 1 allows only whole numbers everywhere.
    pub step: f64,
    /// Reads it.
    pub value: fn(&Sampling) -> f64,
    /// Sets it to a value from 0 to `most`.
    pub set: fn(&mut Sampling, f64),
}

/// All options but the seed.
pub const SAMPLING_OPTIONS: [SamplingOption; 4] = [
    SamplingOption {
        name: "temperature",
        label: "Temperature",
        help: "0 always takes the most probable token; higher is more varied.",
        most: 10.0,
        usual: 2.0,
        step: 0.05,
        value: |sampling| sampling.temperature,
        set: |sampling, value| sampling.temperature = value,
    },
    SamplingOption {
        name: "top_p",
        label: "Top-p",
        help: "Draw only from the most probable tokens that hold this much probability; 1: all.",
        most: 1.0,
        usual: 1.0,
        step: 0.01,
        value: |sampling| sampling.top_p,
        set: |sampling, value| sampling.top_p = value,
    },
    SamplingOption {
        name: "top_k",
        label: "Top-k",
        help: "Draw only from this many of the most probable tokens; 0: all.",
        most: u32::MAX as f64,
        usual: u32::MAX as f64,
        step: 1.0,
        value: |sampling| sampling.top_k.into(),
        set: |sampling, value| sampling.top_k = value as u32,
    },
    SamplingOption {
        name: "min_p",
        label: "Min-p",
        help: "Leave out tokens less than this share as probable as the most probable one; 0: none.",
        most: 1.0,
        usual: 1.0,
        step: 0.01,
        value: |sampling| sampling.min_p,
        set: |sampling, value| sampling.min_p = value,
    },
];

impl SamplingOption {
    /// Returns its name on the command line: `top-p`.
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    /// Returns its value as requests have it.
    pub fn json(&self, sampling: &Sampling) -> Value {
        let value = (self.value)(sampling);
        match self.is_whole() {
            true => Value::from(value as u64),
            false => Value::from(value),
        }
    }

    /// Returns whether it takes only whole numbers.
    pub fn is_whole(&self) -> bool {
        self.step >= 1.0
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
            temperature: self.sampling.temperature as f32,
            top_k: self.sampling.top_k,
            top_p: self.sampling.top_p as f32,
            min_p: self.sampling.min_p as f32,
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
    fn min_p_keeps_what_is_probable_enough() {
        let half = 2.0_f32.ln();
        let sampling = Sampling {
            temperature: 1.0,
            top_p: 1.0,
            min_p: 0.2,
            ..Sampling::default()
        };
        // Probabilities of 1, 1/4 and 1/8 of the first one's.
        let seen = counts(sampling, &[0.0, -2.0 * half, -3.0 * half], 500);
        assert!(seen[0] > 0 && seen[1] > 0 && seen[2] == 0, "{seen:?}");
    }

    #[test]
    fn each_option_reads_and_sets_its_own_field() {
        for option in &SAMPLING_OPTIONS {
            let (mut sampling, before) = (Sampling::default(), Sampling::default());
            let value = if option.is_whole() { 7.0 } else { 0.25 };
            (option.set)(&mut sampling, value);
            let others = SAMPLING_OPTIONS
                .iter()
                .filter(|one| one.name != option.name);
            assert_eq!((option.value)(&sampling), value, "{}", option.name);
            for other in others {
                assert_eq!((other.value)(&sampling), (other.value)(&before));
            }
            assert!((option.value)(&before) <= option.usual && option.usual <= option.most);
        }
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
