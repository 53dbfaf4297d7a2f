//! Token ids back to text, one at a time, whole characters only.

use std::sync::Arc;

/// The bytes each token shows as; control tokens show as none.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Pieces {
    pub(crate) fn push(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
        self.ends.push(self.bytes.len());
    }

    /// The bytes of token `id`; none for ids beyond the vocabulary, which models have where their
    /// embedding is padded.
    fn get(&self, id: u32) -> &[u8] {
        let index = id as usize;
        let Some(&end) = self.ends.get(index) else {
            return &[];
        };
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..end]
    }
}

/// Turns the tokens of one text into characters as they come.
///
/// A character may be spread over several tokens (up to four bytes); what is incomplete is held
/// back until the rest comes. All pushes joined, and [`Decoder::flush`] at the end, are exactly
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

    /// Takes one token and returns the text that is complete now, which may be empty. Bytes that
    /// can never become a character show as U+FFFD.
    pub fn push(&mut self, id: u32) -> String {
        self.held.extend_from_slice(self.pieces.get(id));
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

    /// The bytes held back: the beginning of a character whose end has not come. At most three.
    pub fn held_back(&self) -> &[u8] {
        &self.held
    }

    /// Ends the text: gives up what is held back, as U+FFFD, and returns it.
    pub fn flush(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.held)).into_owned()
    }
}
