//! `gpt2` tokenizers in GGUF: byte-level BPE. Text becomes bytes, each byte one of 256 letters, and
//! pairs of letters are merged in the order of the file's list.

use std::sync::Arc;

use conclave_weights::Metadata;

use crate::TextError;
use crate::bpe::{Bpe, Priorities};
use crate::merges::Merges;
use crate::pre_tokeniser::PreTokeniser;
use crate::vocabulary::Vocabulary;
use crate::words::Words;

/// Builds the tokenizer, and returns whether prompts begin with BOS by default.
pub(crate) fn build(
    metadata: &Metadata,
    vocabulary: &Arc<Vocabulary>,
) -> Result<(Words, bool), TextError> {
    let pre = PreTokeniser::named(metadata.opt_str("tokenizer.ggml.pre")?.unwrap_or("default"))?;
    let steps = Arc::new(pre.steps()?);
    let words = Words {
        start: Arc::clone(&steps),
        after_token: Arc::clone(&steps),
        within: steps,
        bpe: Bpe {
            vocabulary: Arc::clone(vocabulary),
            priorities: Priorities::Merges(Merges::from_gguf(metadata, vocabulary)?),
            unknown: None,
            fuse_unknown: false,
            bytes: None,
            whole_words: pre.whole_words,
            prefix: String::new(),
            suffix: String::new(),
        },
    };
    Ok((words, pre.bos))
}
