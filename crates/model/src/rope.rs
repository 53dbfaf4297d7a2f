//! Frequencies of the rotary embedding (Su et al., arXiv 2104.09864).

use crate::config::Config;

/// Angle per position of each rotating pair, `[rotary_dim / 2]`: base^(−2i / rotary_dim), rounded
/// at each step as transformers does in f32, since an angle is this times hundreds of positions.
/// `factors` (`[rotary_dim / 2]`, a file's `rope_freqs.weight`) divide them, as llama3
/// scaling asks.
pub fn frequencies(config: &Config, factors: Option<&[f32]>) -> Vec<f32> {
    (0..config.rotary_dim / 2)
        .map(|i| {
            let exponent = (2 * i) as f32 / config.rotary_dim as f32;
            let wavelength = f64::from(config.rope_base).powf(f64::from(exponent)) as f32;
            let factor = factors.map_or(1.0, |factors| factors[i]);
            1.0 / wavelength / factor
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use conclave_kernels::rope_table;

    use super::*;
    use crate::config::Activation;

    /// Angles as torch has them in f32: `1 / base ** (arange(0, dim, 2) / dim)`, times 600.
    /// Exact ones have cosines of 0.92710186 and 0.59192157.
    #[test]
    fn angles_are_those_of_transformers() {
        let config = Config {
            architecture: "llama".to_owned(),
            vocabulary: 1,
            hidden: 20,
            layers: 1,
            heads: 1,
            kv_heads: 1,
            head_dim: 20,
            feed_forward: 1,
            context: 1024,
            norm_epsilon: 1e-5,
            norm_offset: 0.0,
            rope_base: 30_000.0,
            rotary_dim: 20,
            activation: Activation::Silu,
            embedding_scale: 1.0,
            attention_scale: 1.0,
        };
        let frequencies = frequencies(&config, None);
        let wanted = [1.0, 0.356_687_46, 0.127_225_97, 0.045_379_903];
        assert_eq!(frequencies[..4], wanted);
        let table = rope_table(601, &frequencies, 1.0);
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
