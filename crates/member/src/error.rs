//! Errors of a member.

use conclave_model::ModelError;
use conclave_text::TextError;
use conclave_weights::CheckpointError;

/// Errors of loading and running one member.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    /// The files cannot be read.
    #[error("the model cannot be read: {0}")]
    File(#[from] CheckpointError),
    /// The model cannot be loaded or run.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The tokenizer or the chat template failed.
    #[error(transparent)]
    Text(#[from] TextError),
    /// Tokenizer and model do not match.
    #[error(
        "the tokenizer has {tokens} tokens but the model only {vocabulary}, and text needs more \
         than those; the file is damaged, download or convert it again"
    )]
    Vocabulary {
        /// Tokens of the tokenizer.
        tokens: usize,
        /// Rows of the embedding.
        vocabulary: usize,
    },
    /// The model has no end-of-answer token.
    #[error(
        "the model file names no end-of-answer token, so no answer would ever end; use an \
         instruction-tuned model"
    )]
    NoEnd,
    /// The constraint on its drafts cannot be followed any further.
    #[error("{0}")]
    Constraint(String),
}
