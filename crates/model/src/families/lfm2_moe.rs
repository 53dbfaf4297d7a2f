//! LFM2-MoE: LFM2 whose layers, but for the first few, are mixtures of experts.

use crate::config::{Bias, Config, Experts, FeedForward, Gating};
use crate::error::ModelError;
use crate::expert_keys;
use crate::families::lfm2;
use crate::family::Family;
use crate::keys::{Key, Keys};

/// LFM2-MoE's and LFM2.5-MoE's conventions.
pub const FAMILY: Family = Family {
    gguf: "lfm2moe",
    hugging_face: &["lfm2_moe"],
    defaults: &[
        ("vocab_size", 65_536.0),
        ("hidden_size", 2048.0),
        ("intermediate_size", 7168.0),
        ("moe_intermediate_size", 1792.0),
        ("num_hidden_layers", 32.0),
        ("num_attention_heads", 32.0),
        ("num_key_value_heads", 8.0),
        ("max_position_embeddings", 128_000.0),
        ("norm_eps", 1e-5),
        ("rope_theta", 1e6),
        ("conv_L_cache", 3.0),
        ("num_dense_layers", 2.0),
        ("num_experts", 32.0),
        ("num_experts_per_tok", 4.0),
        ("use_expert_bias", 1.0),
    ],
    shape,
    ..lfm2::FAMILY
};

fn shape(keys: &Keys<'_>, config: Config) -> Result<Config, ModelError> {
    let mut config = lfm2::shape(keys, config)?;
    let width = keys.size(Key("expert_feed_forward_length", "moe_intermediate_size"))?;
    let dense = Key("leading_dense_block_count", "num_dense_layers");
    let dense = keys.size_above_zero(dense)?.unwrap_or(0);
    let experts = Experts {
        choice_bias: match keys.flag(Key("", "use_expert_bias"))? {
            // GGUF has the tensor, or has it not.
            None => Bias::Where,
            Some(true) => Bias::Always,
            Some(false) => Bias::Never,
        },
        ..expert_keys::read(keys, width, Gating::Sigmoid, true)?
    };
    for layer in config.layers.iter_mut().skip(dense) {
        layer.feed_forward = FeedForward::Experts(experts);
    }
    Ok(config)
}
