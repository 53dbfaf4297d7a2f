//! Text in, token ids out, and back: the tokenizers and chat templates that come with models.
//!
//! | to do this | use |
//! |---|---|
//! | build a model's tokenizer | [`Tokenizer::from_checkpoint`] |
//! | tokenise a candidate or other text that continues a text | [`Tokenizer::encode`] |
//! | tokenise a text that stands alone | [`Tokenizer::encode_text`] |
//! | tokenise a rendered conversation | [`Tokenizer::encode_prompt`] |
//! | continue a text that a model has run, as far as a prompt begins with it | [`Tokenizer::shown`], [`Tokenizer::encode_beyond`] |
//! | show tokens as they come | [`Tokenizer::decoder`], [`Decoder::push`] |
//! | continue a text with control tokens of one's own | [`Tokenizer::encode_written`] |
//! | know which bytes a token shows as | [`Tokenizer::spell`] |
//! | know when an answer is over | [`Tokenizer::end_ids`] |
//! | know how a template opens and closes an answer | [`Turn::from_template`] |
//! | render a conversation by the model's own template | [`ChatTemplate::from_checkpoint`], [`ChatTemplate::render`] |
//! | tell a model of functions that it may call | [`ChatTemplate::set_tools`]; without its template, [`written_out`] |
//!
//! ```
//! # fn prompt(model: &conclave_weights::Description) -> Result<(), conclave_text::TextError> {
//! use conclave_text::{ChatTemplate, Message, Tokenizer};
//! let tokenizer = Tokenizer::from_checkpoint(model)?;
//! let template = ChatTemplate::from_checkpoint(model, &tokenizer)?;
//! let prompt = template.render(&[Message::new("user", "What is 2 + 3?")], true)?;
//! let ids = tokenizer.encode_prompt(&prompt)?;
//! # Ok(()) }
//! ```

mod bpe;
mod byte_level;
mod clock;
mod controls;
mod decoder;
mod error;
mod fallback;
mod hugging_face;
mod marks;
mod merges;
mod meter;
mod metered;
mod pre_tokeniser;
mod prompt;
mod sentencepiece;
mod spelling;
mod steps_json;
mod table;
mod template;
mod template_files;
mod template_functions;
mod template_json;
mod template_methods;
mod template_python;
mod template_source;
mod template_texts;
mod template_wrap;
mod tokenizer;
mod tokenizer_json;
mod tools;
mod turn;
mod vocabulary;
mod words;

pub use decoder::Decoder;
pub use error::TextError;
pub use prompt::{Message, Prompt, Shown};
pub use template::ChatTemplate;
pub use template_files::template_in;
pub use tokenizer::Tokenizer;
pub use tools::{Tool, ToolCall, instructions, written_out};
pub use turn::Turn;
