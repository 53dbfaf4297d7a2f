//! The shape of a decoder, read from a model file's metadata.

use conclave_weights::Metadata;
use serde::{Deserialize, Serialize};

use crate::error::ModelError;
use crate::family::Family;

/// Nothing above this is a model; it guards every product of sizes against overflow.
const LARGEST: u32 = 1 << 20;

/// The activation of the gated MLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// x · σ(x).
    Silu,
    /// The tanh form of GELU.
    Gelu,
}

/// Everything that tells one decoder-only transformer from another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// `general.architecture`.
    pub architecture: String,
    /// Rows of the embedding and of the output matrix.
    pub vocabulary: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Number of blocks.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of one head.
    pub head_dim: usize,
    /// Width of the gated MLP.
    pub feed_forward: usize,
    /// Longest context the model was made for, in tokens.
    pub context: usize,
    /// ε of every RMSNorm.
    pub norm_epsilon: f32,
    /// Added to every stored norm weight (1 where a file stores γ − 1).
    pub norm_offset: f32,
    /// Base of the rotary frequencies.
    pub rope_base: f32,
    /// Dimensions of a head that rotate.
    pub rotary_dim: usize,
    /// Activation of the gated MLP.
    pub activation: Activation,
    /// Factor on the embedding.
    pub embedding_scale: f32,
    /// Factor on query · key.
    pub attention_scale: f32,
}

impl Config {
    /// Reads the configuration from GGUF metadata, with the vocabulary taken
    /// from the embedding's rows.
    ///
    /// # Errors
    /// [`ModelError::Architecture`] for an unknown family, [`ModelError::Key`]
    /// for a key that is missing, zero, or inconsistent with another.
    pub fn from_gguf(
        metadata: &Metadata,
        family: &Family,
        vocabulary: usize,
    ) -> Result<Self, ModelError> {
        let keys = Keys {
            metadata,
            architecture: family.architecture,
        };
        let hidden = keys.size("embedding_length")?;
        let heads = keys.size("attention.head_count")?;
        let kv_heads = keys.size_or("attention.head_count_kv", heads)?;
        let head_dim = match keys.optional("attention.key_length")? {
            Some(length) => length,
            None if hidden % heads == 0 => hidden / heads,
            None => {
                return Err(keys.wrong("attention.head_count", "does not divide embedding_length"));
            }
        };
        if heads % kv_heads != 0 {
            return Err(keys.wrong("attention.head_count_kv", "does not divide head_count"));
        }
        if keys.size_or("attention.value_length", head_dim)? != head_dim {
            return Err(keys.wrong("attention.value_length", "differs from key_length"));
        }
        let rotary_dim = keys.size_or("rope.dimension_count", head_dim)?;
        if rotary_dim > head_dim || rotary_dim % 2 != 0 {
            return Err(keys.wrong("rope.dimension_count", "is odd or wider than a head"));
        }
        // Stretched frequencies, ignored, would give fluent nonsense.
        let scaling = keys.name("rope.scaling.type");
        match metadata.opt_str(&scaling)? {
            None | Some("none" | "") => {}
            Some(kind) => {
                let kind: String = kind.chars().take(32).collect();
                return Err(ModelError::RopeScaling { kind });
            }
        }
        let norm_epsilon = keys.float("attention.layer_norm_rms_epsilon", None)?;
        let rope_base = keys.float("rope.freq_base", Some(10_000.0))?;
        Ok(Self {
            architecture: family.architecture.to_owned(),
            vocabulary,
            hidden,
            layers: keys.size("block_count")?,
            heads,
            kv_heads,
            head_dim,
            feed_forward: keys.size("feed_forward_length")?,
            context: keys.size("context_length")?,
            norm_epsilon,
            norm_offset: 0.0,
            rope_base,
            rotary_dim,
            activation: family.activation,
            embedding_scale: if family.scaled_embedding {
                (hidden as f32).sqrt()
            } else {
                1.0
            },
            attention_scale: 1.0 / (head_dim as f32).sqrt(),
        })
    }

    /// Width of all query heads together.
    pub fn query_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Width of all key (or value) heads together.
    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }
}

/// Metadata keys under the architecture's own prefix.
struct Keys<'a> {
    metadata: &'a Metadata,
    architecture: &'a str,
}

impl Keys<'_> {
    fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    fn wrong(&self, key: &str, problem: &str) -> ModelError {
        ModelError::Key {
            key: self.name(key),
            problem: problem.to_owned(),
        }
    }

    fn optional(&self, key: &str) -> Result<Option<usize>, ModelError> {
        match self.metadata.opt_u32(&self.name(key))? {
            Some(0) => Err(self.wrong(key, "is zero")),
            Some(n) if n > LARGEST => Err(self.wrong(key, "is beyond any known model")),
            Some(n) => Ok(Some(n as usize)),
            None => Ok(None),
        }
    }

    fn size(&self, key: &str) -> Result<usize, ModelError> {
        self.optional(key)?
            .ok_or_else(|| self.wrong(key, "is missing"))
    }

    fn size_or(&self, key: &str, default: usize) -> Result<usize, ModelError> {
        Ok(self.optional(key)?.unwrap_or(default))
    }

    fn float(&self, key: &str, default: Option<f32>) -> Result<f32, ModelError> {
        match self.metadata.opt_f32(&self.name(key))?.or(default) {
            Some(x) if x.is_finite() && x > 0.0 => Ok(x),
            Some(_) => Err(self.wrong(key, "is not a positive number")),
            None => Err(self.wrong(key, "is missing")),
        }
    }
}

#[cfg(test)]
mod tests {
    use conclave_weights::{Gguf, Value};

    use super::*;

    #[test]
    fn scaled_frequencies_are_refused_by_name() {
        let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/parity");
        let file = std::fs::read(format!("{fixtures}/qwen3-f32.gguf")).unwrap();
        let gguf = Gguf::parse_whole(&file).unwrap();
        let family = Family::named("qwen3").unwrap();
        let mut metadata = gguf.metadata().clone();
        let mut read = |kind: &str| {
            metadata.set("qwen3.rope.scaling.type", Value::String(kind.to_owned()));
            Config::from_gguf(&metadata, family, 128)
        };
        assert!(read("none").is_ok());
        assert!(matches!(read("yarn"), Err(ModelError::RopeScaling { kind }) if kind == "yarn"));
    }
}
