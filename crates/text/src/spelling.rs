//! Spelling of tokens: the bytes that each shows as.

use crate::vocabulary::{Kind, Vocabulary};

/// Mapping from a token to its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// Every letter is a byte, by GPT-2's alphabet.
    ByteLevel,
    /// Text with replacements for spaces, and tokens for single bytes.
    Text {
        /// Pairs of text and replacement, in order.
        replaced: Vec<(String, String)>,
        /// `<0x41>` is a byte.
        bytes: bool,
        /// A text that stands alone begins with a space that is not its own.
        lead: bool,
        /// Every token is a word, with a space before it.
        spaced: bool,
    },
}

impl Spelling {
    /// SentencePiece's: `▁` is a space.
    pub(crate) fn sentencepiece(lead: bool) -> Self {
        Self::Text {
            replaced: vec![("▁".to_owned(), " ".to_owned())],
            bytes: true,
            lead,
            spaced: false,
        }
    }

    /// Whether a text that stands alone begins with a space that is not its own.
    pub(crate) fn leads(&self) -> bool {
        matches!(self, Self::Text { lead: true, .. })
    }

    /// Appends the bytes of token `id`; none for control tokens, nor for ids beyond the vocabulary,
    /// which models with a padded embedding have.
    pub(crate) fn append(&self, vocabulary: &Vocabulary, id: u32, to: &mut Vec<u8>) {
        let kind = vocabulary.kind(id);
        let Some(text) = vocabulary.text(id) else {
            return;
        };
        if matches!(kind, Kind::Control | Kind::Unknown | Kind::Unused) {
            return;
        }
        match self {
            Self::ByteLevel if kind == Kind::UserDefined => to.extend_from_slice(text.as_bytes()),
            Self::ByteLevel => append_letters(text, to),
            Self::Text {
                replaced,
                bytes,
                spaced,
                ..
            } => {
                if *spaced {
                    to.push(b' ');
                }
                if kind == Kind::Byte || *bytes {
                    if let Some(byte) = byte_of_token(text) {
                        to.push(byte);
                        return;
                    }
                    if kind == Kind::Byte {
                        return;
                    }
                }
                match replaced.as_slice() {
                    [] => to.extend_from_slice(text.as_bytes()),
                    replaced => {
                        let mut spelt = text.to_owned();
                        for (pattern, content) in replaced {
                            spelt = spelt.replace(pattern, content);
                        }
                        to.extend_from_slice(spelt.as_bytes());
                    }
                }
            }
        }
    }
}

/// The byte written as `<0x41>`.
fn byte_of_token(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    let wide = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    wide.then(|| u8::from_str_radix(digits, 16).ok())?
}

/// Appends the bytes of a token's letters. A token with any other letter is appended as its own
/// text, as in the tokenizers library.
fn append_letters(text: &str, to: &mut Vec<u8>) {
    let start = to.len();
    for letter in text.chars() {
        let Some(byte) = byte_of(letter) else {
            to.truncate(start);
            to.extend_from_slice(text.as_bytes());
            return;
        };
        to.push(byte);
    }
}

/// GPT-2's alphabet: printable Latin-1 bytes are themselves; the other 68, in order, are the
/// letters from U+0100 on.
fn byte_of(letter: char) -> Option<u8> {
    match u32::from(letter) {
        code @ (0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) => u8::try_from(code).ok(),
        code @ 0x100..=0x120 => u8::try_from(code - 0x100).ok(),
        code @ 0x121..=0x142 => u8::try_from(code - 0x121 + 0x7f).ok(),
        0x143 => Some(0xad),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters(text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        append_letters(text, &mut bytes);
        bytes
    }

    #[test]
    fn every_byte_has_its_letter() {
        let alphabet = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet();
        let mut bytes: Vec<u8> = alphabet
            .iter()
            .map(|&letter| byte_of(letter).unwrap())
            .collect();
        bytes.sort_unstable();
        assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());
        assert_eq!(letters("Ġa"), b" a");
        assert_eq!(letters("Ċ"), b"\n");
        assert_eq!(letters("\u{121}\u{142}\u{143}"), [0x7f, 0xa0, 0xad]);
        assert_eq!(letters("a日本"), "a日本".as_bytes());
    }

    #[test]
    fn byte_tokens_have_two_digits() {
        assert_eq!(byte_of_token("<0x0A>"), Some(10));
        assert_eq!(byte_of_token("<0xff>"), Some(255));
        for text in ["<0x+1>", "<0x1>", "<0x041>", "<0x41", "0x41"] {
            assert_eq!(byte_of_token(text), None, "{text}");
        }
    }
}
