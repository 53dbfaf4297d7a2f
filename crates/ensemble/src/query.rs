//! State of the method over one query: active members, weights, round.

use crate::{
    Candidate, Feedback, MEMBERS, RoundError, Score, Selection, Settings, SettingsError, Stop,
    agreement,
    ballot::{ALIKE, Ballot},
    exit::Quality,
    feedback,
    repetition::{RUN, Said},
    score, select,
    vote::Vote,
};

/// Limit in nats on the weighted mean surprise at a candidate of a member that leads by
/// [`Settings::lead`]; above it the candidate is doubted.
const UNSURE: f64 = 4.0;

/// One query, from equal weights to the end of its answer.
///
/// Members have indices from 0 for the whole query. Rows and weights go by **position among the
/// active members**: position `p` is member `active()[p]`. Until a member exits the two are equal.
/// Columns (candidates, counts, totals, winners) go by drafter: all active members unless
/// [`Query::drafted`] says otherwise (a leader alone, all but a late member, all but a judge that
/// never drafts). The row of a member that has not judged is empty.
///
/// In each round call, once each: `drafted`, if not all did; `normalise`; `feedback` and `select`,
/// in the order of [`Settings::update`]; `exit`; `stop`. A round that [`Query::fast_winner`]
/// decided goes straight to `stop`; so does one in which [`Query::trusts`] accepts the leader's
/// candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    settings: Settings,
    active: Vec<usize>,
    weights: Vec<f64>,
    /// Starting weights, `[members]`.
    start: Vec<f64>,
    /// Members that chat, `[members]`; the others are base models.
    chats: Vec<bool>,
    /// The conversation, and the answer so far.
    said: Said,
    ballot: Ballot,
    quality: Quality,
    /// Shares of this round's selection, until `exit` has counted them.
    selected: Option<Vec<Vec<f64>>>,
    /// Member that drafts for all, if one does.
    leader: usize,
    /// Whether the leader's candidate has won, has not ended the answer, and has more than
    /// [`Settings::lead`] of the vote.
    leads: bool,
    /// Number of rounds that are over.
    rounds: usize,
    /// Number of the last rounds, in a row, in which every candidate only repeats.
    repeats: usize,
    characters: usize,
}

impl Query {
    /// Query to `members` members with equal weights.
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
            ballot: Ballot::of_all(members),
            quality: Quality::new(members),
            selected: None,
            leader: 0,
            leads: false,
            rounds: 0,
            repeats: 0,
            characters: 0,
        })
    }

    /// Sets each member's strength, `[members]`, before the first round: numbers above 0 of which
    /// only ratios count ([`strength`](crate::strength) computes them for models). NaN stands for a
    /// member of unknown strength, such as a model on another's server; it counts as the strongest.
    /// Starting weights become w_i ∝ strength_i^[`trust`](Settings::trust), and the first of the
    /// strongest leads where one drafts for all. `chats` (`[members]`) is false for base models,
    /// which answer in a word and are surer of it for that ([`Settings::confidence`]).
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
        // Divided by the largest, so that nothing overflows; a vanishing strength keeps a little.
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

    /// Sets the conversation before the first round: the texts of its turns, the last being the
    /// question. See [`mod@crate::agreement`] and [`mod@crate::repetition`].
    pub fn ask<'a>(&mut self, turns: impl IntoIterator<Item = &'a str>) {
        if self.settings.reads() {
            self.said = Said::new(turns);
        }
    }

    /// Appends to the answer so far a text that no round of this query has chosen: the beginning
    /// that the asker wrote, or a recorded segment. It counts towards no limit.
    pub fn begin(&mut self, text: &str) {
        if self.settings.reads() {
            self.said.push(text);
        }
    }

    /// Settings of the query.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Members still active, ascending: position → member.
    pub fn active(&self) -> &[usize] {
        &self.active
    }

    /// Weights, `[active]`, summing to 1.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// Current round, k = 1, 2, ….
    pub fn round(&self) -> usize {
        self.rounds + 1
    }

    /// Position of the member that drafts alone now (see [`Leader`](crate::Leader) and
    /// [`Settings::lead`]); `None` if all draft, also when the leader is no longer active.
    pub fn leader(&self) -> Option<usize> {
        if self.settings.leader.is_none() && !self.leads {
            return None;
        }
        let place = self.active.iter().position(|&member| member == self.leader);
        // A single member has no verifiers to ask.
        place.filter(|_| self.active.len() > 1)
    }

    /// Position of the strongest member, if it may answer without the others now
    /// ([`Settings::alone`]).
    pub fn strongest(&self) -> Option<usize> {
        let first = self.rounds == 0 && self.said.asked() && self.leader().is_none();
        if self.settings.alone == 0.0 || self.settings.fast || !first {
            return None;
        }
        let start = |place: usize| self.start[self.active[place]];
        let places = 0..self.active.len();
        let place = places
            .clone()
            .find(|&place| self.active[place] == self.leader)?;
        let weaker = |other: usize| other == place || start(other) < ALIKE * start(place);
        (self.active.len() > 1 && places.into_iter().all(weaker)).then_some(place)
    }

    /// Whether `candidate`, of the strongest member, may become the answer without a vote: it has
    /// text, ends the answer, does not only repeat, and adds to the conversation.
    pub fn may_end(&self, candidate: &Candidate) -> bool {
        let ends = candidate.ended && !candidate.text.is_empty();
        ends && !self.said.has(candidate, RUN) && self.said.adds(candidate)
    }

    /// Whether a member with this score of its own candidate is sure of it ([`Settings::alone`]).
    pub fn certain(&self, own: &Score) -> bool {
        own.harmonic.is_some() && own.surprise() <= self.settings.alone
    }

    /// Sets the drafters of this round's candidates: positions, ascending, one per candidate (twice
    /// for a member that drafted two); `candidates` is empty if their texts are not known. May be
    /// called again in a round (after a leader is doubted, say); the next round begins with all.
    ///
    /// # Errors
    /// [`RoundError::Drafters`]; the drafters are then as before.
    ///
    /// ```
    /// use conclave_ensemble::{Query, Score, Settings};
    ///
    /// let mut query = Query::new(3, Settings::default())?;
    /// // Member 1 was late, and does not score the others' candidates either.
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
        let ascending = positions.is_sorted();
        let told = candidates.is_empty() || candidates.len() == positions.len();
        if !ascending || !told || positions.last().is_none_or(|&last| last >= members) {
            return Err(RoundError::Drafters { members });
        }
        let strengths = positions.iter().map(|&at| self.start[self.active[at]]);
        self.ballot = Ballot::new(positions, candidates, strengths, &self.said, &self.settings);
        Ok(())
    }

    /// Whether each of these candidates is put to the vote. All are, unless
    /// [`Settings::ended_only`] is set and a candidate of the strongest member ends the answer.
    /// Then a candidate of a weaker member needs to end the answer too, or to agree with one that
    /// does. `positions` as for [`Query::drafted`].
    pub fn stands(&self, positions: &[usize], candidates: &[Candidate]) -> Vec<bool> {
        let strength = |&at: &usize| self.start[self.active[at]];
        let strongest = positions.iter().map(strength).fold(0.0, f64::max);
        let strong = |j: usize| strength(&positions[j]) > ALIKE * strongest;
        let all = 0..candidates.len();
        let over = all.clone().any(|j| candidates[j].ended && strong(j));
        if !self.settings.ended_only || !over {
            return vec![true; candidates.len()];
        }
        let agreement = agreement::agreement(candidates, self.said.question());
        let ends = |j: usize| agreement[j].iter().any(|&one| candidates[one].ended);
        all.map(|j| strong(j) || ends(j)).collect()
    }

    /// Whether the verifiers of the leader's candidate (`scores`, `[active][1]`) accept it: none is
    /// surprised by more than [`Leader::doubt`](crate::Leader::doubt), or, if it leads by
    /// [`Settings::lead`], their weighted mean surprise is at most 4 nats. Otherwise the others
    /// draft too, and the round is one of all. A verifier that abstains or has no log-probabilities
    /// has no say; if only the leader has one, the candidate is not accepted.
    ///
    /// # Errors
    /// [`RoundError`] if a row is missing or has another length, or a score isn't finite.
    pub fn trusts(&self, scores: &[Vec<Score>]) -> Result<bool, RoundError> {
        self.fits(scores)?;
        let doubt = self.settings.leader.map(|leader| leader.doubt);
        let heard = self.heard();
        let (mut asked, mut doubted) = (false, false);
        // Weighted sum of surprises, and sum of the weights of those that have a say.
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
                asked |= verifier != self.ballot.drafters[candidate];
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

    /// Normalises scores (`[active][candidates]`, an empty row if a member abstains) to shares of
    /// the same shape, each row positive and summing to 1 (Eq. 3; see [`crate::score`]).
    ///
    /// # Errors
    /// [`RoundError`] if `scores` doesn't have that shape, a row is of mixed kinds or a score isn't
    /// finite.
    pub fn normalise(&mut self, scores: &[Vec<Score>]) -> Result<Vec<Vec<f64>>, RoundError> {
        self.fits(scores)?;
        let chats = self.active.iter().map(|&member| self.chats[member]);
        let chats: Vec<bool> = chats.collect();
        self.ballot.hear_drafters(scores, &chats, &self.settings);
        let rows = scores.iter().enumerate();
        rows.map(|(verifier, row)| score::shares(self.settings.scoring, verifier, row))
            .collect()
    }

    /// Updates the weights by this round's `shares` (Eq. 5; see [`crate::feedback`]).
    ///
    /// # Errors
    /// [`RoundError`] if `shares` doesn't have the shape of the scores, or a value is negative or
    /// not finite. The weights are then as before.
    pub fn feedback(&mut self, shares: &[Vec<f64>]) -> Result<Feedback, RoundError> {
        let vote = self.vote(shares)?;
        let feedback = feedback::feedback(&self.settings, self.round(), &vote, &self.weights);
        self.weights.clone_from(&feedback.weights);
        Ok(feedback)
    }

    /// Selects the winner by the present weights (Eq. 4; see [`crate::select`]).
    ///
    /// # Errors
    /// As [`Query::feedback`].
    pub fn select(&mut self, shares: &[Vec<f64>]) -> Result<Selection, RoundError> {
        self.vote(shares)?;
        let best = self.ballot.agreed(shares);
        let agreed = best.as_deref().unwrap_or(shares);
        let (weights, votes) = (self.heard(), self.settings.votes());
        let drafters = &self.ballot.drafters;
        let totals = |counted: &[Vec<f64>], weights: &[f64]| {
            let vote = Vote {
                shares: counted,
                drafters,
            };
            let mut totals = select::totals(&vote, weights, votes);
            self.ballot.discount(&mut totals, self.settings.discount);
            self.ballot.clear_unsupported(&mut totals, shares, weights);
            totals
        };
        let liked = totals(agreed, &weights);
        // Among candidates that agree, the best liked form wins.
        let winner = select::winner_among(&liked, &totals(shares, &weights));
        let judged = Vote {
            shares: agreed,
            drafters,
        };
        let without = |weights: &[f64]| select::winner(&totals(agreed, weights));
        let turned_by = select::turned_by(&judged, &weights, winner, without);
        let writer = drafters[winner];
        self.selected = Some(shares.to_vec());
        self.leader = self.active[writer];
        self.leads = self.ballot.open && weights[writer] > self.settings.lead;
        Ok(Selection {
            totals: liked,
            winner,
            turned_by,
        })
    }

    fn heard(&self) -> Vec<f64> {
        let start = |position: usize| self.start[self.active[position]];
        self.ballot.heard(&self.weights, start)
    }

    /// Members (indices, not positions) that leave after this round, whose winner is the candidate
    /// `winner`. They are removed and the others' weights renormalised. Empty without
    /// [`Settings::exit`]. See [`crate::exit`].
    ///
    /// # Errors
    /// [`RoundError::Winner`] if there is no such candidate.
    pub fn exit(&mut self, winner: usize) -> Result<Vec<usize>, RoundError> {
        let Some(&writer) = self.ballot.drafters.get(winner) else {
            return Err(RoundError::Winner {
                winner,
                candidates: self.ballot.drafters.len(),
            });
        };
        let Some(exit) = self.settings.exit else {
            return Ok(Vec::new());
        };
        if let Some(shares) = self.selected.take() {
            self.quality.add(&Vote {
                shares: &shares,
                drafters: &self.ballot.drafters,
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

    /// Removes members (indices) for a reason outside the method, such as a failure; those already
    /// removed are skipped. The round begins anew: all draft.
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

    /// Whether this candidate only repeats the conversation, the answer or itself (see
    /// [`mod@crate::repetition`]); false without [`Settings::discount`].
    pub fn repeats(&self, candidate: &Candidate) -> bool {
        self.settings.discounts() && self.said.has(candidate, RUN)
    }

    /// Whether the answer goes in a circle: each of these candidates only repeats and does not end
    /// the answer, and one more such round in a row would end it ([`Settings::max_repeats`]).
    pub fn circles(&self, candidates: &[Candidate]) -> bool {
        let again = |one: &Candidate| !one.ended && self.repeats(one);
        self.repeats + 2 >= self.settings.max_repeats && candidates.iter().all(again)
    }

    /// Ends the round with its `winner`; returns the reason if that ends the answer.
    pub fn stop(&mut self, winner: &Candidate) -> Option<Stop> {
        self.repeats = if self.ballot.repeats {
            self.repeats + 1
        } else {
            0
        };
        self.next_round();
        if self.settings.reads() {
            self.said.push(&winner.text);
        }
        self.characters = self.characters.saturating_add(winner.text.chars().count());
        if winner.ended {
            Some(Stop::Ended)
        } else if winner.text.is_empty() {
            Some(Stop::Silence)
        } else if self.repeats >= self.settings.max_repeats {
            Some(Stop::Repetition)
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
        self.ballot = Ballot::of_all(self.active.len());
    }

    /// Checks for a row per active member, each of all candidates or empty.
    fn fits<T>(&self, rows: &[Vec<T>]) -> Result<(), RoundError> {
        let (members, candidates) = (self.active.len(), self.ballot.drafters.len());
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

    fn vote<'a>(&'a self, shares: &'a [Vec<f64>]) -> Result<Vote<'a>, RoundError> {
        self.fits(shares)?;
        for (verifier, row) in shares.iter().enumerate() {
            if let Some(candidate) = row.iter().position(|&share| !(0.0..=1.0).contains(&share)) {
                return Err(RoundError::NotAShare {
                    verifier,
                    candidate,
                });
            }
        }
        Ok(Vote {
            shares,
            drafters: &self.ballot.drafters,
        })
    }
}
