//! Finds tokens that are recognised by their text before any splitting into words: user-defined
//! ones in every text, control tokens only where a template wrote them.

use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};

use crate::TextError;

/// Matching options of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Manner {
    /// It absorbs the white space before it.
    pub lstrip: bool,
    /// It absorbs the white space after it.
    pub rstrip: bool,
    /// It does not match next to a letter, a digit or `_`.
    pub single_word: bool,
}

/// Finds tokens by their text: the leftmost, and of several there the longest.
#[derive(Debug, Default)]
pub(crate) struct Finder {
    automaton: Option<AhoCorasick>,
    tokens: Vec<(u32, Manner)>,
    /// First token that it no longer finds.
    end: Option<u32>,
}

/// A token in a text.
#[derive(Debug)]
pub(crate) struct Found {
    /// Byte range of its own text.
    pub place: Range<usize>,
    pub id: u32,
    manner: Manner,
}

impl Found {
    /// Returns the end of the text before it, which begins at `start`.
    pub(crate) fn before(&self, text: &str, start: usize) -> usize {
        let start = start.min(self.place.start);
        if self.manner.lstrip {
            start + text[start..self.place.start].trim_end().len()
        } else {
            self.place.start
        }
    }

    /// Returns the start of the text after it.
    pub(crate) fn after(&self, text: &str) -> usize {
        let rest = &text[self.place.end..];
        if self.manner.rstrip {
            text.len() - rest.trim_start().len()
        } else {
            self.place.end
        }
    }
}

impl Finder {
    /// A finder of the tokens: id, text and matching options of each.
    pub(crate) fn new<T: AsRef<str>>(
        tokens: impl IntoIterator<Item = (u32, T, Manner)>,
    ) -> Result<Self, TextError> {
        let mut texts = Vec::new();
        let mut wanted = Vec::new();
        for (id, text, manner) in tokens {
            if !text.as_ref().is_empty() {
                texts.push(text);
                wanted.push((id, manner));
            }
        }
        if texts.is_empty() {
            return Ok(Self::default());
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            // The default for few tokens is a table of every byte in every state.
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(texts.iter().map(AsRef::as_ref))
            .map_err(|error| TextError::Tokenizer {
                reason: error.to_string(),
            })?;
        Ok(Self {
            automaton: Some(automaton),
            tokens: wanted,
            end: None,
        })
    }

    /// Stops finding tokens from `end` on.
    pub(crate) fn end_at(&mut self, end: u32) {
        self.end = Some(end);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.automaton.is_none()
    }

    pub(crate) fn contains(&self, id: u32) -> bool {
        self.tokens.iter().any(|&(token, _)| token == id)
    }

    /// First such token in `text` at or after byte `from`.
    pub(crate) fn find(&self, text: &str, from: usize) -> Option<Found> {
        let automaton = self.automaton.as_ref()?;
        let mut from = from;
        loop {
            let found = automaton.find(Input::new(text).range(from..))?;
            let (id, manner) = self.tokens[found.pattern().as_usize()];
            let place = found.range();
            let is_known = self.end.is_none_or(|end| id < end);
            if is_known && (!manner.single_word || stands_alone(text, &place)) {
                return Some(Found { place, id, manner });
            }
            from = place.end;
        }
    }
}

fn stands_alone(text: &str, place: &Range<usize>) -> bool {
    let word = |letter: char| letter.is_alphanumeric() || letter == '_';
    !text[..place.start].chars().next_back().is_some_and(word)
        && !text[place.end..].chars().next().is_some_and(word)
}
