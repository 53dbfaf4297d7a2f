//! Grammars: what may come next in an answer that is to be a JSON document of a schema.
//!
//! A member draws its tokens under a mask of this crate, so that whatever it drafts begins a valid
//! document. What crosses between members is text, as ever: each has the grammar over its own
//! vocabulary, and all go on by the bytes of the accepted text, whatever tokens they were drawn as.
//!
//! | to do this | use |
//! |---|---|
//! | read what a member's tokens show as, once a member | [`Vocabulary::read`] |
//! | refuse a schema before anything is run | [`check`] |
//! | begin a document | [`Vocabulary::document`] |
//! | know which tokens may be drawn next | [`Document::mask`] |
//! | go on behind the text that all have accepted | [`Document::accept`] |
//!
//! The parsing is llguidance's. This crate bounds what it is given, and knows neither models nor
//! tokenizers.
//!
//! ```
//! use conclave_grammar::{Vocabulary, written};
//!
//! let tokens: [&[u8]; 4] = [b"true", b"tr", b"fal", b"se"];
//! let vocabulary = Vocabulary::read(&written(tokens))?;
//! let mut document = vocabulary.document(r#"{"type": "boolean"}"#)?;
//! assert_eq!(document.mask(&[])?[0] & 0b11111, 0b00111); // true, tr, fal; not the end
//! document.accept("fal")?;
//! assert_eq!(document.mask(&[])?[0] & 0b11111, 0b01000); // se
//! assert_eq!(document.mask(&[3])?[0] & 0b11111, 0b10000); // the end alone
//! # Ok::<(), conclave_grammar::GrammarError>(())
//! ```

mod document;
mod error;
mod schema;
mod vocabulary;

pub use document::Document;
pub use error::GrammarError;
pub use schema::check;
pub use vocabulary::{Vocabulary, written};
