//! The report of a round, filled in from its drafts to its winner.

use serde::Serialize;

use crate::{Candidate, Draft, VerifiedScore, cut};

/// Report of one round. Rows and weights go by `active`, columns by `drafters`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[cfg_attr(feature = "ts", ts(rename = "RoundReport"))]
#[serde(rename_all = "camelCase")]
pub struct Round {
    /// Its number, from 1.
    pub round: usize,
    /// Members that took part.
    pub active: Vec<usize>,
    /// Members that drafted: all that can and were in time, or the leader alone; twice where a
    /// member drafted a second candidate.
    pub drafters: Vec<usize>,
    /// Their segments; `tokens` in each drafter's own tokenisation, as verified if it was.
    pub candidates: Vec<Draft>,
    /// Raw scores, a row per verifier, empty if it abstained; empty as a whole if a fast end was
    /// accepted unverified.
    pub scores: Vec<Vec<VerifiedScore>>,
    /// Scores normalised to rows of sum 1; empty, like totals and counts, if there was no vote.
    pub shares: Vec<Vec<f64>>,
    /// Y of each candidate.
    pub totals: Vec<f64>,
    /// Verifiers, by row, whose vote alone overturned the choice of all others.
    pub turned_by: Vec<usize>,
    /// c of each candidate.
    pub counts: Vec<usize>,
    /// Weights after the feedback.
    pub weights: Vec<f64>,
    /// Index into the candidates.
    pub winner: usize,
    /// Candidates with the winner's text and end, the winner among them.
    pub writers: Vec<usize>,
    /// Members that leave by the exit rule.
    pub exited: Vec<usize>,
    /// Text that is now final, after that of earlier rounds.
    pub text: String,
}

impl Round {
    /// Row of the member that drafted candidate `candidate`.
    pub(crate) fn row_of(&self, candidate: usize) -> Option<usize> {
        let drafter = self.drafters[candidate];
        self.active.iter().position(|&member| member == drafter)
    }

    pub(crate) fn candidates(&self) -> Vec<Candidate> {
        let candidate = |draft: &Draft| Candidate {
            text: draft.text.clone(),
            ended: draft.ended,
        };
        self.candidates.iter().map(candidate).collect()
    }

    /// Rows of all drafters, by candidate.
    pub(crate) fn rows(&self) -> Vec<usize> {
        let candidates = 0..self.candidates.len();
        candidates.filter_map(|one| self.row_of(one)).collect()
    }

    /// Removes the candidates that are not put to the vote.
    pub(crate) fn retain(&mut self, stands: &[bool]) {
        let mut stand = stands.iter();
        self.drafters.retain(|_| stand.next() != Some(&false));
        let mut stand = stands.iter();
        self.candidates.retain(|_| stand.next() != Some(&false));
    }

    /// Inserts a member's drafts, cut to whole words, in the drafters' order. A second one that the
    /// cut makes equal to the first is left out.
    pub(crate) fn insert(&mut self, drafter: usize, mut draft: Draft) {
        let at = self.drafters.partition_point(|&member| member <= drafter);
        let second = draft.second.take();
        let text = cut(&draft.text, draft.ended).to_owned();
        let draft = Draft { text, ..draft };
        let second = second.map(|second| Draft {
            text: cut(&second.text, second.ended).to_owned(),
            ..*second
        });
        let another = |second: &Draft| {
            (&second.text, second.ended) != (&draft.text, draft.ended) && !second.text.is_empty()
        };
        if let Some(second) = second.filter(another) {
            self.drafters.insert(at, drafter);
            self.candidates.insert(at, second);
        }
        self.drafters.insert(at, drafter);
        self.candidates.insert(at, draft);
    }
}
