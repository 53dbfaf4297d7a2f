//! Granite: Llama with factors on embedding, attention, residuals and logits. Folders of Granite 4 call
//! themselves a hybrid of experts, of which the dense ones have neither.

use crate::config::{Config, FeedForward, RotaryPairs};
use crate::error::ModelError;
use crate::family::Family;
use crate::keys::{Key, Keys};

/// Granite's conventions.
pub const FAMILY: Family = Family {
    gguf: "granite",
    hugging_face: &["granite", "granitemoehybrid"],
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

fn shape(keys: &Keys<'_>, mut config: Config) -> Result<Config, ModelError> {
    let mut rotates = keys.flag(Key("rope.scaling.finetuned", ""))? != Some(false);
    if keys.word(Key("", "model_type"))?.as_deref() == Some("granitemoehybrid") {
        let experts = Key("", "num_local_experts");
        if keys.size_above_zero(experts)?.is_some() {
            return Err(keys.wrong(experts, "asks for experts, which are not supported"));
        }
        // Refuses layers that are no attention.
        keys.sliding_layers(config.layers.len())?;
        rotates = keys.word(Key("", "position_embedding_type"))?.as_deref() == Some("rope");
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
    if !rotates {
        config.attentions_mut().for_each(|(_, one)| one.rope = None);
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
