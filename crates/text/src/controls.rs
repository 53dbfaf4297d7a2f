//! Finding tokens that are recognised by their text before any splitting into words: user-defined
//! ones in every text, control tokens only where a template wrote them.

use std::ops::Range;

use aho_corasick::{AhoCorasick, Input, MatchKind};

use crate::TextError;
use crate::vocabulary::{Kind, TOKENS, Vocabulary};

/// Finds tokens by their text, the leftmost first, of those the longest.
#[derive(Debug)]
pub(crate) struct Finder {
    automaton: Option<AhoCorasick>,
    ids: Vec<u32>,
}

impl Finder {
    /// A finder of the tokens whose kind is among `kinds`.
    pub(crate) fn new(vocabulary: &Vocabulary, kinds: &[Kind]) -> Result<Self, TextError> {
        let wanted = || {
            vocabulary
                .iter()
                .filter(|(_, text, kind)| !text.is_empty() && kinds.contains(kind))
        };
        let ids: Vec<u32> = wanted().map(|(id, ..)| id).collect();
        if ids.is_empty() {
            return Ok(Self {
                automaton: None,
                ids,
            });
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(wanted().map(|(_, text, _)| text))
            .map_err(|error| TextError::Vocabulary {
                key: TOKENS,
                reason: error.to_string(),
            })?;
        Ok(Self {
            automaton: Some(automaton),
            ids,
        })
    }

    /// The first such token in `text` at or after byte `from`.
    pub(crate) fn find(&self, text: &str, from: usize) -> Option<(Range<usize>, u32)> {
        let found = self
            .automaton
            .as_ref()?
            .find(Input::new(text).range(from..))?;
        Some((found.range(), self.ids[found.pattern().as_usize()]))
    }
}
