//! Token ids back to text, one at a time, complete characters only.

use std::sync::Arc;

use crate::spelling::Spelling;
use crate::vocabulary::Vocabulary;

/// Bytes that each token shows as; none for control tokens.
#[derive(Debug)]
pub(crate) struct Pieces {
    pub vocabulary: Arc<Vocabulary>,
    pub spelling: Spelling,
}

/// Decodes the tokens of one text incrementally.
///
/// A character may be spread over several tokens (up to four bytes); an incomplete one is withheld
/// until its rest comes. All pushes joined, and [`Decoder::flush`] at the end, are exactly
/// [`crate::Tokenizer::decode`] of all ids.
#[derive(Debug, Clone)]
pub struct Decoder {
    pieces: Arc<Pieces>,
    held: Vec<u8>,
}

impl Decoder {
    pub(crate) fn new(pieces: Arc<Pieces>) -> Self {
        Self {
            pieces,
            held: Vec::new(),
        }
    }

    /// Adds one token and returns the text that is complete now, which may be empty. Bytes that can
    /// never become a character show as U+FFFD.
    pub fn push(&mut self, id: u32) -> String {
        self.pieces
            .spelling
            .append(&self.pieces.vocabulary, id, &mut self.held);
        let mut text = String::new();
        let mut rest = self.held.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    rest = &[];
                    break;
                }
                Err(error) => {
                    let (valid, broken) = rest.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    rest = broken;
                    let Some(length) = error.error_len() else {
                        break;
                    };
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = &rest[length..];
                }
            }
        }
        let done = self.held.len() - rest.len();
        self.held.drain(..done);
        text
    }

    /// Withheld bytes: the beginning of an incomplete character, at most three.
    pub fn held_back(&self) -> &[u8] {
        &self.held
    }

    /// Ends the text: returns the withheld bytes as U+FFFD.
    pub fn flush(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.held)).into_owned()
    }
}
