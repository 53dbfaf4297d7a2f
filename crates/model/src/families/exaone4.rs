//! EXAONE 4: norms after attention and MLP, and on each head of queries and keys. In models where
//! some layers have a window, the others have no rotation.

use crate::config::{Config, QkNorm};
use crate::error::ModelError;
use crate::families::gemma2::alternating;
use crate::families::olmo2::BEHIND;
use crate::family::Family;
use crate::keys::{Key, Keys};

/// EXAONE 4's conventions.
pub const FAMILY: Family = Family {
    gguf: "exaone4",
    hugging_face: &["exaone4"],
    norms: BEHIND,
    qk_norm: QkNorm::PerHead,
    defaults: &[
        ("hidden_size", 4096.0),
        ("intermediate_size", 16_384.0),
        ("num_hidden_layers", 32.0),
        ("num_attention_heads", 32.0),
        ("num_key_value_heads", 32.0),
        ("max_position_embeddings", 2048.0),
        ("rms_norm_eps", 1e-5),
    ],
    shape,
    ..Family::PLAIN
};

fn shape(keys: &Keys<'_>, config: Config) -> Result<Config, ModelError> {
    let pattern = Key("", "sliding_window_pattern");
    let window = Key("attention.sliding_window", "sliding_window");
    // Before there were `layer_types`, a word such as LLLG said which layers are local.
    let word = match keys.has("layer_types") || keys.is_gguf() {
        true => None,
        false => keys.word(pattern).ok().flatten(),
    };
    let mut config = match word {
        Some(word) if !word.is_empty() => {
            let local: Vec<bool> = word.chars().map(|letter| letter == 'L').collect();
            let window = keys.size_above_zero(window)?;
            config.windowed(window, |layer| local[layer % local.len()])
        }
        _ => alternating(keys, config, 4, None)?,
    };
    if config.attentions().any(|one| one.window.is_some()) {
        let all = config.attentions_mut();
        for (_, one) in all.filter(|(_, one)| one.window.is_none()) {
            one.rope = None;
        }
    }
    Ok(config)
}
