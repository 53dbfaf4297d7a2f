//! LFM2: layers of a gated short convolution, and some that attend, with norms on each head of
//! queries and keys.

use crate::config::{Config, Convolution, FeedForward, Mixer, QkNorm};
use crate::error::ModelError;
use crate::family::{Family, Norms};
use crate::keys::{Key, Keys, LARGEST};

/// LFM2's and LFM2.5's conventions.
pub const FAMILY: Family = Family {
    gguf: "lfm2",
    hugging_face: &["lfm2"],
    norms: Norms {
        mixer: Some("operator_norm"),
        mixer_post: None,
        feed_forward: Some("ffn_norm"),
        feed_forward_post: None,
    },
    qk_norm: QkNorm::PerHead,
    renamed: &[
        ("output_norm", "token_embd_norm"),
        ("norm", "embedding_norm"),
        ("self_attn.o_proj", "self_attn.out_proj"),
        ("self_attn.q_norm", "self_attn.q_layernorm"),
        ("self_attn.k_norm", "self_attn.k_layernorm"),
        ("mlp.gate_proj", "feed_forward.w1"),
        ("mlp.up_proj", "feed_forward.w3"),
        ("mlp.down_proj", "feed_forward.w2"),
        ("mlp.gate", "feed_forward.gate"),
        ("mlp.expert_bias", "feed_forward.expert_bias"),
        ("mlp.experts.*.gate_proj", "feed_forward.experts.*.w1"),
        ("mlp.experts.*.up_proj", "feed_forward.experts.*.w3"),
        ("mlp.experts.*.down_proj", "feed_forward.experts.*.w2"),
        (
            "mlp.experts.gate_up_proj",
            "feed_forward.experts.gate_up_proj",
        ),
        ("mlp.experts.down_proj", "feed_forward.experts.down_proj"),
    ],
    defaults: &[
        ("vocab_size", 65_536.0),
        ("hidden_size", 2560.0),
        ("intermediate_size", 12_288.0),
        ("num_hidden_layers", 32.0),
        ("num_attention_heads", 32.0),
        ("num_key_value_heads", 8.0),
        ("max_position_embeddings", 128_000.0),
        ("norm_eps", 1e-5),
        ("rope_theta", 1e6),
        ("conv_L_cache", 3.0),
        ("block_multiple_of", 256.0),
        ("block_ffn_dim_multiplier", 1.0),
        ("block_auto_adjust_ff_dim", 1.0),
    ],
    shape,
    ..Family::PLAIN
};

/// Sets the layers that are convolutions, and the width of the MLPs.
pub fn shape(keys: &Keys<'_>, mut config: Config) -> Result<Config, ModelError> {
    let count = config.layers.len();
    let listed = keys.layers_by_type(count, |kind| match kind {
        "conv" => Some(true),
        "full_attention" => Some(false),
        _ => None,
    })?;
    let attending = keys.layer_numbers(Key("", "full_attn_idxs"))?;
    let taps = keys.size(Key("shortconv.l_cache", "conv_L_cache"))?;
    if taps > MOST_TAPS {
        let key = Key("shortconv.l_cache", "conv_L_cache");
        return Err(keys.wrong(key, "is beyond any known model"));
    }
    let width = feed_forward(keys, config.feed_forward())?;
    for (index, layer) in config.layers.iter_mut().enumerate() {
        let convolves = match (&layer.mixer, &listed, &attending) {
            // GGUF gives such layers no key heads.
            (Mixer::Attention(one), ..) if keys.is_gguf() => one.kv_heads == 0,
            (_, Some(convolves), _) => convolves[index],
            (_, None, attending) => attending
                .as_ref()
                .is_some_and(|numbers| !numbers.contains(&index)),
        };
        if convolves {
            layer.mixer = Mixer::Convolution(Convolution { taps });
        }
        layer.feed_forward = FeedForward::Dense { width };
    }
    Ok(config)
}

/// Most tokens that a convolution sees.
const MOST_TAPS: usize = 16;

/// Width of the MLP: read from GGUF, and computed from the settings of a folder's `config.json`.
fn feed_forward(keys: &Keys<'_>, plain: usize) -> Result<usize, ModelError> {
    if keys.is_gguf() {
        return Ok(plain);
    }
    let width = keys
        .optional_size(Key("", "block_ff_dim"))?
        .unwrap_or(plain);
    if keys.flag(Key("", "block_auto_adjust_ff_dim"))? != Some(true) {
        return Ok(width);
    }
    let adjusted = 2 * width / 3;
    let Some(factor) = keys.optional_float(Key("", "block_ffn_dim_multiplier"))? else {
        return Ok(adjusted);
    };
    let multiple = keys.size(Key("", "block_multiple_of"))?;
    let adjusted = (f64::from(factor) * adjusted as f64) as usize;
    if adjusted > LARGEST {
        let key = Key("", "block_ffn_dim_multiplier");
        return Err(keys.wrong(key, "makes an MLP wider than any known model's"));
    }
    Ok(adjusted.div_ceil(multiple) * multiple)
}
