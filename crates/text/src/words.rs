//! From text without special tokens to ids: normalise, split into words, merge within each.
//!
//! The steps are the `tokenizers` crate's own, so that all kinds of normalisers and pre-tokenisers
//! in use split exactly as there; only the merging is ours ([`Bpe`]).

use std::sync::Arc;

use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::{
    NormalizedString, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer,
};

use crate::TextError;
use crate::bpe::Bpe;
use crate::controls::Finder;

/// Maximum bytes that normalising may make of one byte, and of none: decompositions grow up to
/// eighteenfold.
const GROWTH: usize = 32;

/// Position of a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// It begins a text.
    Start,
    /// It comes after a special token.
    AfterToken,
    /// It continues a text.
    Within,
}

/// Steps applied to text before merging.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    pub normalisers: Vec<NormalizerWrapper>,
    pub pre_tokeniser: Option<PreTokenizerWrapper>,
    /// User-defined tokens that are searched for after normalising.
    pub tokens: Finder,
}

impl Steps {
    /// `text` as the normalisers leave it.
    pub(crate) fn normalise(&self, text: &str) -> Result<NormalizedString, TextError> {
        let mut normalised = NormalizedString::from(text);
        let longest = text.len().saturating_mul(GROWTH) + GROWTH;
        for normaliser in &self.normalisers {
            normaliser.normalize(&mut normalised).map_err(failed)?;
            if normalised.len() > longest {
                return Err(TextError::Tokenizer {
                    reason: "its normaliser makes a text endlessly long".to_owned(),
                });
            }
            // If its expression matches nothing, it leaves positions beyond the text (tokenizers
            // 0.23), on which the next step panics. Positions in the original text are not used.
            if matches!(normaliser, NormalizerWrapper::Replace(_)) {
                normalised = NormalizedString::from(normalised.get());
            }
        }
        Ok(normalised)
    }
}

/// A tokenizer without its special tokens.
#[derive(Debug)]
pub(crate) struct Words {
    /// At the start of a text: with the family's leading space, if it has one.
    pub start: Arc<Steps>,
    /// After a special token.
    pub after_token: Arc<Steps>,
    /// Without anything prepended.
    pub within: Arc<Steps>,
    pub bpe: Bpe,
}

impl Words {
    pub(crate) fn encode(
        &self,
        text: &str,
        place: Place,
        ids: &mut Vec<u32>,
    ) -> Result<(), TextError> {
        if text.is_empty() {
            return Ok(());
        }
        let steps = match place {
            Place::Start => &self.start,
            Place::AfterToken => &self.after_token,
            Place::Within => &self.within,
        };
        let normalised = steps.normalise(text)?;
        if steps.tokens.is_empty() {
            return self.split(steps, normalised, ids);
        }
        let text = normalised.get().to_owned();
        let slice = |start: usize, end: usize| {
            normalised
                .slice(tokenizers::normalizer::Range::Normalized(start..end))
                .filter(|piece| !piece.is_empty())
        };
        let mut start = 0;
        while let Some(found) = steps.tokens.find(&text, start) {
            if let Some(piece) = slice(start, found.before(&text, start)) {
                self.split(steps, piece, ids)?;
            }
            ids.push(found.id);
            start = found.after(&text);
        }
        match slice(start, text.len()) {
            Some(piece) => self.split(steps, piece, ids),
            None => Ok(()),
        }
    }

    /// Splits normalised text into words and merges each.
    fn split(
        &self,
        steps: &Steps,
        normalised: NormalizedString,
        ids: &mut Vec<u32>,
    ) -> Result<(), TextError> {
        let Some(pre_tokeniser) = &steps.pre_tokeniser else {
            self.bpe.encode(normalised.get(), ids);
            return Ok(());
        };
        let mut words = PreTokenizedString::from(normalised);
        pre_tokeniser.pre_tokenize(&mut words).map_err(failed)?;
        for (word, ..) in words.get_splits(OffsetReferential::Normalized, OffsetType::None) {
            self.bpe.encode(word, ids);
        }
        Ok(())
    }
}

fn failed(error: tokenizers::Error) -> TextError {
    TextError::Tokenizer {
        reason: error.to_string(),
    }
}
