//! Errors of schemas, vocabularies and texts.

/// Reason why an answer can't be constrained to a schema.
#[derive(Debug, thiserror::Error)]
pub enum GrammarError {
    /// The schema is not JSON.
    #[error("the schema is not JSON ({0}); correct that")]
    Json(#[from] serde_json::Error),
    /// The schema is too large, or nested too deeply.
    #[error("the schema {0}; make it smaller")]
    Size(String),
    /// A part of the schema is not supported.
    #[error("the schema can't be honoured at {part}: {reason}; leave that out")]
    Schema {
        /// The smallest unsupported part, as a JSON pointer after `#`.
        part: String,
        /// The reason.
        reason: String,
    },
    /// The vocabulary was not encoded by [`crate::written`].
    #[error("the vocabulary can't be read: {0}")]
    Vocabulary(&'static str),
    /// The text does not continue a document of the schema.
    #[error("the text `{text}` does not continue any document of the schema")]
    Text {
        /// The rejected text.
        text: String,
    },
    /// The document can continue, but not with a token of this vocabulary.
    #[error("the member has no token for what the schema asks for next; leave the member out")]
    NoToken,
    /// The parser exceeded a limit within a document.
    #[error("the schema is too complex ({0}); simplify it")]
    Involved(String),
}
