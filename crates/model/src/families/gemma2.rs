//! Gemma 2: norms on both sides of attention and MLP, softcaps, a window in every other layer.

use crate::config::{Activation, Config, Mixer};
use crate::error::ModelError;
use crate::families::gemma::scaled;
use crate::family::{Family, Norms};
use crate::keys::{Key, Keys};

/// Norms on both sides, as Gemma 2 and 3 name them.
pub const SANDWICH: Norms = Norms {
    mixer: Some("input_layernorm"),
    mixer_post: Some("post_attention_layernorm"),
    feed_forward: Some("pre_feedforward_layernorm"),
    feed_forward_post: Some("post_feedforward_layernorm"),
};

/// Layers of Gemma 2 27B, by which its GGUF files are known: its queries are scaled by 1/√144.
const LAYERS_OF_27B: usize = 46;

/// Gemma 2's conventions.
pub const FAMILY: Family = Family {
    gguf: "gemma2",
    hugging_face: &["gemma2"],
    activation: Activation::Gelu,
    norms: SANDWICH,
    norm_offset: 1.0,
    defaults: &[
        ("hidden_size", 2304.0),
        ("intermediate_size", 9216.0),
        ("num_hidden_layers", 26.0),
        ("num_attention_heads", 8.0),
        ("num_key_value_heads", 4.0),
        ("head_dim", 256.0),
        ("max_position_embeddings", 8192.0),
        ("rms_norm_eps", 1e-6),
        ("tie_word_embeddings", 1.0),
        ("query_pre_attn_scalar", 256.0),
        ("sliding_window", 4096.0),
        ("attn_logit_softcapping", 50.0),
        ("final_logit_softcapping", 30.0),
    ],
    shape,
    ..Family::PLAIN
};

fn shape(keys: &Keys<'_>, config: Config) -> Result<Config, ModelError> {
    let attention = Key("attn_logit_softcapping", "attn_logit_softcapping");
    let logits = Key("final_logit_softcapping", "final_logit_softcapping");
    // llama.cpp's values where a file has none, too.
    let gguf = keys.is_gguf();
    let config = alternating(keys, scaled(keys, config)?, 2, gguf.then_some(4096))?;
    Ok(Config {
        attention_scale: query_scale(keys, &config, LAYERS_OF_27B)?,
        attention_softcap: keys.optional_float(attention)?.or(gguf.then_some(50.0)),
        logit_softcap: keys.optional_float(logits)?.or(gguf.then_some(30.0)),
        ..config
    })
}

/// Factor on the attention's scores: 1/√`query_pre_attn_scalar` of `config.json`, else the usual
/// 1/√head_dim. GGUF has no such key, so that a file of `wide_layers` layers is taken for the
/// model whose scalar is hidden / heads, as llama.cpp does.
///
/// # Errors
/// [`ModelError::Key`] for a value out of range.
pub fn query_scale(
    keys: &Keys<'_>,
    config: &Config,
    wide_layers: usize,
) -> Result<f32, ModelError> {
    let scalar = keys.optional_float(Key("", "query_pre_attn_scalar"))?;
    let is_wide = keys.is_gguf() && config.layers.len() == wide_layers;
    let scalar = match config.layers.first().map(|layer| &layer.mixer) {
        Some(Mixer::Attention(attention)) if is_wide => {
            Some((config.hidden / attention.heads) as f32)
        }
        _ => scalar,
    };
    Ok(scalar.map_or(config.attention_scale, |scalar| 1.0 / scalar.sqrt()))
}

/// A window in all layers but the last of every `period`.
///
/// # Errors
/// [`ModelError::Key`] for a list that is too short or values out of range.
pub fn alternating(
    keys: &Keys<'_>,
    config: Config,
    period: usize,
    window: Option<usize>,
) -> Result<Config, ModelError> {
    let pattern = Key("attention.sliding_window_pattern", "sliding_window_pattern");
    let layers = config.layers.len();
    let listed = if keys.is_gguf() {
        keys.layer_flags(pattern, layers)?
    } else {
        keys.sliding_layers(layers)?
    };
    let period = match &listed {
        Some(_) => period,
        None => keys.optional_size(pattern)?.unwrap_or(period),
    };
    let key = Key("attention.sliding_window", "sliding_window");
    let window = match keys.optional_size(key)? {
        None => window,
        found => found,
    };
    Ok(config.windowed(window, |layer| match &listed {
        Some(sliding) => sliding[layer],
        None => (layer + 1) % period != 0,
    }))
}
