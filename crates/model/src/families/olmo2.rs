//! OLMo 2: norms after attention and MLP only, and over all of queries and keys.

use crate::config::QkNorm;
use crate::family::{Family, Norms};

/// OLMo 2's conventions.
pub const FAMILY: Family = Family {
    gguf: "olmo2",
    hugging_face: &["olmo2"],
    norms: Norms {
        attention: None,
        attention_post: Some("post_attention_layernorm"),
        feed_forward: None,
        feed_forward_post: Some("post_feedforward_layernorm"),
    },
    qk_norm: QkNorm::Whole,
    defaults: &[
        ("hidden_size", 4096.0),
        ("intermediate_size", 11_008.0),
        ("num_hidden_layers", 32.0),
        ("num_attention_heads", 32.0),
        ("max_position_embeddings", 2048.0),
        ("rms_norm_eps", 1e-5),
    ],
    ..Family::PLAIN
};
