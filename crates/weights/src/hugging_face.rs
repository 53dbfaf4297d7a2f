//! A Hugging Face folder: what its JSON files say of a model.

use serde_json::Value;

/// What a Hugging Face folder says of its model, apart from the tensors.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HuggingFace {
    /// `config.json`: an object.
    pub config: Value,
    /// `generation_config.json`, where there is one.
    pub generation_config: Option<Value>,
    /// `tokenizer.json` as it is.
    pub tokenizer: Option<Vec<u8>>,
    /// `tokenizer_config.json`, where there is one.
    pub tokenizer_config: Option<Value>,
    /// `chat_template.jinja`, where there is one.
    pub chat_template: Option<String>,
}
