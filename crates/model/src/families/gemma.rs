//! Gemma: a scaled embedding, GELU, norm weights stored as γ − 1 (as γ in GGUF), output tied to the
//! embedding.

use crate::config::{Activation, Config};
use crate::error::ModelError;
use crate::family::Family;
use crate::keys::{Key, Keys};

/// Gemma's conventions.
pub const FAMILY: Family = Family {
    gguf: "gemma",
    hugging_face: &["gemma"],
    activation: Activation::Gelu,
    norm_offset: 1.0,
    defaults: &[
        ("hidden_size", 3072.0),
        ("intermediate_size", 24_576.0),
        ("num_hidden_layers", 28.0),
        ("num_attention_heads", 16.0),
        ("num_key_value_heads", 16.0),
        ("head_dim", 256.0),
        ("max_position_embeddings", 8192.0),
        ("rms_norm_eps", 1e-6),
        ("tie_word_embeddings", 1.0),
    ],
    shape: scaled,
    ..Family::PLAIN
};

/// Sets the embedding's scale of all Gemma models; refuses those with bidirectional attention.
///
/// # Errors
/// [`ModelError::Key`] for a model with bidirectional attention.
pub fn scaled(keys: &Keys<'_>, config: Config) -> Result<Config, ModelError> {
    let both_ways = Key("", "use_bidirectional_attention");
    if keys.flag(both_ways)? == Some(true) {
        return Err(keys.wrong(both_ways, "makes it a model that does not write text"));
    }
    Ok(Config {
        embedding_scale: (config.hidden as f32).sqrt(),
        ..config
    })
}
