//! ERNIE 4.5, the dense ones: Llama with neighbouring pairs and one switch for all biases.

use crate::config::{Bias, Config, RotaryPairs};
use crate::error::ModelError;
use crate::family::Family;
use crate::keys::{Key, Keys};

/// ERNIE 4.5's conventions.
pub const FAMILY: Family = Family {
    gguf: "ernie4_5",
    hugging_face: &["ernie4_5"],
    pairs: RotaryPairs::Neighbours,
    defaults: &[
        ("hidden_size", 1024.0),
        ("intermediate_size", 3072.0),
        ("num_hidden_layers", 18.0),
        ("num_attention_heads", 16.0),
        ("num_key_value_heads", 2.0),
        ("head_dim", 128.0),
        ("max_position_embeddings", 131_072.0),
        ("rms_norm_eps", 1e-5),
        ("rope_theta", 500_000.0),
        ("tie_word_embeddings", 1.0),
    ],
    shape,
    ..Family::PLAIN
};

fn shape(keys: &Keys<'_>, config: Config) -> Result<Config, ModelError> {
    if keys.flag(Key("", "use_bias"))? != Some(true) {
        return Ok(config);
    }
    Ok(Config {
        qkv_bias: Bias::Always,
        output_bias: Bias::Always,
        feed_forward_bias: Bias::Always,
        ..config
    })
}
