//! The rotary embedding (Su et al., arXiv 2104.09864) and the ways its frequencies are scaled
//! for longer contexts, as transformers' `modeling_rope_utils` and llama.cpp compute them.

use conclave_kernels::rope_table;
use serde::Serialize;

/// One rotary embedding; layers name it by its index in [`crate::Config::ropes`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rope {
    /// Base of the frequencies.
    pub base: f32,
    /// Dimensions of a head that rotate, the first ones; even.
    pub rotary_dim: usize,
    /// Scaling of the frequencies.
    pub scaling: Scaling,
    /// Factor on every cosine and sine.
    pub attention_factor: f32,
}

/// A scaling of the frequencies base^(−2i / rotary_dim).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Scaling {
    /// Frequencies are left unchanged.
    None,
    /// All frequencies are divided by one factor.
    Linear {
        /// Divisor of every frequency.
        factor: f32,
    },
    /// Frequencies of the first pairs are divided by one factor; the other pairs do not rotate
    /// (Gemma 4).
    Proportional {
        /// Number of pairs that rotate.
        turning: usize,
        /// Divisor of their frequencies.
        factor: f32,
    },
    /// Each frequency is divided by a factor of its own. llama.cpp stores llama3's scaling so.
    Divided {
        /// `[rotary_dim / 2]`.
        by: Factors,
    },
    /// Frequencies of long waves are divided by a factor, those of short waves are left, and those
    /// between are blended (Llama 3.1).
    Llama3 {
        /// Divisor of the frequencies of long waves.
        factor: f32,
        /// Waves longer than `original / low` are long.
        low: f32,
        /// Waves shorter than `original / high` are short.
        high: f32,
        /// The context before scaling, in tokens.
        original: usize,
    },
    /// YaRN (Peng et al., arXiv 2309.00071): a blend by the number of rotations in the context.
    Yarn {
        /// Divisor of the frequencies of long waves.
        factor: f32,
        /// Number of rotations above which a frequency is not changed.
        fast: f32,
        /// Number of rotations below which a frequency is divided.
        slow: f32,
        /// The context before scaling, in tokens.
        original: usize,
        /// Whether the blend begins and ends at whole pairs.
        whole: bool,
    },
    /// LongRoPE (Ding et al., arXiv 2402.13753): one list of factors for texts up to the
    /// original context, another for longer ones.
    LongRope {
        /// `[rotary_dim / 2]`, for texts of at most `original` tokens.
        short: Factors,
        /// `[rotary_dim / 2]`, for longer texts.
        long: Factors,
        /// The context before scaling, in tokens.
        original: usize,
    },
}

/// Divisors of the frequencies, `[rotary_dim / 2]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Factors {
    /// Name of a tensor with the divisors, which is read with the weights.
    Tensor(String),
    /// The divisors themselves.
    Listed(Vec<f32>),
}

impl Factors {
    /// The divisors; empty until those of a tensor have been read.
    fn values(&self) -> &[f32] {
        match self {
            Self::Tensor(_) => &[],
            Self::Listed(values) => values,
        }
    }
}

impl Rope {
    /// A rotary embedding without scaling.
    pub fn plain(base: f32, rotary_dim: usize) -> Self {
        Self {
            base,
            rotary_dim,
            scaling: Scaling::None,
            attention_factor: 1.0,
        }
    }

    /// Longest text, in tokens, that uses the short frequencies; `None` if frequencies do not
    /// depend on the text's length.
    pub fn switches_at(&self) -> Option<usize> {
        match self.scaling {
            Scaling::LongRope { original, .. } => Some(original),
            _ => None,
        }
    }

    /// The lists of factors that are still in a tensor.
    pub fn factors_mut(&mut self) -> Vec<&mut Factors> {
        match &mut self.scaling {
            Scaling::Divided { by } => vec![by],
            Scaling::LongRope { short, long, .. } => vec![short, long],
            _ => Vec::new(),
        }
    }

    /// Angle per position of each turning pair, `[rotary_dim / 2]`, rounded at each step as
    /// torch does in f32, since an angle is this times hundreds of positions. `long` chooses
    /// between the two lists of LongRoPE.
    pub fn frequencies(&self, long: bool) -> Vec<f32> {
        let waves = (0..self.rotary_dim / 2).map(|pair| {
            let exponent = (2 * pair) as f32 / self.rotary_dim as f32;
            f64::from(self.base).powf(f64::from(exponent)) as f32
        });
        match &self.scaling {
            Scaling::None => waves.map(|wave| 1.0 / wave).collect(),
            Scaling::Linear { factor } => waves.map(|wave| 1.0 / wave / factor).collect(),
            &Scaling::Proportional { turning, factor } => waves
                .enumerate()
                .map(|(pair, wave)| match pair < turning {
                    true => 1.0 / wave / factor,
                    false => 0.0,
                })
                .collect(),
            Scaling::Divided { by } => waves
                .zip(by.values())
                .map(|(wave, factor)| 1.0 / wave / factor)
                .collect(),
            Scaling::LongRope {
                short, long: far, ..
            } => waves
                .zip(if long { far } else { short }.values())
                .map(|(wave, factor)| 1.0 / (factor * wave))
                .collect(),
            &Scaling::Llama3 {
                factor,
                low,
                high,
                original,
            } => waves
                .map(|wave| llama3(1.0 / wave, factor, low, high, original as f32))
                .collect(),
            &Scaling::Yarn {
                factor,
                fast,
                slow,
                original,
                whole,
            } => {
                let (begin, end) = self.blend(fast, slow, original, whole);
                waves
                    .enumerate()
                    .map(|(pair, wave)| {
                        let ramp = ((pair as f32 - begin) / (end - begin)).clamp(0.0, 1.0);
                        let keep = 1.0 - ramp;
                        1.0 / (factor * wave) * (1.0 - keep) + 1.0 / wave * keep
                    })
                    .collect()
            }
        }
    }

    /// Cosines and sines for `context` positions, `[context, rotary_dim / 2, 2]`.
    pub fn table(&self, context: usize, long: bool) -> Vec<f32> {
        rope_table(context, &self.frequencies(long), self.attention_factor)
    }

    /// First and last pair of YaRN's blend.
    fn blend(&self, fast: f32, slow: f32, original: usize, whole: bool) -> (f32, f32) {
        let dims = self.rotary_dim as f64;
        let pair = |rotations: f32| {
            let wave = original as f64 / (f64::from(rotations) * std::f64::consts::TAU);
            dims * wave.ln() / (2.0 * f64::from(self.base).ln())
        };
        let (mut begin, mut end) = (pair(fast), pair(slow));
        if whole {
            (begin, end) = (begin.floor(), end.ceil());
        }
        let (begin, mut end) = (begin.max(0.0), end.min(dims - 1.0));
        if begin == end {
            end += 0.001;
        }
        (begin as f32, end as f32)
    }
}

/// Llama 3.1's scaling of one frequency.
fn llama3(frequency: f32, factor: f32, low: f32, high: f32, original: f32) -> f32 {
    let wave = 2.0 * std::f32::consts::PI / frequency;
    if wave < original / high {
        frequency
    } else if wave > original / low {
        frequency / factor
    } else {
        let smooth = (original / wave - low) / (high - low);
        (1.0 - smooth) * frequency / factor + smooth * frequency
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Angles as torch has them in f32: `1 / base ** (arange(0, dim, 2) / dim)`, times 600.
    /// Exact ones have cosines of 0.92710186 and 0.59192157.
    #[test]
    fn angles_are_those_of_transformers() {
        let rope = Rope::plain(30_000.0, 20);
        let wanted = [1.0, 0.356_687_46, 0.127_225_97, 0.045_379_903];
        assert_eq!(rope.frequencies(false)[..4], wanted);
        let table = rope.table(601, false);
        let cosines: Vec<f32> = table[600 * 20..]
            .iter()
            .copied()
            .step_by(2)
            .take(4)
            .collect();
        let wanted = [-0.999_023_5, 0.927_111_3, 0.591_921_75, -0.500_697_14];
        for (found, wanted) in cosines.iter().zip(wanted) {
            assert!((found - wanted).abs() < 2e-7, "{found} against {wanted}");
        }
    }
}
