//! OLMoE: every layer a mixture of experts, with norms over all of queries and keys.

use crate::config::{Config, FeedForward, Gating, QkNorm};
use crate::error::ModelError;
use crate::expert_keys;
use crate::family::Family;
use crate::keys::{Key, Keys};

/// OLMoE's conventions.
pub const FAMILY: Family = Family {
    gguf: "olmoe",
    hugging_face: &["olmoe"],
    qk_norm: QkNorm::Whole,
    defaults: &[
        ("hidden_size", 2048.0),
        ("intermediate_size", 2048.0),
        ("num_hidden_layers", 16.0),
        ("num_attention_heads", 16.0),
        ("max_position_embeddings", 4096.0),
        ("rms_norm_eps", 1e-5),
        ("num_experts", 64.0),
        ("num_experts_per_tok", 8.0),
    ],
    shape,
    ..Family::PLAIN
};

fn shape(keys: &Keys<'_>, mut config: Config) -> Result<Config, ModelError> {
    let clip = Key("attention.clamp_kqv", "clip_qkv");
    if keys.optional_float(clip)?.is_some() {
        return Err(keys.wrong(
            clip,
            "clips queries, keys and values, which is not supported",
        ));
    }
    let width = config.feed_forward();
    let experts = expert_keys::read(keys, width, Gating::Softmax, false)?;
    for layer in &mut config.layers {
        layer.feed_forward = FeedForward::Experts(experts);
    }
    Ok(config)
}
