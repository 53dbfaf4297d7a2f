//! Ministral 3: Llama with YaRN, and queries that are scaled by their position once it exceeds the
//! context before scaling. No kernel does that, so that this is the longest context.

use crate::config::{Config, RotaryPairs};
use crate::error::ModelError;
use crate::family::Family;
use crate::keys::{Key, Keys};
use crate::rope::Scaling;

/// Ministral 3's conventions.
pub const FAMILY: Family = Family {
    gguf: "mistral3",
    hugging_face: &["ministral3"],
    pairs: RotaryPairs::NeighboursInGguf,
    defaults: &[
        ("hidden_size", 4096.0),
        ("intermediate_size", 14_336.0),
        ("num_hidden_layers", 34.0),
        ("num_attention_heads", 32.0),
        ("num_key_value_heads", 8.0),
        ("head_dim", 128.0),
        ("max_position_embeddings", 262_144.0),
        ("rms_norm_eps", 1e-5),
        ("rope_theta", 1e6),
    ],
    shape,
    ..Family::PLAIN
};

fn shape(keys: &Keys<'_>, config: Config) -> Result<Config, ModelError> {
    let window = keys.size_above_zero(Key("attention.sliding_window", "sliding_window"))?;
    let mut config = config.windowed(window, |_| true);
    // 1 + β · ln(1 + ⌊position / original⌋), which is 1 up to there.
    let scaled = match keys.within("rope_parameters") {
        Some(rope) => rope.has("llama_4_scaling_beta"),
        None => keys
            .optional_float(Key("attention.temperature_scale", ""))?
            .is_some(),
    };
    if let (true, Scaling::Yarn { original, .. }) = (scaled, &config.ropes[0].scaling) {
        config.context = config.context.min(*original);
    }
    Ok(config)
}
