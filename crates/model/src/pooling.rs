//! Pooling: one vector of all tokens' hidden states.

use serde::Serialize;

use crate::error::ModelError;
use crate::keys::{Key, Keys};

/// Setting of a GGUF file, numbered as llama.cpp does.
const POOLING: Key = Key("pooling_type", "");

/// Hidden states that make a text's embedding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// The mean of all of them.
    #[default]
    Mean,
    /// The first token's, where models have a token for it.
    First,
    /// The last token's, which has seen all others.
    Last,
}

impl Pooling {
    /// The pooling that a file names; the mean for a file that names none or an unsupported one.
    ///
    /// # Errors
    /// [`ModelError::Key`] for a value that is no number.
    pub(crate) fn read(keys: &Keys<'_>) -> Result<Self, ModelError> {
        Ok(match keys.size_above_zero(POOLING)? {
            Some(2) => Self::First,
            Some(3) => Self::Last,
            _ => Self::Mean,
        })
    }

    /// Range of the tokens whose states are pooled, of `count` tokens.
    pub(crate) fn tokens(self, count: usize) -> std::ops::Range<usize> {
        match self {
            Self::Mean => 0..count,
            Self::First => 0..count.min(1),
            Self::Last => count.saturating_sub(1)..count,
        }
    }
}
