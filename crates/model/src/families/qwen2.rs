//! Qwen2 and Qwen2.5: biases on queries, keys and values; upper layers may have a window.

use crate::config::{Bias, Config};
use crate::error::ModelError;
use crate::family::Family;
use crate::keys::{Key, Keys};

/// Qwen2's conventions.
pub const FAMILY: Family = Family {
    gguf: "qwen2",
    hugging_face: &["qwen2"],
    defaults: &[
        ("hidden_size", 4096.0),
        ("intermediate_size", 22_016.0),
        ("num_hidden_layers", 32.0),
        ("num_attention_heads", 32.0),
        ("num_key_value_heads", 32.0),
        ("max_position_embeddings", 32_768.0),
        ("rms_norm_eps", 1e-6),
        ("sliding_window", 4096.0),
        ("max_window_layers", 28.0),
    ],
    shape: |keys, config| {
        let config = Config {
            qkv_bias: Bias::Always,
            ..config
        };
        upper_windows(keys, config)
    },
    ..Family::PLAIN
};

/// Qwen's window, in the layers `layer_types` names or from `max_window_layers` upward.
///
/// # Errors
/// [`ModelError::Key`] for a list that is too short or values out of range.
pub fn upper_windows(keys: &Keys<'_>, config: Config) -> Result<Config, ModelError> {
    if keys.flag(Key("", "use_sliding_window"))? != Some(true) {
        return Ok(config);
    }
    let window = keys.size_above_zero(Key("", "sliding_window"))?;
    let first = keys
        .size_above_zero(Key("", "max_window_layers"))?
        .unwrap_or(0);
    let listed = keys.sliding_layers(config.layers.len())?;
    Ok(config.windowed(window, |layer| match &listed {
        Some(sliding) => sliding[layer],
        None => layer >= first,
    }))
}
