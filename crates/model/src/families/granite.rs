//! Granite: Llama with factors on embedding, attention, residuals and logits.

use crate::config::{Config, FeedForward, RotaryPairs};
use crate::error::ModelError;
use crate::family::Family;
use crate::keys::{Key, Keys};

/// Granite's conventions.
pub const FAMILY: Family = Family {
    gguf: "granite",
    hugging_face: &["granite"],
    pairs: RotaryPairs::NeighboursInGguf,
    defaults: &[
        ("hidden_size", 4096.0),
        ("intermediate_size", 11_008.0),
        ("num_hidden_layers", 32.0),
        ("num_attention_heads", 32.0),
        ("max_position_embeddings", 2048.0),
        ("rms_norm_eps", 1e-6),
        ("attention_multiplier", 1.0),
    ],
    shape,
    ..Family::PLAIN
};

/// Reads the factors, and the keys that only files of the dense Granite 4 have: rotation off, and
/// the width of the shared MLP.
///
/// # Errors
/// [`ModelError::Key`] for a key of another type.
pub fn shape(keys: &Keys<'_>, mut config: Config) -> Result<Config, ModelError> {
    // Granite 4's files say so where they rotate nothing.
    if keys.flag(Key("rope.scaling.finetuned", ""))? == Some(false) {
        config.attentions_mut().for_each(|(_, one)| one.rope = None);
    }
    // Of Granite 4, which may have experts beside.
    let shared = Key(
        "expert_shared_feed_forward_length",
        "shared_intermediate_size",
    );
    if let Some(shared) = keys.size_above_zero(shared)? {
        for layer in &mut config.layers {
            layer.feed_forward = FeedForward::Dense { width: shared };
        }
    }
    let attention = Key("attention.scale", "attention_multiplier");
    let logits = Key("logit_scale", "logits_scaling");
    Ok(Config {
        embedding_scale: keys.float_or(Key("embedding_scale", "embedding_multiplier"), 1.0)?,
        attention_scale: keys.float_or(attention, config.attention_scale)?,
        residual_scale: keys.float_or(Key("residual_scale", "residual_multiplier"), 1.0)?,
        // Both worlds divide by it.
        logit_scale: 1.0 / keys.float_or(logits, 1.0)?,
        ..config
    })
}
