//! `llama` tokenizers: SentencePiece BPE. A space is written `▁`, there are no words, and the pair
//! whose joint token has the highest score is merged first. Characters that no token covers fall
//! back to byte tokens.

use std::cmp::Reverse;

use conclave_weights::Metadata;
use tokenizers::models::bpe::{BPE, Vocab};

use crate::TextError;
use crate::vocabulary::{Kind, Vocabulary};

const SCORES: &str = "tokenizer.ggml.scores";

/// Finding a token's merges takes time with the square of its length; the longest tokens of real
/// vocabularies (runs of spaces or dashes) have some hundred bytes.
const LONGEST_TOKEN: usize = 1024;

/// Builds the tokenizer, which expects text with `▁` for spaces.
pub(crate) fn build(
    metadata: &Metadata,
    vocabulary: &Vocabulary,
) -> Result<tokenizers::Tokenizer, TextError> {
    let scores =
        metadata
            .opt_f32s(SCORES)?
            .ok_or_else(|| conclave_weights::GgufError::MissingKey {
                key: SCORES.to_owned(),
            })?;
    if scores.len() != vocabulary.len() {
        let reason = format!("{} scores for {} tokens", scores.len(), vocabulary.len());
        return Err(TextError::Vocabulary {
            key: SCORES,
            reason,
        });
    }
    let reachable = vocabulary.reachable();
    let merges = merges(vocabulary, &reachable, scores);
    // The library fails on text if the token for unknown characters cannot be reached.
    let unknown = vocabulary
        .unknown
        .and_then(|id| vocabulary.text(id))
        .map(str::to_owned);
    let unknown = unknown.filter(|text| reachable.contains_key(text));
    let byte_fallback = (0..=255_u8).all(|byte| reachable.contains_key(&format!("<0x{byte:02X}>")));
    let mut builder = BPE::builder()
        .vocab_and_merges(reachable, merges)
        .byte_fallback(byte_fallback)
        .fuse_unk(true);
    if let Some(unknown) = unknown {
        builder = builder.unk_token(unknown);
    }
    let model = builder.build().map_err(|error| TextError::Tokenizer {
        reason: error.to_string(),
    })?;
    Ok(tokenizers::Tokenizer::new(model))
}

/// The merges that the scores stand for, in the order in which transformers derives them: by
/// score, longer left and then longer right parts first, the vocabulary's order among equals.
fn merges(vocabulary: &Vocabulary, reachable: &Vocab, scores: &[f32]) -> Vec<(String, String)> {
    let mut merges = Vec::new();
    for ((id, text, kind), &score) in vocabulary.iter().zip(scores) {
        if !matches!(kind, Kind::Normal | Kind::UserDefined)
            || text.len() > LONGEST_TOKEN
            || reachable.get(text) != Some(&id)
        {
            continue;
        }
        let start = merges.len();
        let boundaries = text.char_indices().skip(1).map(|(index, _)| index);
        for (left_chars, middle) in (1_usize..).zip(boundaries) {
            let (left, right) = text.split_at(middle);
            if let (Some(&left_id), Some(&right_id)) = (reachable.get(left), reachable.get(right)) {
                merges.push((
                    score,
                    left_chars,
                    right.chars().count(),
                    left_id,
                    right_id,
                    (left, right),
                ));
            }
        }
        merges[start..].sort_by_key(|&(.., left, right, _)| (left, right));
    }
    merges.sort_by(|a, b| {
        b.0.total_cmp(&a.0)
            .then_with(|| Reverse((a.1, a.2)).cmp(&Reverse((b.1, b.2))))
    });
    merges
        .into_iter()
        .map(|(.., (left, right))| (left.to_owned(), right.to_owned()))
        .collect()
}

/// The bytes a token stands for: `▁` is a space, `<0x41>` a byte.
pub(crate) fn bytes_of(text: &str, kind: Kind) -> Vec<u8> {
    let byte = || u8::from_str_radix(text.strip_prefix("<0x")?.strip_suffix('>')?, 16).ok();
    match kind {
        Kind::Byte => byte().map_or_else(Vec::new, |byte| vec![byte]),
        _ => text.replace('▁', " ").into_bytes(),
    }
}
