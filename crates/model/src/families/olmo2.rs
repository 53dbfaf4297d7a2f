//! OLMo 2: norms after attention and MLP only, and over all of queries and keys. OLMo 3, which
//! calls itself the same in GGUF, has a window in three layers of four.

use crate::config::{Config, QkNorm};
use crate::error::ModelError;
use crate::families::gemma2::alternating;
use crate::families::gemma3::rope_of_windows;
use crate::family::{Family, Norms};
use crate::keys::{Key, Keys};

/// Norms after attention and MLP, none before.
pub const BEHIND: Norms = Norms {
    mixer: None,
    mixer_post: Some("post_attention_layernorm"),
    feed_forward: None,
    feed_forward_post: Some("post_feedforward_layernorm"),
};

/// OLMo 2's and 3's conventions.
pub const FAMILY: Family = Family {
    gguf: "olmo2",
    hugging_face: &["olmo2", "olmo3"],
    norms: BEHIND,
    qk_norm: QkNorm::Whole,
    defaults: &[
        ("hidden_size", 4096.0),
        ("intermediate_size", 11_008.0),
        ("num_hidden_layers", 32.0),
        ("num_attention_heads", 32.0),
        ("max_position_embeddings", 2048.0),
        ("rms_norm_eps", 1e-5),
    ],
    shape,
    ..Family::PLAIN
};

fn shape(keys: &Keys<'_>, config: Config) -> Result<Config, ModelError> {
    let third = keys.word(Key("", "model_type"))?.as_deref() == Some("olmo3");
    let config = alternating(keys, config, 4, third.then_some(4096))?;
    if config.attentions().all(|one| one.window.is_none()) {
        return Ok(config);
    }
    // Frequencies are scaled in the layers that see everything alone.
    let base = Key("rope.freq_base_swa", "rope_theta");
    let usual = config.ropes[0].base;
    rope_of_windows(keys, config, base, usual)
}
