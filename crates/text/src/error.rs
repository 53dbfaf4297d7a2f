//! What can go wrong between text and token ids.

use conclave_weights::GgufError;

/// A fault in a tokenizer, a chat template or a call that uses them.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TextError {
    /// A metadata key is missing or of the wrong type.
    #[error(transparent)]
    Metadata(#[from] GgufError),
    /// A kind of tokenizer that cannot be built.
    #[error(
        "`tokenizer.ggml.model` is \"{model}\", which is not supported; choose a model with one of: {known}"
    )]
    UnknownModel {
        /// The kind the file names.
        model: String,
        /// The kinds that can be built.
        known: String,
    },
    /// A way of splitting text into words that is not known. Guessing would give other ids than
    /// the model was trained on.
    #[error(
        "`tokenizer.ggml.pre` is \"{pre}\", which is not supported; choose a model with one of: {known}"
    )]
    UnknownPre {
        /// The pre-tokeniser the file names.
        pre: String,
        /// The known ones.
        known: String,
    },
    /// The vocabulary, its merges or its scores contradict themselves.
    #[error("`{key}`: {reason}; the file is damaged or was converted wrongly, get it anew")]
    Vocabulary {
        /// The metadata key at fault.
        key: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A file of a Hugging Face folder is missing, damaged or not as it should be.
    #[error("`{file}`: {reason}; get the folder anew, or choose another model")]
    File {
        /// The file.
        file: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A kind of model, normaliser, pre-tokeniser or decoder that cannot be built.
    #[error(
        "`tokenizer.json`: the {part} is of the kind \"{kind}\", which is not supported; choose a model with one of: {known}"
    )]
    UnknownPart {
        /// The part of the file.
        part: &'static str,
        /// The kind it names.
        kind: String,
        /// The kinds that can be built.
        known: &'static str,
    },
    /// The tokenizers library refused what the file holds, or a text.
    #[error("the tokenizer failed: {reason}")]
    Tokenizer {
        /// The library's message.
        reason: String,
    },
    /// The chat template is no valid Jinja.
    #[error(
        "`tokenizer.chat_template`, line {line}: {reason}; the model's template cannot be used, give it another (`--template` of the tool)"
    )]
    TemplateSyntax {
        /// Line of the template, from 1.
        line: usize,
        /// What the parser says.
        reason: String,
    },
    /// The chat template failed on these messages.
    #[error(
        "`tokenizer.chat_template`, line {line}: {reason}; try without system message, or another model"
    )]
    TemplateFailed {
        /// Line of the template, from 1.
        line: usize,
        /// What the interpreter says.
        reason: String,
    },
    /// The chat template itself refused the messages (`raise_exception`).
    #[error("the model's chat template refuses this conversation: {message}")]
    TemplateRefused {
        /// The template's message.
        message: String,
    },
    /// The chat template wrote more than any conversation needs, or ran for too long.
    #[error(
        "the model's chat template does not come to an end within its limits; the model cannot be used"
    )]
    TemplateEndless,
}
