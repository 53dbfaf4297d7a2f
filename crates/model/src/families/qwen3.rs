//! Qwen3: norms on each head of queries and keys, no biases.

use crate::config::QkNorm;
use crate::families::qwen2::upper_windows;
use crate::family::Family;

/// Qwen3's conventions.
pub const FAMILY: Family = Family {
    gguf: "qwen3",
    hugging_face: &["qwen3"],
    qk_norm: QkNorm::PerHead,
    defaults: &[
        ("hidden_size", 4096.0),
        ("intermediate_size", 22_016.0),
        ("num_hidden_layers", 32.0),
        ("num_attention_heads", 32.0),
        ("num_key_value_heads", 32.0),
        ("head_dim", 128.0),
        ("max_position_embeddings", 32_768.0),
        ("rms_norm_eps", 1e-6),
        ("sliding_window", 4096.0),
        ("max_window_layers", 28.0),
    ],
    shape: upper_windows,
    ..Family::PLAIN
};
