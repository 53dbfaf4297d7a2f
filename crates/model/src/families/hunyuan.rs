//! Hunyuan, the dense ones: Llama with norms on each head of queries and keys after their
//! rotation.

use crate::config::QkNorm;
use crate::family::Family;

/// Hunyuan's conventions.
pub const FAMILY: Family = Family {
    gguf: "hunyuan-dense",
    hugging_face: &["hunyuan_v1_dense"],
    qk_norm: QkNorm::Rotated,
    renamed: &[
        ("self_attn.q_norm", "self_attn.query_layernorm"),
        ("self_attn.k_norm", "self_attn.key_layernorm"),
    ],
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
