//! The families the decoder knows, as data. Each is a file of `families/`: its names, the layout of
//! its tensors, and the settings that other families lack.

use conclave_weights::{Checkpoint, Description};

use crate::config::{Activation, Config, QkNorm, RotaryPairs};
use crate::error::ModelError;
use crate::families;
use crate::keys::{Keys, language_model};

/// Names of a block's norms in a Hugging Face folder; `None` for a norm that the family lacks. GGUF
/// has one name for each place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Norms {
    /// Norm before the mixer: `attn_norm` in GGUF.
    pub mixer: Option<&'static str>,
    /// Norm of the mixer's output, before it is added to the stream: `post_attention_norm` in GGUF.
    pub mixer_post: Option<&'static str>,
    /// Norm before the MLP: `ffn_norm` in GGUF.
    pub feed_forward: Option<&'static str>,
    /// Norm of the MLP's output, before it is added to the stream: `post_ffw_norm` in GGUF.
    pub feed_forward_post: Option<&'static str>,
}

/// One family's conventions.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// `general.architecture` in GGUF.
    pub gguf: &'static str,
    /// `model_type` in `config.json`.
    pub hugging_face: &'static [&'static str],
    /// Activation of the gated MLP.
    pub activation: Activation,
    /// The norms of a block.
    pub norms: Norms,
    /// Norms of queries and keys.
    pub qk_norm: QkNorm,
    /// Pairs of dimensions of a head that rotate together.
    pub pairs: RotaryPairs,
    /// Tensors whose names differ from Llama's, in GGUF or in a folder: Llama's name, within a
    /// block or outside, and this family's.
    pub renamed: &'static [(&'static str, &'static str)],
    /// Number added to the norm weights of a folder: 1 if the folder stores γ − 1. GGUF always
    /// stores γ.
    pub norm_offset: f32,
    /// transformers' defaults for keys that `config.json` leaves out; 0 and 1 for booleans.
    pub defaults: &'static [(&'static str, f64)],
    /// Completes the settings that all families share with those of this family.
    pub shape: fn(&Keys<'_>, Config) -> Result<Config, ModelError>,
}

impl Family {
    /// Llama's conventions in Hugging Face's names, from which others differ.
    pub const PLAIN: Self = Self {
        gguf: "",
        hugging_face: &[],
        activation: Activation::Silu,
        norms: Norms {
            mixer: Some("input_layernorm"),
            mixer_post: None,
            feed_forward: Some("post_attention_layernorm"),
            feed_forward_post: None,
        },
        qk_norm: QkNorm::None,
        pairs: RotaryPairs::Halves,
        renamed: &[],
        norm_offset: 0.0,
        defaults: &[],
        shape: |_, config| Ok(config),
    };

    /// The family of a checkpoint.
    ///
    /// # Errors
    /// [`ModelError::Architecture`], naming the families known; [`ModelError::Key`] where the
    /// checkpoint does not name one.
    pub fn detect(checkpoint: &Checkpoint) -> Result<&'static Self, ModelError> {
        match checkpoint.description() {
            Description::Gguf(metadata) => {
                let name = metadata.str("general.architecture")?;

                Self::find(name, |family| family.gguf == name)
            }
            Description::HuggingFace(folder) => {
                let inner = language_model(&folder.config)?;
                let named = |config: &serde_json::Value| {
                    let name = config.get("model_type")?.as_str()?;
                    Some(name.to_owned())
                };
                let inner = inner.get("model_type").and_then(|name| name.as_str());
                let outer = named(&folder.config);
                let name = inner
                    .map(str::to_owned)
                    .or(outer)
                    .ok_or_else(|| ModelError::Key {
                        key: "model_type".to_owned(),
                        problem: "is missing from config.json".to_owned(),
                    })?;
                Self::find(&name, |family| family.hugging_face.contains(&name.as_str()))
            }
        }
    }

    fn find(name: &str, is_it: impl Fn(&Self) -> bool) -> Result<&'static Self, ModelError> {
        let mut all = families::ALL.iter().copied();
        all.find(|family| is_it(family))
            .ok_or_else(|| ModelError::Architecture {
                name: name.chars().take(64).collect(),
                known: families::ALL
                    .iter()
                    .map(|family| family.gguf)
                    .collect::<Vec<_>>()
                    .join(", "),
            })
    }
}
