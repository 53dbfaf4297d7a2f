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
//!   answer may take over a text (a function's description, say) and then refer to it.

use std::collections::{HashMap, HashSet};

use crate::agreement::words;
use crate::segment::Candidate;

/// Words of a run.
const RUN: usize = 4;

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

    /// Whether the last turn may be a first question: no turn comes before it except a system
    /// message.
    pub(crate) fn begins(&self) -> bool {
        matches!(self.turns.len(), 1 | 2)
    }

    /// Appends an accepted segment.
    pub(crate) fn push(&mut self, text: &str) {
        self.answer.extend(words(text));
    }

    /// Whether `candidate` only repeats.
    pub(crate) fn has(&self, candidate: &Candidate) -> bool {
        let words = words(&candidate.text);
        if self.answer.is_empty() && candidate.ended && self.turns.contains(&words) {
            return !words.is_empty();
        }
        if words.len() < ENOUGH {
            return false;
        }
        let asked: HashSet<&[String]> = self.question().windows(RUN).collect();
        let mut times: HashMap<&[String], usize> = HashMap::new();
        for run in self.answer.windows(RUN) {
            *times.entry(run).or_default() += 1;
        }
        let mut again = 0;
        for run in words.windows(RUN) {
            let before = times.entry(run).or_default();
            again += usize::from(*before > usize::from(asked.contains(run)));
            *before += 1;
        }
        2 * again > words.len() + 1 - RUN
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
            assert_eq!(said.has(&candidate(text, ended)), again, "{text}");
        }
        said.push("Bark. Who eats it?");
        assert!(
            !said.has(&candidate(" The beaver.", true)),
            "it does not open the answer"
        );
    }

    #[test]
    fn the_question_may_be_quoted_twice() {
        let asked = "Remove the characters in s that are equal to any character in c";
        let mut said = Said::new([asked]);
        let again = candidate(asked, false);
        for repeats in [false, false, true] {
            assert_eq!(said.has(&again), repeats);
            said.push(asked);
        }
    }

    #[test]
    fn a_circle_says_nothing_new() {
        let mut said = Said::default();
        let circle = "a gentle rain, a gentle rain, a gentle rain, a gentle rain";
        assert!(said.has(&candidate(circle, false)));
        let verse = candidate(
            " The sun went down over the hill and the birds were still",
            false,
        );
        assert!(!said.has(&verse));
        said.push(&verse.text);
        assert!(said.has(&verse));
        assert!(
            !said.has(&candidate(" The sun went down", false)),
            "too short to tell"
        );
    }
}
