//! The families the decoder knows, as data. Each is a file of `families/`: its names, how its
//! tensors lie, and what its settings mean beyond the plain ones.

use conclave_weights::{Checkpoint, Description};

use crate::config::{Activation, Config, QkNorm, RotaryPairs};
use crate::error::ModelError;
use crate::families;
use crate::keys::{Keys, language_model};

/// Names of a block's norms in a Hugging Face folder; a family lacks the ones without. GGUF has
/// one name for each place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Norms {
    /// Before what mixes tokens: `attn_norm` in GGUF.
    pub mixer: Option<&'static str>,
    /// After it, before its sum: `post_attention_norm` in GGUF.
    pub mixer_post: Option<&'static str>,
    /// Before the MLP: `ffn_norm` in GGUF.
    pub feed_forward: Option<&'static str>,
    /// After the MLP, before its sum: `post_ffw_norm` in GGUF.
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
    /// Which dimensions of a head rotate together.
    pub pairs: RotaryPairs,
    /// Tensors that Llama calls otherwise, in either world: its name within a block or outside, and
    /// this family's.
    pub renamed: &'static [(&'static str, &'static str)],
    /// Added to Hugging Face's norm weights, which lack it (GGUF stores them whole).
    pub norm_offset: f32,
    /// transformers' values for keys that `config.json` leaves out; 0 and 1 for switches.
    pub defaults: &'static [(&'static str, f64)],
    /// Makes of the plain configuration this family's.
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
