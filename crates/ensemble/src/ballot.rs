//! Candidates of one round apart from their scores: drafters, agreement, discounts, and each
//! verifier's factor in the vote.

use crate::repetition::{LONG, RUN, Said};
use crate::{Candidate, Score, Settings, agreement, score};

/// Smallest surprise in nats that counts for a member at its own finished answer, and the surprise
/// that counts for an unfinished one (see [`Settings::confidence`]).
const SUREST: f64 = 0.8;
const UNFINISHED: f64 = 2.0;

/// Nats added to a base model's surprise at its own answer: a base model answers in a word, whose
/// surprise is smaller than a sentence's.
const TERSE: f64 = 1.0;

/// Factor by which the verifiers beside its drafter must prefer a candidate to its rival (see
/// [`Ballot::clear_unsupported`]).
const SUPPORT: f64 = 1.25;

/// Fraction of another's starting weight from which a member counts as equally strong.
pub(crate) const ALIKE: f64 = 0.9;

/// A round's candidates. Members are positions among the active.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Ballot {
    /// Drafter of each candidate, ascending.
    pub drafters: Vec<usize>,
    /// Whether a drafter about as strong as the strongest has a first candidate that does not end
    /// the answer.
    pub open: bool,
    /// Whether some text of the answer has been accepted before this round.
    begun: bool,
    /// Whether every candidate only repeats; false without [`Settings::discount`].
    pub repeats: bool,
    /// Whether each candidate ends the answer, `[candidates]`. Empty if texts are not known, as are
    /// `agreement`, `early`, `discounted` and `weaker`.
    ended: Vec<bool>,
    /// Candidates that agree with each; empty without [`Settings::agree`].
    agreement: Vec<Vec<usize>>,
    /// Whether each candidate ends the answer although an equally strong or stronger drafter's
    /// first candidate does not, `[candidates]`; empty without [`Settings::discount`], as are
    /// `discounted` and `weaker`.
    early: Vec<bool>,
    /// Whether each candidate's votes are discounted, `[candidates]`.
    discounted: Vec<bool>,
    /// First candidate of the strongest drafter whose candidate does not end the answer.
    continued: Option<usize>,
    /// Whether each candidate continues the answer although a clearly stronger drafter's first
    /// candidate does so too, `[candidates]`.
    weaker: Vec<bool>,
    /// Factor of each verifier's weight for confidence, `[active]`; empty without
    /// [`Settings::confidence`].
    voices: Vec<f64>,
}

impl Ballot {
    /// Ballot of a round in which all `members` draft, before their texts are known.
    pub fn of_all(members: usize) -> Self {
        Self {
            drafters: (0..members).collect(),
            ..Self::default()
        }
    }

    /// Ballot of `candidates`, which are empty if their texts are not known. `strengths`: the
    /// drafters' starting weights.
    pub fn new(
        drafters: &[usize],
        candidates: &[Candidate],
        strengths: impl Iterator<Item = f64>,
        said: &Said,
        settings: &Settings,
    ) -> Self {
        let mut ballot = Self {
            drafters: drafters.to_vec(),
            ended: candidates.iter().map(|one| one.ended).collect(),
            begun: said.begun(),
            ..Self::default()
        };
        let drafted: Vec<(f64, bool)> = strengths.zip(ballot.ended.iter().copied()).collect();
        let goes_on = |j: usize| !drafted[j].1 && !ballot.is_second(j);
        let most = |most: f64, j: usize| most.max(drafted[j].0);
        let all = 0..drafted.len();
        let going_on = all.clone().filter(|&j| goes_on(j)).fold(0.0, most);
        let strongest = all.clone().fold(0.0, most);
        let continued = all
            .clone()
            .find(|&j| goes_on(j) && drafted[j].0 >= going_on);
        ballot.open = going_on > 0.0 && going_on >= ALIKE * strongest;
        if settings.agree {
            ballot.agreement = agreement::agreement(candidates, said.question());
        }
        if settings.discounts() {
            let early = |&(strength, ended): &(f64, bool)| ended && ALIKE * strength <= going_on;
            ballot.early = drafted.iter().map(early).collect();
            let weaker = |j: usize| drafted[j].0 < ALIKE * going_on;
            ballot.weaker = all.clone().map(|j| weaker(j) && !drafted[j].1).collect();
            ballot.continued = continued;
            ballot.discounted = candidates.iter().map(|one| said.has(one, RUN)).collect();
            ballot.repeats = !candidates.is_empty() && !ballot.discounted.contains(&false);
            if !ballot.repeats && all.clone().any(weaker) {
                for j in all.filter(|&j| !drafted[j].1 && !weaker(j)) {
                    ballot.discounted[j] = said.has(&candidates[j], LONG);
                }
            }
        }
        ballot
    }

    /// Whether candidate `j` is its drafter's second.
    fn is_second(&self, j: usize) -> bool {
        j > 0 && self.drafters[j - 1] == self.drafters[j]
    }

    /// Takes the drafters' scores of their own candidates.
    ///
    /// An early end is discounted in two cases: its drafter is unsure of it ([`Settings::sure`]),
    /// or some text has been accepted and the strongest member that continues finds the end more
    /// surprising than its own continuation. Each verifier's factor in the vote is set too
    /// ([`Settings::confidence`]). `chats` goes by position.
    pub fn hear_drafters(&mut self, scores: &[Vec<Score>], chats: &[bool], settings: &Settings) {
        // An empty row abstains, on its own candidate too.
        let own = |j: usize, drafter: usize| scores[drafter].get(j).map(Score::surprise);
        // A member that goes in a circle has no say in how to leave it, one that abstains or has no
        // log-probabilities has none at all.
        let continued = self.leading().filter(|_| self.begun);
        let objected = |j: usize| {
            let more = |at: usize| own(j, self.drafters[at]) > own(at, self.drafters[at]);
            continued.is_some_and(more)
        };
        for (j, &drafter) in self.drafters.iter().enumerate() {
            let early = self.early.get(j) == Some(&true);
            let unsure = || own(j, drafter).is_some_and(|nats| nats > settings.sure);
            if early && (unsure() || objected(j)) {
                self.discounted[j] = true;
            }
        }
        self.voices.clear();
        if self.ended.is_empty() || settings.confidence == 0.0 {
            return;
        }
        let voice = |nats: f64| (score::FLOOR + nats.max(SUREST)).powf(-settings.confidence);
        self.voices = vec![voice(UNFINISHED); chats.len()];
        for (j, &drafter) in self.drafters.iter().enumerate() {
            // A second candidate says nothing of how sure its drafter is.
            if self.is_second(j) {
                continue;
            }
            let ended = self.ended[j];
            if let Some(nats) = own(j, drafter).filter(|nats| ended && nats.is_finite()) {
                let terse = if chats[drafter] { 0.0 } else { TERSE };
                self.voices[drafter] = voice(nats + terse);
            }
        }
    }

    /// Weights of the vote, `[active]`, summing to 1.
    ///
    /// Each weight is multiplied by its starting weight (`start`) while a candidate of the
    /// strongest member continues the answer (`open`), and in every round after the first: only a
    /// part of the answer can be judged there, and members with short answers would have begun or
    /// ended otherwise. Unless the answer is `open`, a member that is sure of its own finished
    /// candidate counts more.
    pub fn heard(&self, weights: &[f64], start: impl Fn(usize) -> f64) -> Vec<f64> {
        let alike = (1..weights.len()).all(|position| start(position) == start(0));
        let part = (self.open || self.begun) && !alike;
        if !part && (self.open || self.voices.is_empty()) {
            return weights.to_vec();
        }
        let factor = |position: usize| {
            let trust = if part { start(position) } else { 1.0 };
            let voice = self.voices.get(position).filter(|_| !self.open);
            trust * voice.copied().unwrap_or(1.0)
        };
        let raised = weights.iter().enumerate();
        let raised: Vec<f64> = raised.map(|(at, weight)| weight * factor(at)).collect();
        let sum: f64 = raised.iter().sum();
        match sum > 0.0 {
            true => raised.iter().map(|weight| weight / sum).collect(),
            false => weights.to_vec(),
        }
    }

    /// Shares in which each candidate has the largest share of those that agree with it; `None` if
    /// no agreement is known.
    pub fn agreed(&self, shares: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
        let known = self.agreement.len() == self.drafters.len();
        known.then(|| agreement::agreed(shares, &self.agreement))
    }

    /// Clears the totals of candidates that the verifiers other than their drafter d do not prefer
    /// to a rival: of candidate j and its rival r, Σ_{i≠d} w_i·ŝ_ij ≤ f·Σ_{i≠d} w_i·ŝ_ir.
    ///
    /// - A second candidate's rival is its drafter's first, with f = SUPPORT: the drafter found the
    ///   first likelier where they part, so that only evidence of others can turn it. Without
    ///   this, a second wins by being short and likely after any question, as "Yes" is.
    /// - Where the strongest drafter's first candidate continues the answer, it is the rival of
    ///   each weaker member's that continues too: a member's liking for its own way to say
    ///   something does not decide who leads a long answer. f = SUPPORT in the first round, which
    ///   sets out how the rest is solved, so that a near tie does not decide it either; then 1.
    ///
    /// `shares`: `[verifiers][candidates]`; `weights`: `[verifiers]`.
    pub fn clear_unsupported(&self, totals: &mut [f64], shares: &[Vec<f64>], weights: &[f64]) {
        for (j, &drafter) in self.drafters.iter().enumerate() {
            let liked = |candidate: usize| -> f64 {
                let rows = shares.iter().zip(weights).enumerate();
                rows.filter(|&(verifier, (row, _))| verifier != drafter && !row.is_empty())
                    .map(|(_, (row, weight))| weight * row[candidate])
                    .sum()
            };
            let first = self.is_second(j).then(|| (j - 1, SUPPORT));
            let lead = if self.begun { 1.0 } else { SUPPORT };
            let leading = self.leading().filter(|_| self.weaker[j]);
            let mut rivals = first.into_iter().chain(leading.map(|at| (at, lead)));
            if rivals.any(|(rival, factor)| liked(j) <= factor * liked(rival)) {
                totals[j] = 0.0;
            }
        }
    }

    /// [`Ballot::continued`], unless it only repeats.
    fn leading(&self) -> Option<usize> {
        self.continued.filter(|&at| !self.discounted[at])
    }

    /// Multiplies the totals of discounted candidates by `factor`.
    pub fn discount(&self, totals: &mut [f64], factor: f64) {
        for (total, _) in totals.iter_mut().zip(&self.discounted).filter(|one| *one.1) {
            *total *= factor;
        }
    }
}
