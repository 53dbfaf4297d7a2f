//! The families the decoder knows, as data: what a file of each family leaves unsaid.

use crate::config::Activation;
use crate::error::ModelError;

/// The conventions of one `general.architecture`.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// The name in GGUF.
    pub architecture: &'static str,
    /// Activation of the gated MLP.
    pub activation: Activation,
    /// The embedding is multiplied by √hidden (Gemma).
    pub scaled_embedding: bool,
    /// Query and key rows are stored for rotation of neighbouring pairs
    /// (2i, 2i + 1); the decoder rotates halves (i, i + d/2), so rows are put
    /// back in that order at load.
    pub interleaved_rope: bool,
}

/// All families, in the order messages list them.
pub const FAMILIES: &[Family] = &[
    Family {
        architecture: "llama",
        activation: Activation::Silu,
        scaled_embedding: false,
        interleaved_rope: true,
    },
    Family {
        architecture: "qwen2",
        activation: Activation::Silu,
        scaled_embedding: false,
        interleaved_rope: false,
    },
    Family {
        architecture: "qwen3",
        activation: Activation::Silu,
        scaled_embedding: false,
        interleaved_rope: false,
    },
    // GGUF stores Gemma's norm weights with the 1 added, so no offset is needed here.
    Family {
        architecture: "gemma",
        activation: Activation::Gelu,
        scaled_embedding: true,
        interleaved_rope: false,
    },
];

impl Family {
    /// Finds a family by its GGUF name.
    ///
    /// # Errors
    /// [`ModelError::Architecture`], naming the families known.
    pub fn named(architecture: &str) -> Result<&'static Self, ModelError> {
        FAMILIES
            .iter()
            .find(|family| family.architecture == architecture)
            .ok_or_else(|| ModelError::Architecture {
                name: architecture.chars().take(64).collect(),
                known: FAMILIES
                    .iter()
                    .map(|family| family.architecture)
                    .collect::<Vec<_>>()
                    .join(", "),
            })
    }
}
