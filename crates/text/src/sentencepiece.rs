//! `llama` tokenizers in GGUF: SentencePiece BPE. A space is written `▁`, text is not split into
//! words, and the pair whose joint token has the highest score is merged first (in `gemma4`, the
//! pair that is first in its list of merges). Characters that no token covers become byte tokens.

use std::sync::Arc;

use conclave_weights::Metadata;
use tokenizers::normalizers::{NormalizerWrapper, Prepend, Replace};

use crate::TextError;
use crate::bpe::{Bpe, Priorities};
use crate::merges::Merges;
use crate::vocabulary::Vocabulary;
use crate::words::{Steps, Words};

const SCORES: &str = "tokenizer.ggml.scores";

/// Builds the tokenizer; `lead`: a text, and text after a special token, begins with a space.
pub(crate) fn build(
    metadata: &Metadata,
    vocabulary: &Arc<Vocabulary>,
    lead: bool,
) -> Result<Words, TextError> {
    let scores = metadata.f32s(SCORES)?;
    if scores.len() != vocabulary.len() {
        let reason = format!("{} scores for {} tokens", scores.len(), vocabulary.len());
        return Err(TextError::Vocabulary {
            key: SCORES,
            reason,
        });
    }
    words(vocabulary, lead, Priorities::Scores(scores.to_vec()))
}

/// Builds the tokenizer of Gemma 4, which lists its merges and prepends no space.
pub(crate) fn build_merged(
    metadata: &Metadata,
    vocabulary: &Arc<Vocabulary>,
) -> Result<Words, TextError> {
    let merges = Merges::from_gguf(metadata, vocabulary)?;
    words(vocabulary, false, Priorities::Merges(merges))
}

fn words(
    vocabulary: &Arc<Vocabulary>,
    lead: bool,
    priorities: Priorities,
) -> Result<Words, TextError> {
    let within = Arc::new(steps(false)?);
    let leading = if lead {
        Arc::new(steps(true)?)
    } else {
        Arc::clone(&within)
    };
    Ok(Words {
        start: Arc::clone(&leading),
        after_token: leading,
        within,
        bpe: Bpe {
            vocabulary: Arc::clone(vocabulary),
            priorities,
            unknown: vocabulary.roles.unknown,
            fuse_unknown: true,
            bytes: Bpe::byte_tokens(vocabulary),
            whole_words: false,
            prefix: String::new(),
            suffix: String::new(),
        },
    })
}

fn steps(lead: bool) -> Result<Steps, TextError> {
    let mut normalisers: Vec<NormalizerWrapper> = Vec::new();
    if lead {
        normalisers.push(Prepend::new("▁".to_owned()).into());
    }
    let spaces = Replace::new(" ", "▁").map_err(|error| TextError::Tokenizer {
        reason: error.to_string(),
    })?;
    normalisers.push(spaces.into());
    Ok(Steps {
        normalisers,
        ..Steps::default()
    })
}
