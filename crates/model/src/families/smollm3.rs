//! SmolLM3: every fourth layer has no rotation.

use crate::config::{Config, RotaryPairs};
use crate::error::ModelError;
use crate::family::Family;
use crate::keys::{Key, Keys};

/// Distance of the layers without rotation, if the model does not name it. GGUF files never do.
const PERIOD: usize = 4;

/// SmolLM3's conventions.
pub const FAMILY: Family = Family {
    gguf: "smollm3",
    hugging_face: &["smollm3"],
    pairs: RotaryPairs::NeighboursInGguf,
    defaults: &[
        ("hidden_size", 2048.0),
        ("intermediate_size", 11_008.0),
        ("num_hidden_layers", 36.0),
        ("num_attention_heads", 16.0),
        ("num_key_value_heads", 4.0),
        ("max_position_embeddings", 32_768.0),
        ("rms_norm_eps", 1e-6),
        ("rope_theta", 2e6),
        ("tie_word_embeddings", 1.0),
    ],
    shape,
    ..Family::PLAIN
};

fn shape(keys: &Keys<'_>, mut config: Config) -> Result<Config, ModelError> {
    let layers = config.layers.len();
    // The list says 1 where a layer rotates, whatever its name.
    let listed = keys.layer_flags(Key("", "no_rope_layers"), layers)?;
    let period = keys.optional_size(Key("", "no_rope_layer_interval"))?;
    let period = period.unwrap_or(PERIOD);
    for (index, one) in config.attentions_mut() {
        let rotates = match &listed {
            Some(rotates) => rotates[index],
            None => (index + 1) % period != 0,
        };
        one.rope = rotates.then_some(0);
    }
    if keys.flag(Key("", "use_sliding_window"))? != Some(true) {
        return Ok(config);
    }
    let window = keys.size_above_zero(Key("", "sliding_window"))?;
    let unturned: Vec<bool> = config.attentions().map(|one| one.rope.is_none()).collect();
    let sliding = keys.sliding_layers(layers)?.unwrap_or(unturned);
    Ok(config.windowed(window, |layer| sliding[layer]))
}
