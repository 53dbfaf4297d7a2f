//! The rounds of one answer as a state machine: [`Rounds::next`] takes the members' results of the
//! last move and returns the next one. Drivers only run the members; the choice of drafters and
//! verifiers, limits, endings, abstentions, failures and their attribution are here.
//!
//! A round, with the paper's steps:
//!
//! 1. [`Move::Draft`]: all members that draft, or the leader alone.
//! 2. Drafts are cut to whole words. Fast mode accepts one that ends the answer unverified.
//! 3. [`Move::Verify`]: every active member scores all candidates. A leader's candidate that no
//!    member doubts is kept without a vote; otherwise the others draft too, and all verify anew.
//!    So it is with the strongest member's first draft, which it verifies by itself.
//!    A leader's candidate that only repeats is doubted unverified; if all candidates repeat and
//!    one more such round would end the answer, all draft anew, and from then on what is new in it.
//! 4. Shares, feedback and selection (4 to 6) are computed between the moves.
//! 5. [`Move::Keep`]: every active member appends the winner to its text.
//! 6. Exit and stop (7 and 8), reported by [`Move::Round`]; then the next round, or [`Move::Done`].
//!
//! A member that fails before the winner is kept leaves ([`Move::Leave`]), and the others restart
//! the round; one that fails only in keeping it leaves after the round. If members share a device,
//! its errors surface at the first read-back, whichever member caused them: the round is then
//! replayed one member after the other (`in_turn`) to attribute the error.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::ending::Ending;
use crate::report::Round;
use crate::{Candidate, Draft, Limits, Query, RoundError, Score, Stop, Update, VerifiedScore};

/// Task of the members. Members are indices.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(
    tag = "kind",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum Move {
    /// Each of `members` drafts at most `tokens` of its tokens.
    Draft {
        /// Drafters, ascending.
        members: Vec<usize>,
        /// Maximum tokens of a draft.
        tokens: usize,
        /// Margin below which a member drafts a second candidate ([`Settings::branch`]); 0 for
        /// none.
        ///
        /// [`Settings::branch`]: crate::Settings::branch
        branch: f64,
        /// Whether drafts must not repeat a run of tokens of the answer so far: set once its last
        /// rounds have only repeated.
        novel: bool,
        /// Whether members draft one after the other, until one fails.
        in_turn: bool,
    },
    /// Each of `members` scores all candidates.
    Verify {
        /// The active members, ascending, or the strongest alone.
        members: Vec<usize>,
        /// Candidates, ascending by drafter.
        candidates: Vec<Candidate>,
        /// Whether members verify one after the other, until one fails.
        in_turn: bool,
    },
    /// Each of `members` appends the candidate `winner` of the last verification to its text.
    Keep {
        /// The active members, ascending; the strongest alone, if that ends the answer without the
        /// others.
        members: Vec<usize>,
        /// Index into the candidates.
        winner: usize,
    },
    /// A round is over; members in [`Round::exited`] release their resources.
    Round {
        /// Its report.
        round: Box<Round>,
    },
    /// A failed member leaves the answer to the others, and releases its resources.
    Leave {
        /// The member.
        member: usize,
        /// The round in which it failed.
        round: usize,
    },
    /// The last member failed: the answer fails with its error.
    Fail {
        /// The member.
        member: usize,
    },
    /// The answer is over.
    Done {
        /// Reason.
        stop: Stop,
    },
}

/// Results of the members' last move.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Event {
    /// Members may draft, or have failed to read the conversation, before the first move.
    Begun {
        /// Whether each member drafts; the others only judge.
        drafts: Vec<bool>,
        /// Members that have failed since.
        #[serde(default)]
        failed: Vec<Failed>,
    },
    /// Drafts, in the order of [`Move::Draft`]; `None` for a member that abstains.
    Drafted(Vec<Option<Draft>>),
    /// Scores, `[members][candidates]`; an empty row for a member that abstains.
    Verified(Vec<Vec<VerifiedScore>>),
    /// All members have kept the winner.
    Kept,
    /// Members that failed in the last move, ascending; after [`Move::Keep`] the others have kept
    /// the winner.
    Failed(Vec<Failed>),
    /// [`Move::Round`] or [`Move::Leave`] has been handled.
    Next,
    /// The caller stops the answer; the current round is discarded.
    Stopped,
}

/// A member that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The member.
    pub member: usize,
    /// Kind of failure.
    pub kind: Failure,
}

/// Kinds of failures that are handled differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Failure {
    /// Its context is full: if it is the last member, an answer that has begun ends.
    ContextFull,
    /// The device that members may share refused work.
    Device,
    /// Anything else.
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    New,
    Drafting,
    Verifying,
    Keeping,
    /// A round or a departure was reported.
    Between,
    Over,
}

/// State machine of one answer, from the read conversation to its end.
#[derive(Debug, Clone)]
pub struct Rounds {
    query: Query,
    ending: Ending,
    on_one_device: bool,
    drafts: Vec<bool>,
    stage: Stage,
    round: Round,
    /// Members that draft now.
    asked: Vec<usize>,
    /// The member that drafts alone; `None` if all draft.
    leader: Option<usize>,
    /// Whether the leader's candidate was doubted.
    doubted: bool,
    /// The strongest member, until another is asked to draft; `None` if it may not answer alone
    /// ([`Settings::alone`](crate::Settings::alone)).
    alone: Option<usize>,
    /// Whether drafts must not repeat the answer so far, because its last rounds have only
    /// repeated.
    novel: bool,
    in_turn: bool,
    /// Members that will leave, with the rounds in which they failed.
    failed: VecDeque<(usize, Failed)>,
    stop: Option<Stop>,
}

impl Rounds {
    /// Rounds of a `query` that has not begun, within `limits`. `on_one_device`: members share a
    /// device whose errors may surface in another member's move.
    pub fn new(query: Query, limits: Limits, on_one_device: bool) -> Self {
        Self {
            query,
            ending: Ending::new(limits),
            on_one_device,
            drafts: Vec::new(),
            stage: Stage::New,
            round: Round::default(),
            asked: Vec::new(),
            leader: None,
            doubted: false,
            alone: None,
            novel: false,
            in_turn: false,
            failed: VecDeque::new(),
            stop: None,
        }
    }

    /// Adds a segment that was accepted earlier, before the first move: it counts towards every
    /// limit. Returns the text that is now final.
    pub fn resume(&mut self, text: &str, tokens: usize) -> String {
        let segment = Candidate {
            text: text.to_owned(),
            ended: false,
        };
        let stop = self.query.stop(&segment);
        let (certain, over) = self.ending.take(text, tokens);
        self.stop = over.or(stop).filter(|&stop| stop != Stop::Silence);
        certain
    }

    /// Weights of the active members.
    pub fn weights(&self) -> &[f64] {
        self.query.weights()
    }

    /// Tokens of the accepted segments, each in its writer's own tokenisation.
    pub fn tokens(&self) -> usize {
        self.ending.tokens
    }

    /// Takes the accepted text that no round has reported yet, since it may begin a stop text. It
    /// is part of the answer once that is over.
    pub fn rest(&mut self) -> String {
        self.ending.rest()
    }

    /// Takes the results of the last move; returns the next.
    ///
    /// # Errors
    /// [`RoundError`] for invalid numbers, for an event that does not answer the last move, and if
    /// no drafting member is left.
    pub fn next(&mut self, event: Event) -> Result<Move, RoundError> {
        match (self.stage, event) {
            (_, Event::Stopped) => Ok(self.end(Stop::Stopped)),
            (Stage::New, Event::Begun { drafts, failed }) => {
                self.drafts = drafts;
                self.note(failed);
                self.go_on()
            }
            (Stage::Between, Event::Next) => self.go_on(),
            (Stage::Drafting, Event::Drafted(drafts)) if drafts.len() == self.asked.len() => {
                self.drafted(drafts)
            }
            (Stage::Verifying, Event::Verified(scores)) => self.verified(scores),
            (Stage::Keeping, Event::Kept) => self.kept(),
            (Stage::Keeping, Event::Failed(failed)) => {
                self.note(failed);
                self.kept()
            }
            (Stage::Drafting | Stage::Verifying, Event::Failed(failed)) => {
                let failed = *failed.first().ok_or(RoundError::Event)?;
                let anybodys = failed.kind == Failure::Device && self.on_one_device;
                if anybodys && !self.in_turn && self.query.active().len() > 1 {
                    return self.draft(true, true);
                }
                self.leave(self.query.round(), failed)
            }
            _ => Err(RoundError::Event),
        }
    }

    fn note(&mut self, failed: Vec<Failed>) {
        let round = self.query.round();
        self.failed
            .extend(failed.into_iter().map(|one| (round, one)));
    }

    fn end(&mut self, stop: Stop) -> Move {
        self.stage = Stage::Over;
        Move::Done { stop }
    }

    /// Removes failed members; then ends the answer, or begins a round.
    fn go_on(&mut self) -> Result<Move, RoundError> {
        if let Some(stop) = self.stop {
            return Ok(self.end(stop));
        }
        while let Some((round, failed)) = self.failed.pop_front() {
            // The others have left by the rule.
            if self.query.active().contains(&failed.member) {
                return self.leave(round, failed);
            }
        }
        self.draft(false, true)
    }

    fn leave(&mut self, round: usize, failed: Failed) -> Result<Move, RoundError> {
        let member = failed.member;
        if self.query.active() == [member] {
            // Before the first round there is no answer to end.
            if failed.kind == Failure::ContextFull && self.query.round() > 1 {
                return Ok(self.end(Stop::Context));
            }
            self.stage = Stage::Over;
            return Ok(Move::Fail { member });
        }
        self.query.leave(&[member])?;
        self.stage = Stage::Between;
        Ok(Move::Leave { member, round })
    }

    /// Begins a round, by the leader if there is one and `may_lead`.
    fn draft(&mut self, in_turn: bool, may_lead: bool) -> Result<Move, RoundError> {
        if self.ending.most(1) == 0 {
            return Ok(self.end(Stop::Tokens));
        }
        let active = self.query.active().to_vec();
        let leader = self.query.leader().map(|position| active[position]);
        self.round = Round {
            round: self.query.round(),
            active,
            ..Round::default()
        };
        let able = self.drafting(None);
        if able.is_empty() {
            return Err(RoundError::NoDrafter);
        }
        self.leader = leader.filter(|leader| may_lead && able.contains(leader));
        (self.in_turn, self.doubted) = (in_turn, false);
        let strongest = self.query.strongest().filter(|_| may_lead);
        let strongest = strongest.map(|position| self.round.active[position]);
        self.alone = strongest.filter(|member| able.len() > 1 && able.contains(member));
        let first = self.leader.or(self.alone);
        Ok(self.ask(first.map_or(able, |first| vec![first])))
    }

    /// Active members that draft, except `first`, which has drafted already.
    fn drafting(&self, first: Option<usize>) -> Vec<usize> {
        let drafts = |&member: &usize| self.drafts.get(member) == Some(&true);
        let active = self.round.active.iter().copied();
        let others = active.filter(|&member| Some(member) != first);
        others.filter(drafts).collect()
    }

    fn ask(&mut self, members: Vec<usize>) -> Move {
        self.stage = Stage::Drafting;
        self.asked.clone_from(&members);
        Move::Draft {
            members,
            tokens: self.ending.most(self.query.settings().segment_tokens),
            branch: match self.leader {
                None if self.round.round == 1 && self.round.active.len() > 1 => {
                    self.query.settings().branch
                }
                _ => 0.0,
            },
            novel: self.novel,
            in_turn: self.in_turn,
        }
    }

    fn drafted(&mut self, drafts: Vec<Option<Draft>>) -> Result<Move, RoundError> {
        for (member, draft) in std::mem::take(&mut self.asked).into_iter().zip(drafts) {
            if let Some(draft) = draft {
                self.round.insert(member, draft);
            }
        }
        if let Some(member) = self.alone {
            return Ok(self.answered(member));
        }
        if self.round.candidates.is_empty() {
            let others = self.drafting(self.leader);
            return match self.leader.take() {
                Some(_) if !others.is_empty() => Ok(self.ask(others)),
                // All are late: they begin anew, until one drafts or fails.
                _ => self.draft(false, false),
            };
        }
        let candidates = self.round.candidates();
        if !self.doubted
            && let Some(winner) = self.query.fast_winner(&candidates)
        {
            self.round.winner = winner;
            return self.kept();
        }
        // The others may know a way out of a circle.
        if self.led()
            && self.query.repeats(&candidates[0])
            && let Some(others) = self.doubt()
        {
            return Ok(others);
        }
        if !self.novel && self.query.circles(&candidates) {
            self.novel = true;
            self.round.drafters.clear();
            self.round.candidates.clear();
            let able = self.drafting(None);
            return Ok(self.ask(able));
        }
        let rows = self.round.rows();
        let stands = self.query.stands(&rows, &candidates);
        self.round.retain(&stands);
        let (rows, candidates) = (self.round.rows(), self.round.candidates());
        self.query.drafted(&rows, &candidates)?;
        self.stage = Stage::Verifying;
        Ok(Move::Verify {
            members: self.round.active.clone(),
            candidates,
            in_turn: self.in_turn,
        })
    }

    /// Whether the leader's candidate is the only one.
    fn led(&self) -> bool {
        self.leader.is_some() && !self.doubted
    }

    /// Doubts the leader's candidate: the others draft too, if any can.
    fn doubt(&mut self) -> Option<Move> {
        self.doubted = true;
        let others = self.drafting(self.leader);
        (!others.is_empty()).then(|| self.ask(others))
    }

    /// Takes the draft of the strongest member, which was asked alone. If the draft could be the
    /// answer, the next move is that the same member verifies it; otherwise the others draft too.
    fn answered(&mut self, member: usize) -> Move {
        let candidates = self.round.candidates();
        // A member with a second candidate knows of another answer.
        if !matches!(&candidates[..], [one] if self.query.may_end(one)) {
            return self.ask_others(member);
        }
        self.stage = Stage::Verifying;
        Move::Verify {
            members: vec![member],
            candidates,
            in_turn: self.in_turn,
        }
    }

    fn ask_others(&mut self, member: usize) -> Move {
        self.alone = None;
        let others = self.drafting(Some(member));
        self.ask(others)
    }

    /// Takes the strongest member's scores of its own candidates. If it is sure of the first, that
    /// is the answer, and the others have empty rows. Otherwise the others draft too.
    fn verified_alone(&mut self, member: usize, own: Vec<VerifiedScore>) -> Move {
        if !own
            .first()
            .is_some_and(|one| self.query.certain(&one.score))
        {
            return self.ask_others(member);
        }
        let rows = self.round.active.iter();
        let rows = rows.map(|&one| {
            if one == member {
                own.clone()
            } else {
                Vec::new()
            }
        });
        self.round.scores = rows.collect();
        self.keep()
    }

    fn verified(&mut self, mut scores: Vec<Vec<VerifiedScore>>) -> Result<Move, RoundError> {
        if let Some(member) = self.alone {
            return Ok(self.verified_alone(member, scores.pop().unwrap_or_default()));
        }
        let raw = scores
            .iter()
            .map(|row| row.iter().map(|one| one.score).collect());
        let raw: Vec<Vec<Score>> = raw.collect();
        self.round.scores = scores;
        if self.led() {
            if self.query.trusts(&raw)? {
                return Ok(self.keep());
            }
            if let Some(others) = self.doubt() {
                return Ok(others);
            }
        }
        let shares = self.query.normalise(&raw)?;
        let before = self.query.settings().update == Update::Before;
        let early = before.then(|| self.query.feedback(&shares)).transpose()?;
        let selection = self.query.select(&shares)?;
        let feedback = match early {
            Some(feedback) => feedback,
            None => self.query.feedback(&shares)?,
        };
        let round = &mut self.round;
        (round.shares, round.counts) = (shares, feedback.counts);
        (round.totals, round.winner) = (selection.totals, selection.winner);
        round.turned_by = selection.turned_by;
        Ok(self.keep())
    }

    fn keep(&mut self) -> Move {
        self.stage = Stage::Keeping;
        Move::Keep {
            members: match self.alone {
                Some(member) => vec![member],
                None => self.round.active.clone(),
            },
            winner: self.round.winner,
        }
    }

    /// Ends the round with its winner: exit, stop and report.
    fn kept(&mut self) -> Result<Move, RoundError> {
        let mut round = std::mem::take(&mut self.round);
        round.weights = self.query.weights().to_vec();
        if !round.totals.is_empty() {
            round.exited = self.query.exit(round.winner)?;
        }
        for candidate in 0..round.candidates.len() {
            let row = round
                .row_of(candidate)
                .and_then(|row| round.scores.get(row));
            let own = row.and_then(|row| row.get(candidate)).map(|one| one.tokens);
            // 0 from a drafter that does not count them.
            if let Some(tokens) = own.filter(|&tokens| tokens > 0) {
                round.candidates[candidate].tokens = tokens;
            }
        }
        let candidates = round.candidates();
        let winner = &candidates[round.winner];
        let alike = (0..candidates.len()).filter(|&one| candidates[one] == *winner);
        round.writers = alike.collect();
        let stop = self.query.stop(winner);
        let tokens = round.candidates[round.winner].tokens;
        let (text, over) = self.ending.take(&winner.text, tokens);
        // A segment that ends the answer with its last token has ended it.
        let over = over.filter(|&over| over == Stop::Text || !winner.ended);
        round.text = text;
        self.stop = over.or(stop);
        self.stage = Stage::Between;
        Ok(Move::Round {
            round: Box::new(round),
        })
    }
}
