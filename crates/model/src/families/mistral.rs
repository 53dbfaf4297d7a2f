//! Mistral: Llama with a sliding window. In GGUF it calls itself `llama`.

use crate::family::Family;
use crate::keys::Key;

/// Mistral's conventions.
pub const FAMILY: Family = Family {
    gguf: "mistral",
    hugging_face: &["mistral"],
    defaults: &[
        ("hidden_size", 4096.0),
        ("intermediate_size", 14_336.0),
        ("num_hidden_layers", 32.0),
        ("num_attention_heads", 32.0),
        ("num_key_value_heads", 8.0),
        ("max_position_embeddings", 131_072.0),
        ("rms_norm_eps", 1e-6),
        ("sliding_window", 4096.0),
    ],
    shape: |keys, config| {
        let window = keys.size_above_zero(Key("attention.sliding_window", "sliding_window"))?;
        Ok(config.windowed(window, |_| true))
    },
    ..Family::PLAIN
};
