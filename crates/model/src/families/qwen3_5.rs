//! Qwen3.5: three of four layers are gated delta nets; the fourth attends, with norms on each head
//! of queries and keys, a gate on each head's output, and rotation of a quarter of each head.

use crate::config::{Config, Mixer, QkNorm, Recurrence, Rule};
use crate::error::ModelError;
use crate::family::Family;
use crate::keys::{Key, Keys};

/// Qwen3.5's conventions.
///
/// Positions of text are the same in all sections of its rotary embedding, which is then the plain
/// one.
pub const FAMILY: Family = Family {
    gguf: "qwen35",
    hugging_face: &["qwen3_5_text", "qwen3_5"],
    qk_norm: QkNorm::PerHead,
    renamed: &[("ffn_norm", "post_attention_norm")],
    norm_offset: 1.0,
    defaults: &[
        ("hidden_size", 4096.0),
        ("intermediate_size", 12_288.0),
        ("num_hidden_layers", 32.0),
        ("num_attention_heads", 16.0),
        ("num_key_value_heads", 4.0),
        ("head_dim", 256.0),
        ("max_position_embeddings", 32_768.0),
        ("rms_norm_eps", 1e-6),
        ("partial_rotary_factor", 0.25),
        ("full_attention_interval", 4.0),
        ("linear_conv_kernel_dim", 4.0),
        ("linear_key_head_dim", 128.0),
        ("linear_value_head_dim", 128.0),
        ("linear_num_key_heads", 16.0),
        ("linear_num_value_heads", 32.0),
    ],
    shape,
    ..Family::PLAIN
};

const VALUE_HEADS: Key = Key("ssm.time_step_rank", "linear_num_value_heads");

fn shape(keys: &Keys<'_>, mut config: Config) -> Result<Config, ModelError> {
    // A block that predicts one token further lies after the others in GGUF, and counts as one.
    let beyond = Key("nextn_predict_layers", "");
    let further = keys.size_above_zero(beyond)?.unwrap_or(0);
    match config.layers.len().checked_sub(further) {
        None | Some(0) => return Err(keys.wrong(beyond, "leaves no layer")),
        Some(count) => config.layers.truncate(count),
    }
    let net = delta_net(keys)?;
    let recurrent = recurrent(keys, config.layers.len())?;
    for (layer, recurrent) in config.layers.iter_mut().zip(recurrent) {
        match &mut layer.mixer {
            mixer if recurrent => *mixer = Mixer::Recurrence(net),
            Mixer::Attention(attention) => attention.gate = true,
            _ => {}
        }
    }
    Ok(config)
}

/// Whether each layer is a delta net: as listed, else all layers except every n-th
/// (`full_attention_interval`, 4 if not given).
fn recurrent(keys: &Keys<'_>, layers: usize) -> Result<Vec<bool>, ModelError> {
    let listed = keys.layers_by_type(layers, |kind| match kind {
        "linear_attention" => Some(true),
        "full_attention" => Some(false),
        _ => None,
    })?;
    if let Some(listed) = listed {
        return Ok(listed);
    }
    if let Some(listed) = keys.layer_flags(Key("attention.recurrent_layers", ""), layers)? {
        return Ok(listed);
    }
    let every = Key("full_attention_interval", "full_attention_interval");
    let every = keys.optional_size(every)?.unwrap_or(4);
    Ok((1..=layers).map(|number| number % every != 0).collect())
}

fn delta_net(keys: &Keys<'_>) -> Result<Recurrence, ModelError> {
    let value_heads = keys.size(VALUE_HEADS)?;
    let value_width = if keys.is_gguf() {
        let all = Key("ssm.inner_size", "");
        let width = keys.size(all)?;
        if !width.is_multiple_of(value_heads) {
            return Err(keys.wrong(all, "is no multiple of the value heads"));
        }
        width / value_heads
    } else {
        keys.size(Key("", "linear_value_head_dim"))?
    };
    let taps = Key("ssm.conv_kernel", "linear_conv_kernel_dim");
    let net = Recurrence {
        rule: Rule::Delta,
        key_heads: keys.size(Key("ssm.group_count", "linear_num_key_heads"))?,
        value_heads,
        key_width: keys.size(Key("ssm.state_size", "linear_key_head_dim"))?,
        value_width,
        taps: keys.size(taps)?,
        // The converter puts value heads so that the key heads can be repeated whole.
        tiled: keys.is_gguf(),
    };
    net.check(keys, VALUE_HEADS, taps)?;
    Ok(net)
}
