//! Errors between text and token ids.

use conclave_weights::GgufError;

/// An error in a tokenizer, a chat template or a call that uses them.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TextError {
    /// A metadata key is missing or of the wrong type.
    #[error(transparent)]
    Metadata(#[from] GgufError),
    /// An unsupported kind of tokenizer.
    #[error(
        "`tokenizer.ggml.model` is \"{model}\", which is not supported; \
         choose a model with one of: {known}"
    )]
    UnknownModel {
        /// Kind in the file.
        model: String,
        /// Supported kinds.
        known: String,
    },
    /// An unknown pre-tokeniser. A guess would give other ids than the model was trained on.
    #[error(
        "`tokenizer.ggml.pre` is \"{pre}\", which is not supported; \
         choose a model with one of: {known}"
    )]
    UnknownPre {
        /// Pre-tokeniser in the file.
        pre: String,
        /// Known ones.
        known: String,
    },
    /// The vocabulary, its merges or its scores are inconsistent.
    #[error("`{key}`: {reason}; the file is damaged or was converted wrongly, get it anew")]
    Vocabulary {
        /// Metadata key.
        key: &'static str,
        /// Reason.
        reason: String,
    },
    /// A file of a Hugging Face folder is missing, damaged or invalid.
    #[error("`{file}`: {reason}; get the folder anew, or choose another model")]
    File {
        /// The file.
        file: &'static str,
        /// Reason.
        reason: String,
    },
    /// An unsupported kind of model, normaliser, pre-tokeniser or decoder.
    #[error(
        "`tokenizer.json`: the {part} is of the kind \"{kind}\", which is not supported; \
         choose a model with one of: {known}"
    )]
    UnknownPart {
        /// Part of the file.
        part: &'static str,
        /// Its kind.
        kind: String,
        /// Supported kinds.
        known: &'static str,
    },
    /// The tokenizers library refused the file's content, or a text.
    #[error("the tokenizer failed: {reason}")]
    Tokenizer {
        /// The library's message.
        reason: String,
    },
    /// Functions to call, for a model without a chat template.
    #[error(
        "it has no chat template, and can't be told of tools; leave it out, or give it a template \
         (`--template` of the tool)"
    )]
    NoTools,
    /// The chat template is no valid Jinja, or uses an unknown filter, test or function.
    #[error(
        "the chat template, line {line}: {reason}; it cannot be used, give the model another \
         (`--template` of the tool)"
    )]
    TemplateSyntax {
        /// Line of the template, from 1.
        line: usize,
        /// The parser's message, or the interpreter's.
        reason: String,
    },
    /// The chat template failed on these messages.
    #[error(
        "the chat template, line {line}: {reason}; try without system message, or give the model \
         another template (`--template` of the tool)"
    )]
    TemplateFailed {
        /// Line of the template, from 1.
        line: usize,
        /// The interpreter's message.
        reason: String,
    },
    /// The chat template itself refused the messages (`raise_exception`).
    #[error("the model's chat template refuses this conversation: {message}")]
    TemplateRefused {
        /// The template's message.
        message: String,
    },
    /// The chat template drops a message that the answer depends on.
    #[error(
        "the model's chat template does not write {part}; give it another (`--template` of the \
         tool)"
    )]
    TemplateDrops {
        /// The question, or the system message.
        part: &'static str,
    },
    /// The chat template wrote more than any conversation needs, or ran for too long.
    #[error(
        "the model's chat template does not come to an end within its limits; \
         the model cannot be used"
    )]
    TemplateEndless,
}
