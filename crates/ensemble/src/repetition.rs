//! Candidates that only repeat.
//!
//! Likelihood favours repetition: the question, an earlier answer or a looping sentence surprises
//! no verifier. The total of a candidate that only repeats is multiplied by
//! [`Settings::discount`](crate::Settings::discount); if all repeat, nothing changes. A candidate
//! repeats if
//!
//! - it opens and ends the answer with the words of an earlier turn, or
//! - it has eight words or more, and more than half of its runs of four words occur in the answer
//!   before it, or earlier in itself; runs of the question must have occurred twice, since an
//!   answer may take over a text (a function's description, say) and then refer to it. Beside
//!   weaker members the strongest's candidate that goes on is judged by runs of eight words: the
//!   steps of its calculation repeat shorter ones.

use std::collections::{HashMap, HashSet};

use crate::agreement::words;
use crate::segment::Candidate;

/// Words of a run.
pub(crate) const RUN: usize = 4;

/// Words of a run where the strongest member goes on beside weaker ones.
pub(crate) const LONG: usize = 8;

/// Least words of a candidate that can be recognised as a loop.
const ENOUGH: usize = 8;

/// Words of the conversation and of the answer so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Said {
    turns: Vec<Vec<String>>,
    answer: Vec<String>,
}

impl Said {
    pub(crate) fn new<'a>(turns: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            turns: turns.into_iter().map(words).collect(),
            answer: Vec::new(),
        }
    }

    /// Words of the last turn.
    pub(crate) fn question(&self) -> &[String] {
        self.turns.last().map_or(&[], Vec::as_slice)
    }

    /// Whether any text of the answer has been accepted.
    pub(crate) fn begun(&self) -> bool {
        !self.answer.is_empty()
    }

    /// Whether a conversation is known.
    pub(crate) fn asked(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Whether `candidate` adds to the conversation: it has a word that no turn has, or answers
    /// what may be a first question, since no turn comes before it except a system message.
    pub(crate) fn adds(&self, candidate: &Candidate) -> bool {
        let is_new = |word: &String| !self.turns.iter().any(|turn| turn.contains(word));
        self.turns.len() <= 2 || words(&candidate.text).iter().any(is_new)
    }

    /// Appends an accepted segment.
    pub(crate) fn push(&mut self, text: &str) {
        self.answer.extend(words(text));
    }

    /// Whether `candidate` only repeats, by runs of `run` words (at most [`ENOUGH`]).
    pub(crate) fn has(&self, candidate: &Candidate, run: usize) -> bool {
        let words = words(&candidate.text);
        if self.answer.is_empty() && candidate.ended && self.turns.contains(&words) {
            return !words.is_empty();
        }
        if words.len() < ENOUGH {
            return false;
        }
        let asked: HashSet<&[String]> = self.question().windows(run).collect();
        let mut times: HashMap<&[String], usize> = HashMap::new();
        for seen in self.answer.windows(run) {
            *times.entry(seen).or_default() += 1;
        }
        let mut again = 0;
        for part in words.windows(run) {
            let before = times.entry(part).or_default();
            again += usize::from(*before > usize::from(asked.contains(part)));
            *before += 1;
        }
        2 * again > words.len() + 1 - run
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(text: &str, ended: bool) -> Candidate {
        Candidate {
            text: text.to_owned(),
            ended,
        }
    }

    #[test]
    fn an_earlier_turn_is_no_answer() {
        let mut said = Said::new(["What builds dams?", "The beaver.", "What does it eat?"]);
        for (text, ended, again) in [
            ("the beaver", true, true),
            ("What does it eat?", true, true),
            ("The beaver eats bark.", true, false),
            // It may continue.
            ("The beaver", false, false),
            ("", true, false),
        ] {
            assert_eq!(said.has(&candidate(text, ended), RUN), again, "{text}");
        }
        said.push("Bark. Who eats it?");
        assert!(
            !said.has(&candidate(" The beaver.", true), RUN),
            "it does not open the answer"
        );
    }

    #[test]
    fn the_question_may_be_quoted_twice() {
        let asked = "Remove the characters in s that are equal to any character in c";
        let mut said = Said::new([asked]);
        let again = candidate(asked, false);
        for repeats in [false, false, true] {
            assert_eq!(said.has(&again, RUN), repeats);
            said.push(asked);
        }
    }

    #[test]
    fn a_circle_says_nothing_new() {
        let mut said = Said::default();
        let circle = "a gentle rain, a gentle rain, a gentle rain, a gentle rain";
        assert!(said.has(&candidate(circle, false), RUN));
        let verse = candidate(
            " The sun went down over the hill and the birds were still",
            false,
        );
        assert!(!said.has(&verse, RUN));
        said.push(&verse.text);
        assert!(said.has(&verse, RUN));
        assert!(
            !said.has(&candidate(" The sun went down", false), RUN),
            "too short to tell"
        );
    }
}
