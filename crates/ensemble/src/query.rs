//! The method's state over one query: who is in, with what weight, in which round.

use serde::{Deserialize, Serialize};

use crate::{
    Candidate, Feedback, MEMBERS, RoundError, Score, Selection, Settings, SettingsError,
    exit::Quality, feedback, score, select,
};

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
/// Members have indices from 0 for the whole query. Everything else (rows, columns, candidates,
/// counts, weights, winners) goes by **position among the active members**: position `p` is
/// member `active()[p]`. Until someone exits the two are the same. Only what a leader drafts alone
/// is a column of its own.
///
/// In each round call `normalise`; `feedback` and `select`, in the order of
/// [`Settings::update`]; `exit`; `stop`: each once. A round that [`Query::fast_winner`] decided
/// goes straight to `stop`; so does one in which [`Query::trusts`] takes the leader's candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    settings: Settings,
    active: Vec<usize>,
    weights: Vec<f64>,
    quality: Quality,
    /// The shares of this round's selection, until `exit` has counted them.
    selected: Option<Vec<Vec<f64>>>,
    /// The member that drafts for all, where one does.
    leader: usize,
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
            quality: Quality::new(members),
            selected: None,
            leader: 0,
            rounds: 0,
            characters: 0,
        })
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

    /// The position of the member that drafts alone now (see [`Leader`](crate::Leader)); `None`
    /// where all draft.
    pub fn leader(&self) -> Option<usize> {
        self.settings.leader?;
        let place = self.active.iter().position(|&member| member == self.leader);
        // Alone it has nobody to ask.
        place.filter(|_| self.active.len() > 1)
    }

    /// Whether all verifiers (`scores`, `[active]`, of the leader's candidate) take it as it is: none
    /// is surprised by more than [`Leader::doubt`](crate::Leader::doubt). Otherwise the others draft
    /// as well, and the round is one of all.
    ///
    /// # Errors
    /// [`RoundError`] if there is not a score of every active member, or one isn't finite.
    pub fn trusts(&self, scores: &[Score]) -> Result<bool, RoundError> {
        if scores.len() != self.active.len() {
            return Err(RoundError::Rows {
                found: scores.len(),
                members: self.active.len(),
            });
        }
        let surprises: Vec<f64> = scores.iter().map(Score::surprise).collect();
        if let Some(verifier) = surprises.iter().position(|surprise| !surprise.is_finite()) {
            return Err(RoundError::NotFinite {
                verifier,
                candidate: 0,
            });
        }
        let doubt = self.settings.leader.map_or(0.0, |leader| leader.doubt);
        Ok(surprises.iter().all(|&surprise| surprise <= doubt))
    }

    /// In fast mode, the first candidate that ends the answer: it wins at once, unverified.
    /// `None` otherwise.
    pub fn fast_winner(&self, candidates: &[Candidate]) -> Option<usize> {
        if !self.settings.fast {
            return None;
        }
        candidates.iter().position(|candidate| candidate.ended)
    }

    /// Scores (`[active verifiers][their candidates]`) to shares of the same shape, each row
    /// positive and summing to 1 (Eq. 3; see [`crate::score`]).
    ///
    /// # Errors
    /// [`RoundError`] if `scores` isn't square over the active members or a score isn't finite.
    pub fn normalise(&self, scores: &[Vec<Score>]) -> Result<Vec<Vec<f64>>, RoundError> {
        self.square(scores)?;
        let scoring = self.settings.scoring;
        scores
            .iter()
            .enumerate()
            .map(|(verifier, row)| {
                let row: Vec<f64> = row.iter().map(|score| score.of(scoring)).collect();
                score::normalise(scoring, verifier, &row)
            })
            .collect()
    }

    /// Updates the weights by this round's `shares` (Eq. 5; see [`crate::feedback`]).
    ///
    /// # Errors
    /// [`RoundError`] if `shares` isn't square over the active members, or holds a value that is
    /// negative or not finite. The weights are then as before.
    pub fn feedback(&mut self, shares: &[Vec<f64>]) -> Result<Feedback, RoundError> {
        self.shares(shares)?;
        let feedback = feedback::feedback(&self.settings, self.round(), shares, &self.weights);
        self.weights.clone_from(&feedback.weights);
        Ok(feedback)
    }

    /// The winner by the present weights (Eq. 4; see [`crate::select`]).
    ///
    /// # Errors
    /// As [`Query::feedback`].
    pub fn select(&mut self, shares: &[Vec<f64>]) -> Result<Selection, RoundError> {
        self.shares(shares)?;
        let totals = select::totals(shares, &self.weights, self.settings.votes());
        let winner = select::winner(&totals);
        self.selected = Some(shares.to_vec());
        self.leader = self.active[winner];
        Ok(Selection { totals, winner })
    }

    /// The members (indices, not positions) that leave after this round, whose winner has
    /// position `winner`; they are out from here on and the others' weights are renormalised.
    /// Empty without [`Settings::exit`]. See [`crate::exit`].
    ///
    /// # Errors
    /// [`RoundError::Winner`] if there is no such candidate.
    pub fn exit(&mut self, winner: usize) -> Result<Vec<usize>, RoundError> {
        if winner >= self.active.len() {
            return Err(RoundError::Winner {
                winner,
                candidates: self.active.len(),
            });
        }
        let Some(exit) = self.settings.exit else {
            return Ok(Vec::new());
        };
        if let Some(shares) = self.selected.take() {
            self.quality.add(&shares);
        }
        let leaving: Vec<usize> = self
            .quality
            .leavers(&exit, winner)
            .into_iter()
            .map(|position| self.active[position])
            .collect();
        self.leave(&leaving)?;
        Ok(leaving)
    }

    /// Takes members (indices) out of the query, for a reason outside the method (a model that
    /// failed, say). Those that are out already are passed over.
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
            self.leader = self.active[0];
        }
        let sum: f64 = self.weights.iter().sum();
        let even = 1.0 / self.weights.len() as f64;
        for weight in &mut self.weights {
            // All the weight may have left with the others.
            *weight = if sum > 0.0 { *weight / sum } else { even };
        }
        self.selected = None;
        Ok(())
    }

    /// Ends the round with its `winner` and says whether that ends the answer.
    pub fn stop(&mut self, winner: &Candidate) -> Option<Stop> {
        self.next_round();
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
    }

    fn square<T>(&self, rows: &[Vec<T>]) -> Result<(), RoundError> {
        let members = self.active.len();
        if rows.len() != members {
            return Err(RoundError::Rows {
                found: rows.len(),
                members,
            });
        }
        match rows.iter().position(|row| row.len() != members) {
            None => Ok(()),
            Some(verifier) => Err(RoundError::Row {
                verifier,
                found: rows[verifier].len(),
                members,
            }),
        }
    }

    fn shares(&self, shares: &[Vec<f64>]) -> Result<(), RoundError> {
        self.square(shares)?;
        for (verifier, row) in shares.iter().enumerate() {
            if let Some(candidate) = row.iter().position(|&share| !(0.0..=1.0).contains(&share)) {
                return Err(RoundError::NotAShare {
                    verifier,
                    candidate,
                });
            }
        }
        Ok(())
    }
}
