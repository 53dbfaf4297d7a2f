//! Gemma 3, its text model: a window and rotary frequencies of their own in five layers of six,
//! norms on each head of queries and keys.

use crate::config::{Activation, Config, QkNorm};
use crate::error::ModelError;
use crate::families::gemma::scaled;
use crate::families::gemma2::{SANDWICH, alternating, query_scale};
use crate::family::Family;
use crate::keys::{Key, Keys};
use crate::rope::Rope;
use crate::rope_keys;

/// Layers of Gemma 3 27B, by which its GGUF files are known: its queries are scaled by 1/√168.
const LAYERS_OF_27B: usize = 62;

/// Gemma 3's conventions.
pub const FAMILY: Family = Family {
    gguf: "gemma3",
    hugging_face: &["gemma3_text", "gemma3"],
    activation: Activation::Gelu,
    norms: SANDWICH,
    qk_norm: QkNorm::PerHead,
    norm_offset: 1.0,
    defaults: &[
        ("hidden_size", 2304.0),
        ("intermediate_size", 9216.0),
        ("num_hidden_layers", 26.0),
        ("num_attention_heads", 8.0),
        ("num_key_value_heads", 4.0),
        ("head_dim", 256.0),
        ("max_position_embeddings", 131_072.0),
        ("rms_norm_eps", 1e-6),
        ("tie_word_embeddings", 1.0),
        ("query_pre_attn_scalar", 256.0),
        ("sliding_window", 4096.0),
        ("rope_theta", 1e6),
    ],
    shape,
    ..Family::PLAIN
};

fn shape(keys: &Keys<'_>, config: Config) -> Result<Config, ModelError> {
    // Widths of 0 and periods of 1 mean that there is no window.
    let config = alternating(keys, scaled(keys, config)?, 6, None)?;
    let base = Key("rope.freq_base_swa", "rope_local_base_freq");
    let config = rope_of_windows(keys, config, base, 10_000.0)?;
    let logits = Key("final_logit_softcapping", "final_logit_softcapping");
    Ok(Config {
        attention_scale: query_scale(keys, &config, LAYERS_OF_27B)?,
        logit_softcap: keys.optional_float(logits)?,
        ..config
    })
}

/// Gives the layers with a window a rotary embedding of their own. Its base is the key `base`, or
/// `usual` for a GGUF file without that key. Its scaling is the one that `config.json` has for
/// these layers.
///
/// # Errors
/// As [`rope_keys::of_hugging_face`].
pub fn rope_of_windows(
    keys: &Keys<'_>,
    mut config: Config,
    base: Key,
    usual: f32,
) -> Result<Config, ModelError> {
    let windowed = config.attentions().find(|one| one.window.is_some());
    let Some(width) = windowed.map(|one| one.head_dim) else {
        return Ok(config);
    };
    let rope = if keys.is_gguf() {
        let key = Key("rope.dimension_count_swa", "");
        let rotary_dim = keys.optional_size(key)?;
        let rotary_dim = rotary_dim.unwrap_or(config.ropes[0].rotary_dim);
        rope_keys::check_rotary(keys, key, rotary_dim, width)?;
        Rope::plain(keys.float_or(base, usual)?, rotary_dim)
    } else {
        let scaling = keys
            .within("rope_parameters")
            .and_then(|all| all.within("sliding_attention"));
        rope_keys::of_hugging_face(keys, scaling, base, width)?
    };
    config.ropes.push(rope);
    let attentions = config.attentions_mut();
    for (_, one) in attentions.filter(|(_, one)| one.window.is_some()) {
        one.rope = Some(1);
    }
    Ok(config)
}
