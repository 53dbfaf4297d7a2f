//! Granite 4, whose architecture is called a hybrid of state spaces, attention and experts.
//! Supported are its dense models and those of the H line, whose layers are mostly Mamba-2 state
//! spaces and whose attention has no rotation.

use crate::config::{Config, Layer, Mixer, Recurrence, Rule};
use crate::error::ModelError;
use crate::families::granite;
use crate::family::Family;
use crate::keys::{Key, Keys};

/// Granite 4's conventions. GGUF files of its dense models are Granite's.
pub const FAMILY: Family = Family {
    gguf: "granitehybrid",
    hugging_face: &["granitemoehybrid"],
    defaults: &[
        ("hidden_size", 4096.0),
        ("intermediate_size", 11_008.0),
        ("num_hidden_layers", 32.0),
        ("num_attention_heads", 32.0),
        ("max_position_embeddings", 2048.0),
        ("rms_norm_eps", 1e-6),
        ("attention_multiplier", 1.0),
        ("num_local_experts", 8.0),
        ("shared_intermediate_size", 1024.0),
        ("mamba_n_heads", 128.0),
        ("mamba_n_groups", 1.0),
        ("mamba_d_state", 256.0),
        ("mamba_d_conv", 4.0),
        ("mamba_expand", 2.0),
    ],
    shape,
    ..granite::FAMILY
};

fn shape(keys: &Keys<'_>, config: Config) -> Result<Config, ModelError> {
    let mut config = granite::shape(keys, config)?;
    let experts = Key("expert_count", "num_local_experts");
    if keys.size_above_zero(experts)?.is_some() {
        return Err(keys.wrong(experts, "asks for experts, which are not supported"));
    }
    if !keys.is_gguf() && keys.word(Key("", "position_embedding_type"))?.as_deref() != Some("rope")
    {
        config.attentions_mut().for_each(|(_, one)| one.rope = None);
    }
    let recurrent = recurrent(keys, &config)?;
    if recurrent.contains(&true) {
        let space = state_space(keys, config.hidden)?;
        for (layer, recurrent) in config.layers.iter_mut().zip(recurrent) {
            if recurrent {
                layer.mixer = Mixer::Recurrence(space);
            }
        }
    }
    Ok(config)
}

/// Whether each layer is a state space: in GGUF it has no key heads, in a folder it is listed as
/// one.
fn recurrent(keys: &Keys<'_>, config: &Config) -> Result<Vec<bool>, ModelError> {
    if keys.is_gguf() {
        let attends =
            |layer: &Layer| matches!(layer.mixer, Mixer::Attention(of) if of.kv_heads > 0);
        return Ok(config.layers.iter().map(|layer| !attends(layer)).collect());
    }
    let layers = config.layers.len();
    let listed = keys.layers_by_type(layers, |kind| match kind {
        "mamba" | "linear_attention" => Some(true),
        "attention" | "full_attention" => Some(false),
        _ => None,
    })?;
    Ok(listed.unwrap_or_else(|| vec![true; layers]))
}

fn state_space(keys: &Keys<'_>, hidden: usize) -> Result<Recurrence, ModelError> {
    let heads = Key("ssm.time_step_rank", "mamba_n_heads");
    let taps = Key("ssm.conv_kernel", "mamba_d_conv");
    let value_heads = keys.size(heads)?;
    let values = match keys.is_gguf() {
        true => keys.size(Key("ssm.inner_size", ""))?,
        false => hidden.saturating_mul(keys.size(Key("", "mamba_expand"))?),
    };
    if !values.is_multiple_of(value_heads) {
        return Err(keys.wrong(heads, "does not divide the width of all heads"));
    }
    let space = Recurrence {
        rule: Rule::StateSpace,
        key_heads: keys.size(Key("ssm.group_count", "mamba_n_groups"))?,
        value_heads,
        key_width: keys.size(Key("ssm.state_size", "mamba_d_state"))?,
        value_width: values / value_heads,
        taps: keys.size(taps)?,
        tiled: false,
    };
    space.check(keys, heads, taps)?;
    // Beyond 0 and infinity, which no JSON number is, a step of time would be cut.
    let limit = Key("", "time_step_limit");
    let limits = keys.list(limit)?.into_iter().flatten();
    let mut limits = limits.zip([0.0, f64::INFINITY]);
    if limits.any(|(found, none)| found.as_f64().is_some_and(|limit| limit != none)) {
        return Err(keys.wrong(limit, "limits the time step, which is not supported"));
    }
    Ok(space)
}
