//! Gemma 4, its text model: an embedding with a part for each layer, wider heads in the layers
//! without a window, and late layers that attend to the keys and values of earlier ones.

use crate::config::{Activation, Config, FeedForward, Mixer, QkNorm};
use crate::error::ModelError;
use crate::families::gemma2::{SANDWICH, alternating};
use crate::families::gemma3::rope_of_windows;
use crate::family::Family;
use crate::keys::{Key, Keys};
use crate::rope::{Rope, Scaling};
use crate::rope_keys;

/// The conventions of Gemma 4 E2B and E4B.
pub const FAMILY: Family = Family {
    gguf: "gemma4",
    hugging_face: &["gemma4_text", "gemma4"],
    activation: Activation::Gelu,
    norms: SANDWICH,
    qk_norm: QkNorm::PerHead,
    defaults: &[
        ("hidden_size", 2304.0),
        ("intermediate_size", 9216.0),
        ("num_hidden_layers", 30.0),
        ("num_attention_heads", 8.0),
        ("num_key_value_heads", 4.0),
        ("head_dim", 256.0),
        ("global_head_dim", 512.0),
        ("max_position_embeddings", 131_072.0),
        ("rms_norm_eps", 1e-6),
        ("tie_word_embeddings", 1.0),
        ("sliding_window", 512.0),
        ("hidden_size_per_layer_input", 256.0),
    ],
    shape,
    ..Family::PLAIN
};

const SHARED: Key = Key("attention.shared_kv_layers", "num_kv_shared_layers");

fn shape(keys: &Keys<'_>, config: Config) -> Result<Config, ModelError> {
    refuse(keys)?;
    let mut config = alternating(keys, config, 6, None)?;
    // transformers makes the last layer one that sees everything, whatever the list says.
    if let (false, Some((_, last))) = (keys.is_gguf(), config.attentions_mut().last()) {
        last.window = None;
    }
    heads(keys, &mut config)?;
    share(keys, &mut config)?;
    config.ropes[0] = rope(keys, &config)?;
    let base = Key("rope.freq_base_swa", "rope_local_base_freq");
    let config = rope_of_windows(keys, config, base, 10_000.0)?;
    let per_layer = Key(
        "embedding_length_per_layer_input",
        "hidden_size_per_layer_input",
    );
    let logits = Key("final_logit_softcapping", "final_logit_softcapping");
    Ok(Config {
        embedding_scale: (config.hidden as f32).sqrt(),
        attention_scale: 1.0,
        value_norm: true,
        per_layer: keys.size_above_zero(per_layer)?,
        logit_softcap: keys.optional_float(logits)?,
        ..config
    })
}

/// Refuses features of the family's larger models that no decoder supports: experts, and keys that
/// are also values. Refuses embedding models as well.
fn refuse(keys: &Keys<'_>) -> Result<(), ModelError> {
    let experts = Key("expert_count", "enable_moe_block");
    if keys.size_above_zero(Key("expert_count", ""))?.is_some()
        || keys.flag(Key("", "enable_moe_block"))? == Some(true)
    {
        return Err(keys.wrong(
            experts,
            "makes it a mixture of experts, which is not supported",
        ));
    }
    let both_ways = Key("", "use_bidirectional_attention");
    if keys.word(both_ways)?.as_deref() == Some("all") {
        return Err(keys.wrong(both_ways, "makes it a model that does not write text"));
    }
    let one_for_both = Key("", "attention_k_eq_v");
    match keys.flag(one_for_both)? {
        Some(true) => Err(keys.wrong(one_for_both, "is not supported")),
        _ => Ok(()),
    }
}

/// Sets the head widths of the layers that differ from most: in GGUF those with a window; in
/// `config.json` those without one, or those that are listed.
fn heads(keys: &Keys<'_>, config: &mut Config) -> Result<(), ModelError> {
    let windowed = keys.optional_size(Key("attention.key_length_swa", ""))?;
    let value_key = Key("attention.value_length_swa", "");
    if keys.optional_size(value_key)? != windowed {
        return Err(keys.wrong(value_key, "differs from key_length_swa"));
    }
    let listed = keys.within("per_layer_config");
    let all = keys.optional_size(Key("", "global_head_dim"))?;
    for (index, one) in config.attentions_mut() {
        let own = listed.and_then(|all| all.within(&index.to_string()));
        let (width, kv_heads) = match (one.window, listed) {
            (_, Some(_)) => match own {
                Some(own) => (
                    own.optional_size(Key("", "head_dim"))?,
                    own.optional_size(Key("", "num_key_value_heads"))?,
                ),
                None => (None, None),
            },
            (Some(_), None) => (windowed, None),
            (None, None) => (all, None),
        };
        one.head_dim = width.unwrap_or(one.head_dim);
        one.kv_heads = kv_heads.unwrap_or(one.kv_heads);
    }
    Ok(())
}

/// Lets the last layers attend to the keys and values of an earlier layer: the last one with the
/// same window that has its own.
fn share(keys: &Keys<'_>, config: &mut Config) -> Result<(), ModelError> {
    let count = config.layers.len();
    let shared = keys.size_above_zero(SHARED)?.unwrap_or(0);
    let first = count.saturating_sub(shared);
    let twice = keys.flag(Key("", "use_double_wide_mlp"))? == Some(true);
    let (own, late) = config.layers.split_at_mut(first);
    for layer in late {
        let Mixer::Attention(one) = &mut layer.mixer else {
            continue;
        };
        let alike = own.iter().rposition(|own| {
            let Mixer::Attention(own) = &own.mixer else {
                return false;
            };
            let shape = (own.window, own.head_dim, own.kv_heads);
            shape == (one.window, one.head_dim, one.kv_heads)
        });
        if alike.is_none() {
            return Err(keys.wrong(
                SHARED,
                "leaves a layer no other to share keys and values with",
            ));
        }
        one.shares = alike;
        if twice {
            let width = 2 * layer.feed_forward.width();
            layer.feed_forward = FeedForward::Dense { width };
        }
    }
    Ok(())
}

/// The rotary embedding of the layers without a window.
fn rope(keys: &Keys<'_>, config: &Config) -> Result<Rope, ModelError> {
    let all = config.attentions().find(|one| one.window.is_none());
    let Some(width) = all.map(|one| one.head_dim).filter(|_| !keys.is_gguf()) else {
        return Ok(config.ropes[0].clone());
    };
    if keys.within("rope_parameters").is_some() {
        return rope_keys::read(keys, width);
    }
    Ok(Rope {
        scaling: Scaling::Proportional {
            turning: width / 8,
            factor: 1.0,
        },
        ..Rope::plain(1e6, width)
    })
}
