//! What can be wrong with a schema, a vocabulary or a text.

/// Why an answer can't be held to a schema.
#[derive(Debug, thiserror::Error)]
pub enum GrammarError {
    /// The schema is none.
    #[error("the schema is no JSON ({0}); correct that")]
    Json(#[from] serde_json::Error),
    /// It is larger, or nested deeper, than is read.
    #[error("the schema {0}; make it smaller")]
    Size(String),
    /// A part of it asks for what can't be held to.
    #[error("the schema can't be honoured at {part}: {reason}; leave that out")]
    Schema {
        /// The smallest part that can't, as a JSON pointer behind `#`.
        part: String,
        /// Why.
        reason: String,
    },
    /// What a member's tokens show as is not written as [`crate::written`] does.
    #[error("the vocabulary can't be read: {0}")]
    Vocabulary(&'static str),
    /// A text goes on where the schema does not.
    #[error("the text `{text}` goes on as no document of the schema does")]
    Text {
        /// What was to be accepted.
        text: String,
    },
    /// The document goes on, but not in any token of this vocabulary.
    #[error("the member has no token for what the schema asks for next; leave the member out")]
    NoToken,
    /// A limit of the parser was met in the middle of a document.
    #[error("the schema is too involved to be followed ({0}); simplify it")]
    Involved(String),
}
