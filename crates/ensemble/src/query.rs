//! The method's state over one query: who is in, with what weight, in which round.

use serde::{Deserialize, Serialize};

use crate::{
    Candidate, Feedback, MEMBERS, RoundError, Score, Selection, Settings, SettingsError, agreement,
    ballot::Ballot, exit::Quality, feedback, repetition::Said, score, select,
};

/// Nats of weighted mean surprise at which a member that leads by its part of the vote is doubted.
const UNSURE: f64 = 4.0;

/// Nats at which a member is as sure of its own answer as it can be, and those of one that has not
/// finished (see [`Settings::confidence`]).
const SUREST: f64 = 0.8;
const UNFINISHED: f64 = 2.0;

/// Nats by which a base model, which answers in a word, is surer than one that answers in a
/// sentence.
const TERSE: f64 = 1.0;

/// The part of another's starting weight from which on a member counts as strong as that.
const ALIKE: f64 = 0.9;

/// Why an answer is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Stop {
    /// The winner ended with an end-of-answer token.
    Ended,
    /// [`Settings::max_rounds`] rounds are over.
    Rounds,
    /// The answer has reached [`Settings::max_characters`].
    Length,
    /// The round added no text, so the next would draft from where this one did.
    Silence,
}

impl Stop {
    /// The name used in JSON: `ended`, `rounds`, `length` or `silence`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Rounds => "rounds",
            Self::Length => "length",
            Self::Silence => "silence",
        }
    }
}

/// One query, from equal weights to the end of its answer.
///
/// Members have indices from 0 for the whole query. Rows and weights go by **position among the
/// active members**: position `p` is member `active()[p]`. Until someone exits the two are the
/// same. Columns (candidates, counts, totals, winners) go by who has drafted, which are all active
/// members unless [`Query::drafted`] says otherwise: a leader alone, all but one that was late, or
/// all but a judge that never drafts. The row of a member that has not judged is empty.
///
/// In each round call `drafted`, where not all did; `normalise`; `feedback` and `select`, in the
/// order of [`Settings::update`]; `exit`; `stop`: each once. A round that [`Query::fast_winner`]
/// decided goes straight to `stop`; so does one in which [`Query::trusts`] takes the leader's
/// candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    settings: Settings,
    active: Vec<usize>,
    weights: Vec<f64>,
    /// The weights that the query began with, `[members]`.
    start: Vec<f64>,
    /// Which members chat, `[members]`; the others are base models.
    chats: Vec<bool>,
    /// The conversation, and the answer so far.
    said: Said,
    /// Positions of those who drafted this round's candidates.
    drafters: Vec<usize>,
    /// Which of the candidates agree; empty where their texts are not known.
    agreement: Vec<Vec<usize>>,
    /// Which of them end the answer; empty where their texts are not known.
    ended: Vec<bool>,
    /// How much each verifier is heard for being sure, `[active]`.
    voices: Vec<f64>,
    /// Which of them end the answer while a drafter at least as strong goes on.
    early: Vec<bool>,
    /// Which of them count for less.
    discounted: Vec<bool>,
    /// The strongest drafter's candidate is not at its end.
    open: bool,
    quality: Quality,
    /// The shares of this round's selection, until `exit` has counted them.
    selected: Option<Vec<Vec<f64>>>,
    /// The member that drafts for all, where one does.
    leader: usize,
    /// It has won, goes on, and has more than [`Settings::lead`] of the vote.
    leads: bool,
    /// Rounds that are over.
    rounds: usize,
    characters: usize,
}

impl Query {
    /// A query to `members` members with equal weights.
    ///
    /// # Errors
    /// [`SettingsError`] if `members` is not in [`MEMBERS`] or a setting is out of range.
    pub fn new(members: usize, settings: Settings) -> Result<Self, SettingsError> {
        if !MEMBERS.contains(&members) {
            return Err(SettingsError::Members(members));
        }
        settings.validate()?;
        Ok(Self {
            settings,
            active: (0..members).collect(),
            weights: vec![1.0 / members as f64; members],
            start: vec![1.0 / members as f64; members],
            chats: vec![true; members],
            said: Said::default(),
            drafters: (0..members).collect(),
            agreement: Vec::new(),
            ended: Vec::new(),
            voices: Vec::new(),
            early: Vec::new(),
            discounted: Vec::new(),
            open: false,
            quality: Quality::new(members),
            selected: None,
            leader: 0,
            leads: false,
            rounds: 0,
            characters: 0,
        })
    }

    /// Says how strong each member is, `[members]`, before the first round: numbers above 0 of
    /// which only ratios count ([`strength`](crate::strength) has them for models). NaN stands for
    /// a member of whom nothing is known, a model on somebody's server say; it counts as much as
    /// the strongest. Starting weights become w_i ∝ strength_i^[`trust`](Settings::trust), and the
    /// first of the strongest leads where one drafts for all. `chats` (`[members]`) is false for
    /// base models, which answer in a word and are surer of it for that ([`Settings::confidence`]).
    ///
    /// # Errors
    /// [`RoundError::Strengths`] for another number of members, or a strength that is not above 0.
    ///
    /// ```
    /// use conclave_ensemble::{Query, Settings};
    ///
    /// let mut query = Query::new(3, Settings { trust: 0.5, ..Settings::default() })?;
    /// query.trust(&[1.0, 4.0, f64::NAN], &[true, true, false])?;
    /// assert_eq!(query.weights(), [0.2, 0.4, 0.4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn trust(&mut self, strengths: &[f64], chats: &[bool]) -> Result<(), RoundError> {
        let members = self.active.len();
        let wrong =
            |strength: &f64| !strength.is_nan() && (*strength <= 0.0 || strength.is_infinite());
        let lengths = [strengths.len(), chats.len()];
        if lengths != [members; 2] || strengths.iter().any(wrong) {
            return Err(RoundError::Strengths { members });
        }
        chats.clone_into(&mut self.chats);
        let most = strengths.iter().copied().fold(f64::NAN, f64::max);
        let most = if most.is_nan() { 1.0 } else { most };
        // Over the largest, so that nothing overflows; what is as good as nothing keeps a little.
        let over = |&strength: &f64| {
            if strength.is_nan() {
                1.0
            } else {
                strength / most
            }
        };
        let raised = strengths.iter().map(over);
        let raised = raised.map(|one: f64| one.powf(self.settings.trust).max(f64::MIN_POSITIVE));
        let raised: Vec<f64> = raised.collect();
        let sum: f64 = raised.iter().sum();
        self.weights = raised.iter().map(|one| one / sum).collect();
        self.start.clone_from(&self.weights);
        let strongest = self.weights.iter().copied().fold(0.0, f64::max);
        let mut weights = self.weights.iter();
        self.leader = weights
            .position(|&one| one >= ALIKE * strongest)
            .unwrap_or(0);
        Ok(())
    }

    /// Says what was said so far, before the first round: the texts of the conversation's turns, of
    /// which the last is the question. See [`mod@crate::agreement`] and [`mod@crate::repetition`].
    pub fn ask<'a>(&mut self, turns: impl IntoIterator<Item = &'a str>) {
        self.said = Said::new(turns);
    }

    /// The settings it runs under.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The members still in, ascending: position → member.
    pub fn active(&self) -> &[usize] {
        &self.active
    }

    /// The weights, `[active]`, summing to 1.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// The round that runs now, k = 1, 2, ….
    pub fn round(&self) -> usize {
        self.rounds + 1
    }

    /// The position of the member that drafts alone now (see [`Leader`](crate::Leader) and
    /// [`Settings::lead`]); `None` where all draft. Where that one can't draft, all do.
    pub fn leader(&self) -> Option<usize> {
        if self.settings.leader.is_none() && !self.leads {
            return None;
        }
        let place = self.active.iter().position(|&member| member == self.leader);
        // Alone it has nobody to ask.
        place.filter(|_| self.active.len() > 1)
    }

    /// Says who has drafted which candidates in this round: positions, ascending, a candidate each,
    /// or no candidates where their texts are not known. May be said again in the round (once a
    /// leader is doubted, say); the next begins with all.
    ///
    /// # Errors
    /// [`RoundError::Drafters`]; who drafted is then as before.
    ///
    /// ```
    /// use conclave_ensemble::{Query, Score, Settings};
    ///
    /// let mut query = Query::new(3, Settings::default())?;
    /// // Member 1 was late, and has nothing to say of the others' either.
    /// query.drafted(&[0, 2], &[])?;
    /// let row = [Score::of_logprobs(&[-0.1, -0.2]), Score::of_logprobs(&[-4.0])].to_vec();
    /// let shares = query.normalise(&[row.clone(), vec![], row])?;
    /// assert_eq!(query.select(&shares)?.winner, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn drafted(
        &mut self,
        positions: &[usize],
        candidates: &[Candidate],
    ) -> Result<(), RoundError> {
        let members = self.active.len();
        let ascending = positions.is_sorted_by(|a, b| a < b);
        let told = candidates.is_empty() || candidates.len() == positions.len();
        if !ascending || !told || positions.last().is_none_or(|&last| last >= members) {
            return Err(RoundError::Drafters { members });
        }
        positions.clone_into(&mut self.drafters);
        self.agreement = agreement::agreement(candidates, self.said.question());
        self.discounted = candidates.iter().map(|one| self.said.has(one)).collect();
        self.ended = candidates.iter().map(|one| one.ended).collect();
        self.voices.clear();
        let strengths = positions.iter().map(|&at| self.start[self.active[at]]);
        let drafted: Vec<(f64, bool)> = strengths.zip(self.ended.iter().copied()).collect();
        let going_on = drafted.iter().filter(|(_, ended)| !ended);
        let going_on = going_on.fold(0.0, |most: f64, &(strength, _)| most.max(strength));
        let strongest = drafted
            .iter()
            .fold(0.0, |most: f64, &(strength, _)| most.max(strength));
        self.open = going_on > 0.0 && going_on >= ALIKE * strongest;
        let early = |&(strength, ended): &(f64, bool)| ended && ALIKE * strength <= going_on;
        self.early = drafted.iter().map(early).collect();
        Ok(())
    }

    /// Whether those that verify the leader's candidate (`scores`, `[active][1]`) take it as it is:
    /// none is surprised by more than [`Leader::doubt`](crate::Leader::doubt), or, where it leads
    /// by [`Settings::lead`], all together by no more than 4 nats in the weighted mean. Otherwise
    /// the others draft as well, and the round is one of all. One that abstains or has no
    /// log-probabilities has no say; where nobody but the leader has one, it is not taken.
    ///
    /// # Errors
    /// [`RoundError`] if a row is missing or has another length, or a score isn't finite.
    pub fn trusts(&self, scores: &[Vec<Score>]) -> Result<bool, RoundError> {
        self.fits(scores)?;
        let doubt = self.settings.leader.map(|leader| leader.doubt);
        let heard = self.heard();
        let (mut asked, mut doubted) = (false, false);
        // The weighted sum of surprises, and of the weights of those that have a say.
        let (mut nats, mut weight) = (0.0, 0.0);
        for (verifier, row) in scores.iter().enumerate() {
            for (candidate, score) in row.iter().enumerate() {
                let surprise = score.surprise();
                if score.harmonic.is_none() {
                    continue;
                }
                if !surprise.is_finite() {
                    return Err(RoundError::NotFinite {
                        verifier,
                        candidate,
                    });
                }
                asked |= verifier != self.drafters[candidate];
                doubted |= doubt.is_some_and(|doubt| surprise > doubt);
                (nats, weight) = (nats + heard[verifier] * surprise, weight + heard[verifier]);
            }
        }
        let unsure = doubt.is_none() && nats > UNSURE * weight;
        Ok(asked && !doubted && !unsure)
    }

    /// In fast mode, the first candidate that ends the answer: it wins at once, unverified.
    /// `None` otherwise.
    pub fn fast_winner(&self, candidates: &[Candidate]) -> Option<usize> {
        if !self.settings.fast {
            return None;
        }
        candidates.iter().position(|candidate| candidate.ended)
    }

    /// Scores (`[active][candidates]`, an empty row where a member abstains) to shares of the same
    /// shape, each row positive and summing to 1 (Eq. 3; see [`crate::score`]).
    ///
    /// # Errors
    /// [`RoundError`] if `scores` doesn't have that shape, a row is of mixed kinds or a score isn't
    /// finite.
    pub fn normalise(&mut self, scores: &[Vec<Score>]) -> Result<Vec<Vec<f64>>, RoundError> {
        self.fits(scores)?;
        self.hear_the_sure(scores);
        for (j, _) in self.early.iter().enumerate().filter(|(_, early)| **early) {
            // An empty row abstains, on its own candidate as well.
            let own = scores[self.drafters[j]].get(j);
            if own.is_some_and(|score| score.surprise() > self.settings.sure) {
                self.discounted[j] = true;
            }
        }
        let rows = scores.iter().enumerate();
        rows.map(|(verifier, row)| score::shares(self.settings.scoring, verifier, row))
            .collect()
    }

    /// How much each verifier is heard for being sure of what it has drafted (see
    /// [`Settings::confidence`]). Without that it is no more and no less sure than others.
    fn hear_the_sure(&mut self, scores: &[Vec<Score>]) {
        self.voices.clear();
        if self.ended.is_empty() || self.settings.confidence == 0.0 {
            return;
        }
        let voice = |nats: f64| (score::FLOOR + nats.max(SUREST)).powf(-self.settings.confidence);
        let mut voices = vec![voice(UNFINISHED); self.active.len()];
        for (j, &drafter) in self.drafters.iter().enumerate() {
            let ended = self.ended.get(j) == Some(&true);
            let own = scores[drafter].get(j).map(Score::surprise);
            if let Some(nats) = own.filter(|nats| ended && nats.is_finite()) {
                let chats = self.chats[self.active[drafter]];
                voices[drafter] = voice(if chats { nats } else { nats + TERSE });
            }
        }
        self.voices = voices;
    }

    /// Updates the weights by this round's `shares` (Eq. 5; see [`crate::feedback`]).
    ///
    /// # Errors
    /// [`RoundError`] if `shares` doesn't have the shape of the scores, or holds a value that is
    /// negative or not finite. The weights are then as before.
    pub fn feedback(&mut self, shares: &[Vec<f64>]) -> Result<Feedback, RoundError> {
        let ballot = self.ballot(shares)?;
        let feedback = feedback::feedback(&self.settings, self.round(), &ballot, &self.weights);
        self.weights.clone_from(&feedback.weights);
        Ok(feedback)
    }

    /// The winner by the present weights (Eq. 4; see [`crate::select`]).
    ///
    /// # Errors
    /// As [`Query::feedback`].
    pub fn select(&mut self, shares: &[Vec<f64>]) -> Result<Selection, RoundError> {
        self.ballot(shares)?;
        let best;
        let agreed = if self.settings.agree && self.agreement.len() == self.drafters.len() {
            best = agreement::agreed(shares, &self.agreement);
            best.as_slice()
        } else {
            shares
        };
        let (weights, votes) = (self.heard(), self.settings.votes());
        let totals = |shares: &[Vec<f64>], weights: &[f64]| {
            let ballot = Ballot {
                shares,
                drafters: &self.drafters,
            };
            let mut totals = select::totals(&ballot, weights, votes);
            let discounted = totals.iter_mut().zip(&self.discounted);
            for (total, _) in discounted.filter(|(_, discounted)| **discounted) {
                *total *= self.settings.discount;
            }
            totals
        };
        let liked = totals(agreed, &weights);
        // The winner's form is the best liked among candidates that agree.
        let winner = select::winner_among(&liked, &totals(shares, &weights));
        let judged = Ballot {
            shares: agreed,
            drafters: &self.drafters,
        };
        let without = |weights: &[f64]| select::winner(&totals(agreed, weights));
        let turned_by = select::turned_by(&judged, &weights, winner, without);
        let totals = liked;
        self.selected = Some(shares.to_vec());
        let writer = self.drafters[winner];
        self.leader = self.active[writer];
        self.leads = self.open && weights[writer] > self.settings.lead;
        Ok(Selection {
            totals,
            winner,
            turned_by,
        })
    }

    /// The weights of the vote, `[active]`, summing to 1: who is sure of its own finished answer is
    /// heard the more ([`Settings::confidence`]). While the strongest member's candidate is not at
    /// its end, strength counts twice: a candidate that goes on is judged by its beginning, where
    /// those who would have answered shortly see only that they would not have begun so.
    fn heard(&self) -> Vec<f64> {
        if !self.open && self.voices.is_empty() {
            return self.weights.clone();
        }
        let raise = |(place, weight): (usize, &f64)| {
            let voice = || self.voices.get(place).copied().unwrap_or(1.0);
            weight
                * if self.open {
                    self.start[self.active[place]]
                } else {
                    voice()
                }
        };
        let raised: Vec<f64> = self.weights.iter().enumerate().map(raise).collect();
        let sum: f64 = raised.iter().sum();
        match sum > 0.0 {
            true => raised.iter().map(|weight| weight / sum).collect(),
            false => self.weights.clone(),
        }
    }

    /// The members (indices, not positions) that leave after this round, whose winner is the
    /// candidate `winner`; they are out from here on and the others' weights are renormalised.
    /// Empty without [`Settings::exit`]. See [`crate::exit`].
    ///
    /// # Errors
    /// [`RoundError::Winner`] if there is no such candidate.
    pub fn exit(&mut self, winner: usize) -> Result<Vec<usize>, RoundError> {
        let Some(&writer) = self.drafters.get(winner) else {
            return Err(RoundError::Winner {
                winner,
                candidates: self.drafters.len(),
            });
        };
        let Some(exit) = self.settings.exit else {
            return Ok(Vec::new());
        };
        if let Some(shares) = self.selected.take() {
            self.quality.add(&Ballot {
                shares: &shares,
                drafters: &self.drafters,
            });
        }
        let leaving: Vec<usize> = self
            .quality
            .leavers(&exit, writer)
            .into_iter()
            .map(|position| self.active[position])
            .collect();
        self.leave(&leaving)?;
        Ok(leaving)
    }

    /// Takes members (indices) out of the query, for a reason outside the method (a model that
    /// failed, say). Those that are out already are passed over. The round begins anew: all draft.
    ///
    /// # Errors
    /// [`RoundError::Nobody`] if none would be left; all then stay.
    pub fn leave(&mut self, members: &[usize]) -> Result<(), RoundError> {
        let stays: Vec<bool> = self
            .active
            .iter()
            .map(|member| !members.contains(member))
            .collect();
        if stays.iter().all(|&stays| stays) {
            return Ok(());
        }
        if !stays.contains(&true) {
            return Err(RoundError::Nobody);
        }
        self.quality.retain(&stays);
        let both = self.active.iter().zip(&self.weights).zip(&stays);
        (self.active, self.weights) = both
            .filter(|&(_, &stays)| stays)
            .map(|((&member, &weight), _)| (member, weight))
            .unzip();
        if !self.active.contains(&self.leader) {
            (self.leader, self.leads) = (self.active[0], false);
        }
        let sum: f64 = self.weights.iter().sum();
        let even = 1.0 / self.weights.len() as f64;
        for weight in &mut self.weights {
            // All the weight may have left with the others.
            *weight = if sum > 0.0 { *weight / sum } else { even };
        }
        self.selected = None;
        self.all_draft();
        Ok(())
    }

    /// Ends the round with its `winner` and says whether that ends the answer.
    pub fn stop(&mut self, winner: &Candidate) -> Option<Stop> {
        self.next_round();
        self.said.push(&winner.text);
        self.characters = self.characters.saturating_add(winner.text.chars().count());
        if winner.ended {
            Some(Stop::Ended)
        } else if winner.text.is_empty() {
            Some(Stop::Silence)
        } else if self.characters >= self.settings.max_characters {
            Some(Stop::Length)
        } else if self.rounds >= self.settings.max_rounds {
            Some(Stop::Rounds)
        } else {
            None
        }
    }

    /// Ends the round without asking whether the answer is over.
    pub(crate) fn next_round(&mut self) {
        self.rounds += 1;
        self.selected = None;
        self.all_draft();
    }

    fn all_draft(&mut self) {
        self.drafters = (0..self.active.len()).collect();
        self.agreement.clear();
        self.ended.clear();
        self.voices.clear();
        self.early.clear();
        self.discounted.clear();
        self.open = false;
    }

    /// A row for every active member, each of all candidates or empty.
    fn fits<T>(&self, rows: &[Vec<T>]) -> Result<(), RoundError> {
        let (members, candidates) = (self.active.len(), self.drafters.len());
        if rows.len() != members {
            return Err(RoundError::Rows {
                found: rows.len(),
                members,
            });
        }
        let fits = |row: &Vec<T>| row.is_empty() || row.len() == candidates;
        match rows.iter().position(|row| !fits(row)) {
            None => Ok(()),
            Some(verifier) => Err(RoundError::Row {
                verifier,
                found: rows[verifier].len(),
                candidates,
            }),
        }
    }

    fn ballot<'a>(&'a self, shares: &'a [Vec<f64>]) -> Result<Ballot<'a>, RoundError> {
        self.fits(shares)?;
        for (verifier, row) in shares.iter().enumerate() {
            if let Some(candidate) = row.iter().position(|&share| !(0.0..=1.0).contains(&share)) {
                return Err(RoundError::NotAShare {
                    verifier,
                    candidate,
                });
            }
        }
        Ok(Ballot {
            shares,
            drafters: &self.drafters,
        })
    }
}
