//! Text in, token ids out, and back: the tokenizers and chat templates that GGUF files carry.
//!
//! | to do this | use |
//! |---|---|
//! | build a model's tokenizer | [`Tokenizer::from_gguf`] |
//! | tokenise a candidate or other text that continues a text | [`Tokenizer::encode`] |
//! | tokenise a text that stands alone | [`Tokenizer::encode_text`] |
//! | tokenise a rendered conversation | [`Tokenizer::encode_prompt`] |
//! | show tokens as they come | [`Tokenizer::decoder`], [`Decoder::push`] |
//! | know when an answer is over | [`Tokenizer::end_ids`] |
//! | render a conversation by the model's own template | [`ChatTemplate::from_gguf`], [`ChatTemplate::render`] |
//!
//! ```
//! # fn prompt(metadata: &conclave_weights::Metadata) -> Result<(), conclave_text::TextError> {
//! use conclave_text::{ChatTemplate, Message, Tokenizer};
//! let tokenizer = Tokenizer::from_gguf(metadata)?;
//! let template = ChatTemplate::from_gguf(metadata, &tokenizer)?;
//! let prompt = template.render(&[Message::new("user", "What is 2 + 3?")], true)?;
//! let ids = tokenizer.encode_prompt(&prompt)?;
//! # Ok(()) }
//! ```

mod byte_level;
mod controls;
mod decoder;
mod error;
mod pre_tokeniser;
mod prompt;
mod sentencepiece;
mod template;
mod template_functions;
mod tokenizer;
mod vocabulary;

pub use decoder::Decoder;
pub use error::TextError;
pub use prompt::{Message, Prompt};
pub use template::ChatTemplate;
pub use tokenizer::Tokenizer;
