//! `gpt2` tokenizers: byte-level BPE. Text becomes bytes, each byte one of 256 letters, and pairs
//! of letters are merged in the order the file lists.

use conclave_weights::Metadata;
use tokenizers::models::bpe::{BPE, Vocab};

use crate::TextError;
use crate::pre_tokeniser::PreTokeniser;
use crate::vocabulary::Vocabulary;

const MERGES: &str = "tokenizer.ggml.merges";

/// Builds the tokenizer, and says whether prompts begin with BOS by default.
pub(crate) fn build(
    metadata: &Metadata,
    vocabulary: &Vocabulary,
) -> Result<(tokenizers::Tokenizer, bool), TextError> {
    let pre = PreTokeniser::named(metadata.opt_str("tokenizer.ggml.pre")?.unwrap_or("default"))?;
    let reachable = vocabulary.reachable();
    let merges = merges(metadata, &reachable)?;
    let model = BPE::builder()
        .vocab_and_merges(reachable, merges)
        .ignore_merges(pre.whole_words)
        .build()
        .map_err(|error| TextError::Tokenizer {
            reason: error.to_string(),
        })?;
    let mut tokenizer = tokenizers::Tokenizer::new(model);
    tokenizer.with_pre_tokenizer(Some(pre.build()?));
    tokenizer
        .with_normalizer(pre.normaliser())
        .map_err(|error| TextError::Tokenizer {
            reason: error.to_string(),
        })?;
    Ok((tokenizer, pre.bos))
}

/// The merges, each of two tokens that make a third. The library indexes by these lengths, so
/// what does not hold together must not reach it.
fn merges(metadata: &Metadata, vocabulary: &Vocab) -> Result<Vec<(String, String)>, TextError> {
    let lines = metadata.strings(MERGES)?;
    let mut merges = Vec::with_capacity(lines.len());
    let mut joined = String::new();
    for (number, line) in lines.iter().enumerate() {
        let fault = |reason: &str| {
            let start: String = line.chars().take(60).collect();
            Err(TextError::Vocabulary {
                key: MERGES,
                reason: format!("merge {number} ({start:?}) {reason}"),
            })
        };
        let Some((left, right)) = line.split_once(' ') else {
            return fault("is not two tokens with a space between");
        };
        joined.clear();
        joined.push_str(left);
        joined.push_str(right);
        if left.is_empty() || right.is_empty() {
            return fault("is not two tokens with a space between");
        }
        if ![left, right, joined.as_str()]
            .into_iter()
            .all(|token| vocabulary.contains_key(token))
        {
            return fault("uses or makes a token that the vocabulary lacks");
        }
        merges.push((left.to_owned(), right.to_owned()));
    }
    Ok(merges)
}

/// The bytes that a token's letters stand for. A token with any other letter stands for its own
/// text, as in the tokenizers library.
pub(crate) fn bytes_of(text: &str) -> Vec<u8> {
    let bytes: Option<Vec<u8>> = text.chars().map(byte_of).collect();
    bytes.unwrap_or_else(|| text.as_bytes().to_vec())
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

    #[test]
    fn every_byte_has_its_letter() {
        let alphabet = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet();
        let mut bytes: Vec<u8> = alphabet
            .iter()
            .map(|&letter| byte_of(letter).unwrap())
            .collect();
        bytes.sort_unstable();
        assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());
        assert_eq!(bytes_of("Ġa"), b" a");
        assert_eq!(bytes_of("Ċ"), b"\n");
        assert_eq!(bytes_of("\u{121}\u{142}\u{143}"), [0x7f, 0xa0, 0xad]);
        assert_eq!(bytes_of("日本"), "日本".as_bytes());
    }
}
