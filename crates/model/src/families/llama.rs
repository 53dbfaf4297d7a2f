//! Llama, and what has its shape: SmolLM2, TinyLlama, Mistral in GGUF.

use crate::config::RotaryPairs;
use crate::family::Family;
use crate::keys::Key;

/// Llama's conventions.
pub const FAMILY: Family = Family {
    gguf: "llama",
    hugging_face: &["llama"],
    pairs: RotaryPairs::NeighboursInGguf,
    defaults: &[
        ("hidden_size", 4096.0),
        ("intermediate_size", 11_008.0),
        ("num_hidden_layers", 32.0),
        ("num_attention_heads", 32.0),
        ("max_position_embeddings", 2048.0),
        ("rms_norm_eps", 1e-6),
    ],
    shape: |keys, config| {
        // No file of Llama's has it; one converted from a windowed Mistral may.
        let window = keys.size_above_zero(Key("attention.sliding_window", ""))?;
        Ok(config.windowed(window, |_| true))
    },
    ..Family::PLAIN
};
