//! Frequencies of the rotary embedding (Su et al., arXiv 2104.09864).

use crate::config::Config;

/// Angle per position of each rotating pair, `[rotary_dim / 2]`: base^(−2i / rotary_dim).
/// `factors` (`[rotary_dim / 2]`, a file's `rope_freqs.weight`) divide them, as llama3
/// scaling asks.
pub fn frequencies(config: &Config, factors: Option<&[f32]>) -> Vec<f32> {
    (0..config.rotary_dim / 2)
        .map(|i| {
            let exponent = 2.0 * i as f64 / config.rotary_dim as f64;
            let factor = factors.map_or(1.0, |factors| f64::from(factors[i]));
            (f64::from(config.rope_base).powf(-exponent) / factor) as f32
        })
        .collect()
}
