//! GLM-4 (0414): norms on both sides, half of a head rotates, in neighbouring pairs.

use crate::config::Config;
use crate::config::{Bias, RotaryPairs};
use crate::family::{Family, Norms};

/// GLM-4's conventions.
pub const FAMILY: Family = Family {
    gguf: "glm4",
    hugging_face: &["glm4"],
    norms: Norms {
        mixer: Some("input_layernorm"),
        mixer_post: Some("post_self_attn_layernorm"),
        feed_forward: Some("post_attention_layernorm"),
        feed_forward_post: Some("post_mlp_layernorm"),
    },
    pairs: RotaryPairs::Neighbours,
    defaults: &[
        ("hidden_size", 4096.0),
        ("intermediate_size", 13_696.0),
        ("num_hidden_layers", 40.0),
        ("num_attention_heads", 32.0),
        ("num_key_value_heads", 2.0),
        ("head_dim", 128.0),
        ("max_position_embeddings", 131_072.0),
        ("rms_norm_eps", 1.5625e-7),
        ("partial_rotary_factor", 0.5),
        ("attention_bias", 1.0),
    ],
    shape: |_, config| {
        Ok(Config {
            output_bias: Bias::Never,
            ..config
        })
    },
    ..Family::PLAIN
};
