//! Grammars: constrain an answer to a JSON document of a schema.
//!
//! Each member samples under a mask from this crate, so that every draft begins a valid document.
//! Only text crosses between members: each has the grammar over its own vocabulary, and all advance
//! by the bytes of the accepted text, however it was tokenised.
//!
//! | to | use |
//! |---|---|
//! | prepare a member's vocabulary, once | [`Vocabulary::read`] |
//! | reject a schema before anything runs | [`check`] |
//! | begin a document | [`Vocabulary::document`] |
//! | begin an answer that may call functions (feature `calls`) | `Calls`, `Vocabulary::calls` |
//! | get the tokens that may come next | [`Document::mask`] |
//! | advance by the accepted text | [`Document::accept`] |
//!
//! llguidance does the parsing. This crate bounds its input, and knows neither models nor
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

#[cfg(feature = "calls")]
mod calls;
mod document;
mod error;
mod schema;
mod vocabulary;

#[cfg(feature = "calls")]
pub use calls::{CLOSE, Calls, Function, OPEN};
pub use document::Document;
pub use error::GrammarError;
pub use schema::check;
pub use vocabulary::{Vocabulary, written};
