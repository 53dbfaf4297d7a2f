//! Phi-3, Phi-3.5-mini and Phi-4-mini: fused projections, LongRoPE, partial rotation, a window.

use crate::family::Family;
use crate::keys::Key;

/// Phi-3's conventions.
pub const FAMILY: Family = Family {
    gguf: "phi3",
    hugging_face: &["phi3"],
    defaults: &[
        ("hidden_size", 3072.0),
        ("intermediate_size", 8192.0),
        ("num_hidden_layers", 32.0),
        ("num_attention_heads", 32.0),
        ("max_position_embeddings", 4096.0),
        ("original_max_position_embeddings", 4096.0),
        ("rms_norm_eps", 1e-5),
    ],
    shape: |keys, config| {
        // GGUF says 0 where there is none.
        let window = keys.size_above_zero(Key("attention.sliding_window", "sliding_window"))?;
        Ok(config.windowed(window, |_| true))
    },
    ..Family::PLAIN
};
