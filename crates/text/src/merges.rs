//! Merges: pairs of tokens with their joint token, and their order.

use conclave_weights::Metadata;

use crate::TextError;
use crate::table::Table;
use crate::vocabulary::{Kind, Vocabulary};

/// Merges of a vocabulary, numbered in their file's order.
#[derive(Debug, Default)]
pub(crate) struct Merges {
    /// Left, right and joint token of each.
    all: Vec<[u32; 3]>,
    table: Table,
}

const MERGES: &str = "tokenizer.ggml.merges";

impl Merges {
    /// Merges listed in a GGUF file, each of two tokens that make a third.
    pub(crate) fn from_gguf(
        metadata: &Metadata,
        vocabulary: &Vocabulary,
    ) -> Result<Self, TextError> {
        let lines = metadata.strings(MERGES)?;
        let mut merges = Collected::new(vocabulary, lines.len(), "");
        for (number, line) in lines.iter().enumerate() {
            let added = match line.split_once(' ') {
                Some((left, right)) if !left.is_empty() && !right.is_empty() => {
                    merges.push(left, right)
                }
                _ => Err("is not two tokens with a space between"),
            };
            added.map_err(|reason| {
                let start: String = line.chars().take(60).collect();
                TextError::Vocabulary {
                    key: MERGES,
                    reason: format!("merge {number} ({start:?}) {reason}"),
                }
            })?;
        }
        Ok(merges.finish())
    }

    /// Number and joint token of the merge of `left` and `right`.
    pub(crate) fn find(&self, left: u32, right: u32) -> Option<(u32, u32)> {
        let number = self.table.find((left, right), |number| {
            self.all[number as usize][..2] == [left, right]
        })?;
        Some((number, self.all[number as usize][2]))
    }
}

/// Builder of [`Merges`].
pub(crate) struct Collected<'a> {
    vocabulary: &'a Vocabulary,
    /// Length of the prefix that the right part loses when merged.
    prefix: usize,
    all: Vec<[u32; 3]>,
    joint: String,
}

impl<'a> Collected<'a> {
    /// For about `count` merges of tokens of `vocabulary`, whose right parts lose the `prefix`.
    pub(crate) fn new(vocabulary: &'a Vocabulary, count: usize, prefix: &str) -> Self {
        Self {
            vocabulary,
            prefix: prefix.len(),
            all: Vec::with_capacity(count),
            joint: String::new(),
        }
    }

    /// Adds the merge of two tokens by their text. Errors if a text or their joint text is not a
    /// token; the message does not repeat the text.
    pub(crate) fn push(&mut self, left: &str, right: &str) -> Result<(), &'static str> {
        const LACKS: &str = "uses or makes a token that the vocabulary lacks";
        self.joint.clear();
        self.joint.push_str(left);
        self.joint
            .push_str(right.get(self.prefix..).unwrap_or_default());
        let id = |text: &str| self.vocabulary.find_any(text).ok_or(LACKS);
        let (left, right, joint) = (id(left)?, id(right)?, id(&self.joint)?);
        // No text may become a control token: such a merge keeps its number and is never applied.
        let allowed = ![left, right, joint]
            .into_iter()
            .any(|id| matches!(self.vocabulary.kind(id), Kind::Control | Kind::Unused));
        let joint = if allowed { joint } else { u32::MAX };
        self.all.push([left, right, joint]);
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// The merges; of two merges of the same tokens the later counts, as in the tokenizers library.
    pub(crate) fn finish(mut self) -> Merges {
        self.all.shrink_to_fit();
        let mut table = Table::with_room(self.all.len());
        for (number, &[left, right, joint]) in (0_u32..).zip(&self.all) {
            if joint != u32::MAX {
                let is = |number: u32| self.all[number as usize][..2] == [left, right];
                table.put((left, right), number, is);
            }
        }
        Merges {
            all: self.all,
            table,
        }
    }
}
