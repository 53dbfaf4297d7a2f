//! Byte-pair encoding of one word: characters become tokens, then the neighbouring pair of highest
//! priority is merged until no pair can be, as in the tokenizers library.
//!
//! That library's own model keeps every token's text twice and every merge in a map of pairs: 57 MB
//! for a vocabulary of Gemma's size (262,144 tokens, 514,906 merges), with a peak of 278 MB while
//! building; here 19 MB and 21 MB (`examples/heap.rs`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::merges::Merges;
use crate::vocabulary::{Kind, Vocabulary};

/// Priority of a merge.
#[derive(Debug)]
pub(crate) enum Priorities {
    /// The file lists the merges, by descending priority.
    Merges(Merges),
    /// SentencePiece: any two tokens whose joint text is a token may be merged; the joint token's
    /// score is the priority.
    Scores(Vec<f32>),
}

/// Model of a tokenizer.
#[derive(Debug)]
pub(crate) struct Bpe {
    pub vocabulary: Arc<Vocabulary>,
    pub priorities: Priorities,
    /// Replaces characters that no token covers; without it they are dropped.
    pub unknown: Option<u32>,
    /// Neighbouring unknown characters become one unknown token.
    pub fuse_unknown: bool,
    /// Tokens for single bytes, used for characters that no token covers.
    pub bytes: Option<Box<[u32; 256]>>,
    /// A word that is itself a token is that token, whatever the merges say.
    pub whole_words: bool,
    /// Prepended to every character of a word but the first.
    pub prefix: String,
    /// Appended to the last character of a word.
    pub suffix: String,
}

/// A token of the current word, in a linked list.
struct Symbol {
    id: u32,
    /// Its text within the word; empty once it has been merged into its left neighbour.
    start: usize,
    end: usize,
    previous: Option<usize>,
    next: Option<usize>,
}

/// Priority of a pair; smaller is sooner. Merges use their number. Scores sort by the highest, then
/// the longer left part, then the longer right one, then the order of the vocabulary, as
/// transformers converts scores to merges.
type Urgency = (Score, Reverse<usize>, Reverse<usize>, u32, u32, u32);

/// A score with a total order from the highest to the lowest, NaN included.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Score(u32);

impl Score {
    fn new(score: f32) -> Self {
        let bits = score.to_bits();
        let ascending = if bits >> 31 == 1 {
            !bits
        } else {
            bits | 1 << 31
        };
        Self(!ascending)
    }
}

impl Bpe {
    /// Token for each single byte (`<0x41>`), if the vocabulary has them all.
    pub(crate) fn byte_tokens(vocabulary: &Vocabulary) -> Option<Box<[u32; 256]>> {
        let mut tokens = Box::new([0; 256]);
        for (byte, token) in tokens.iter_mut().enumerate() {
            *token = vocabulary.find(&format!("<0x{byte:02X}>"))?;
        }
        Some(tokens)
    }

    pub(crate) fn encode(&self, word: &str, ids: &mut Vec<u32>) {
        if self.whole_words
            && let Some(id) = self.vocabulary.find(word)
        {
            ids.push(id);
            return;
        }
        let mut symbols = self.characters(word);
        self.join(word, &mut symbols);
        ids.extend(
            symbols
                .iter()
                .filter(|symbol| symbol.start < symbol.end)
                .map(|symbol| symbol.id),
        );
    }

    /// The word's characters as tokens, or as their fallback: bytes or the unknown token.
    fn characters(&self, word: &str) -> Vec<Symbol> {
        let mut symbols: Vec<Symbol> = Vec::with_capacity(word.len());
        let mut add = |id: u32, start: usize, end: usize| {
            let place = symbols.len();
            if let Some(last) = symbols.last_mut() {
                last.next = Some(place);
            }
            symbols.push(Symbol {
                id,
                start,
                end,
                previous: place.checked_sub(1),
                next: None,
            });
        };
        let mut unknown: Option<(u32, usize, usize)> = None;
        let mut dressed = String::new();
        for (start, character) in word.char_indices() {
            let end = start + character.len_utf8();
            dressed.clear();
            if start > 0 {
                dressed.push_str(&self.prefix);
            }
            dressed.push(character);
            if end == word.len() {
                dressed.push_str(&self.suffix);
            }
            if let Some(id) = self.vocabulary.find(&dressed) {
                if let Some((id, start, end)) = unknown.take() {
                    add(id, start, end);
                }
                add(id, start, end);
            } else if let Some(bytes) = &self.bytes {
                for byte in dressed.bytes() {
                    add(bytes[usize::from(byte)], start, end);
                }
            } else if let Some(id) = self.unknown {
                unknown = match unknown {
                    Some((id, first, _)) if self.fuse_unknown => Some((id, first, end)),
                    Some((id, first, last)) => {
                        add(id, first, last);
                        Some((id, start, end))
                    }
                    None => Some((id, start, end)),
                };
            }
        }
        if let Some((id, start, end)) = unknown {
            add(id, start, end);
        }
        symbols
    }

    /// Merges neighbours until no pair can be.
    fn join(&self, word: &str, symbols: &mut [Symbol]) {
        let mut queue: BinaryHeap<Reverse<(Urgency, usize, u32)>> = BinaryHeap::new();
        let offer = |queue: &mut BinaryHeap<_>, symbols: &[Symbol], left: Option<usize>| {
            let Some(left) = left else { return };
            let Some(right) = symbols[left].next else {
                return;
            };
            if let Some((urgency, joint)) = self.pair(word, &symbols[left], &symbols[right]) {
                queue.push(Reverse((urgency, left, joint)));
            }
        };
        for left in 0..symbols.len() {
            offer(&mut queue, symbols, Some(left));
        }
        while let Some(Reverse((_, left, joint))) = queue.pop() {
            if symbols[left].start == symbols[left].end {
                continue;
            }
            let Some(right) = symbols[left].next else {
                continue;
            };
            // A queued pair may have been merged with its neighbours since.
            match self.pair(word, &symbols[left], &symbols[right]) {
                Some((_, now)) if now == joint => {}
                _ => continue,
            }
            let next = symbols[right].next;
            symbols[left].id = joint;
            symbols[left].end = symbols[right].end;
            symbols[left].next = next;
            symbols[right].start = symbols[right].end;
            if let Some(next) = next {
                symbols[next].previous = Some(left);
            }
            offer(&mut queue, symbols, symbols[left].previous);
            offer(&mut queue, symbols, Some(left));
        }
    }

    /// Priority of merging two neighbours, and the joint token.
    fn pair(&self, word: &str, left: &Symbol, right: &Symbol) -> Option<(Urgency, u32)> {
        match &self.priorities {
            Priorities::Merges(merges) => {
                let (rank, joint) = merges.find(left.id, right.id)?;
                let same = Reverse(0);
                Some(((Score(0), same, same, rank, 0, 0), joint))
            }
            Priorities::Scores(scores) => {
                // Bytes of one character cover the same text and are never merged.
                if left.end != right.start {
                    return None;
                }
                let joint = self.vocabulary.find(&word[left.start..right.end])?;
                if !matches!(
                    self.vocabulary.kind(joint),
                    Kind::Normal | Kind::UserDefined
                ) || self.is_stand_in(left, word)
                    || self.is_stand_in(right, word)
                {
                    return None;
                }
                let letters =
                    |symbol: &Symbol| Reverse(word[symbol.start..symbol.end].chars().count());
                let score = Score::new(*scores.get(joint as usize)?);
                let urgency = (
                    score,
                    letters(left),
                    letters(right),
                    joint,
                    left.id,
                    right.id,
                );
                Some((urgency, joint))
            }
        }
    }

    /// Whether a token is a fallback (a byte or the unknown token), whose text is not its own.
    fn is_stand_in(&self, symbol: &Symbol, word: &str) -> bool {
        self.vocabulary.text(symbol.id) != Some(&word[symbol.start..symbol.end])
    }
}
