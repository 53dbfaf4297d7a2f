//! Driver of the rounds: members make the moves that [`Rounds`] returns. Counterpart of
//! `web/src/worker/round.ts`.

use std::collections::BTreeMap;
use std::pin::Pin;

use conclave_ensemble::{Candidate, Event, Failed, Move, Rounds, Settings};
use conclave_member::VerifiedScore;
use conclave_model::Threads;
use serde::Serialize;

use crate::answer::{Answer, AnswerError, Left, Watch, named};
use crate::taking_part::{MoveError, TakePart};
use crate::together::together;

/// One round, as written by `--record` and shown by `--show-votes`. Rows and weights go by
/// `active`, columns and the winner by `drafters`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Round {
    /// Members of the round, as indices.
    pub active: Vec<usize>,
    /// Members that drafted: all that can and were in time, or the leader alone.
    pub drafters: Vec<usize>,
    /// Their segments.
    pub candidates: Vec<Candidate>,
    /// Tokens of each segment, in its drafter's own tokenisation; a record has them in its scores.
    #[serde(skip)]
    pub tokens: Vec<usize>,
    /// Raw scores, a row per verifier, a column per candidate; empty if a fast end was accepted
    /// unverified. The row of a verifier that abstained is empty.
    pub scores: Vec<Vec<VerifiedScore>>,
    /// False if a fast end was accepted.
    pub verified: bool,
    /// Shares, a row per verifier; empty, like totals and counts, if there was no vote.
    pub normalised: Vec<Vec<f64>>,
    /// Y of each candidate.
    pub totals: Vec<f64>,
    /// Index of the winner into the candidates.
    pub winner: usize,
    /// Candidates with the winner's text and end, the winner among them.
    #[serde(skip)]
    pub writers: Vec<usize>,
    /// Verifiers, by row, whose vote alone overturned the choice of all others.
    pub turned_by: Vec<usize>,
    /// c of each candidate.
    pub counts: Vec<usize>,
    /// Weights after the feedback.
    pub weights: Vec<f64>,
    /// Members (indices) that left after the round.
    pub exited: Vec<usize>,
    /// Members that were late, and therefore had no candidate or no vote.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub abstained: Vec<Left>,
}

impl Round {
    fn new(round: conclave_ensemble::Round, abstained: Vec<Left>) -> Self {
        let tokens = round.candidates.iter().map(|draft| draft.tokens).collect();
        let candidates = round.candidates.into_iter().map(|draft| Candidate {
            text: draft.text,
            ended: draft.ended,
        });
        Self {
            active: round.active,
            drafters: round.drafters,
            candidates: candidates.collect(),
            tokens,
            verified: !round.scores.is_empty(),
            scores: round.scores,
            normalised: round.shares,
            totals: round.totals,
            winner: round.winner,
            writers: round.writers,
            turned_by: round.turned_by,
            counts: round.counts,
            weights: round.weights,
            exited: round.exited,
            abstained,
        }
    }

    /// Whether one member was sure of its answer, and no other was asked.
    pub fn by_one(&self) -> bool {
        let rows = self.scores.iter().filter(|row| !row.is_empty());
        self.totals.is_empty() && self.active.len() > 1 && rows.count() == 1
    }

    /// Row of the member that drafted this candidate.
    pub fn place_of(&self, candidate: usize) -> Option<usize> {
        let drafter = self.drafters.get(candidate)?;
        self.active.iter().position(|member| member == drafter)
    }
}

/// Plays rounds from the `first` move until the answer is over. Every member that has not left has
/// begun the conversation.
pub(crate) async fn drive<M: TakePart>(
    members: &mut [M],
    rounds: &mut Rounds,
    first: Move,
    settings: &Settings,
    said: &mut Answer,
    watch: &mut impl Watch,
) -> Result<(), AnswerError> {
    let mut late = Late::default();
    let mut errors = BTreeMap::new();
    let mut next = first;
    loop {
        let waits = matches!(
            next,
            Move::Draft { .. } | Move::Verify { .. } | Move::Keep { .. }
        );
        if waits && !watch.go_on() {
            next = rounds.next(Event::Stopped)?;
        }
        late.round = said.rounds.len() + 1;
        let event = match next {
            Move::Draft {
                members: who,
                tokens,
                branch,
                novel,
                in_turn,
            } => {
                let draft = async |member: &mut M| member.draft(tokens, branch, novel).await;
                let drafts = each(members, &who, in_turn, draft).await;
                outcome(late.drafted(drafts), &mut errors, Event::Drafted)
            }
            Move::Verify {
                members: who,
                candidates,
                in_turn,
            } => {
                let verify = async |member: &mut M| member.verify(&candidates, settings).await;
                let scores = each(members, &who, in_turn, verify).await;
                outcome(late.verified(scores), &mut errors, Event::Verified)
            }
            Move::Keep {
                members: who,
                winner,
            } => {
                let keep = async |member: &mut M| member.keep(winner).await;
                let kept = each(members, &who, false, keep).await;
                outcome(kept, &mut errors, |_| Event::Kept)
            }
            Move::Round { round } => {
                for &index in &round.exited {
                    members[index].release();
                }
                let text = round.text.clone();
                let round = Round::new(*round, std::mem::take(&mut late.members));
                watch.round(&round, &text);
                said.text.push_str(&text);
                said.rounds.push(round);
                Event::Next
            }
            Move::Leave { member, round } => {
                late.members.clear();
                said.leave(members, member, round, errors.remove(&member), watch);
                Event::Next
            }
            Move::Fail { member } => {
                let unknown = || MoveError::Unknown("go on");
                let error = errors.remove(&member).unwrap_or_else(unknown);
                return Err(named(members[member].name())(error));
            }
            Move::Done { stop } => {
                said.stopped = stop.name();
                return Ok(());
            }
        };
        next = rounds.next(event)?;
    }
}

/// Results of members' moves, with their indices.
type Made<T> = Vec<(usize, Result<T, MoveError>)>;

/// Results of each member's move: concurrently, or one after the other until one fails.
async fn each<M: TakePart, T: Send>(
    members: &mut [M],
    who: &[usize],
    in_turn: bool,
    make: impl AsyncFn(&mut M) -> Result<T, MoveError> + Sync,
) -> Made<T> {
    let members = members.iter_mut().enumerate();
    let asked = members.filter(|(index, _)| who.contains(index));
    let mut made = Vec::with_capacity(who.len());
    if in_turn {
        for (index, member) in asked {
            let one = make(member).await;
            let failed = one.as_ref().is_err_and(|error| !error.abstains());
            made.push((index, one));
            if failed {
                break;
            }
        }
        return made;
    }
    let make = &make;
    let (computing, waiting): (Vec<_>, Vec<_>) =
        asked.partition(|(_, member)| member.threads() != Threads::ONE);
    // Those that wait for a device or a server have begun by the time the others block this thread.
    let mut moves: Vec<Pin<Box<dyn Future<Output = Made<T>>>>> = Vec::new();
    for (index, member) in waiting {
        moves.push(Box::pin(async move { vec![(index, make(member).await)] }));
    }
    moves.push(Box::pin(async move { on_threads(computing, make) }));
    made.extend(together(moves).await.into_iter().flatten());
    made.sort_unstable_by_key(|&(index, _)| index);
    made
}

/// Results of the moves of members whose passes block, on threads that these members share.
fn on_threads<M: TakePart, T: Send>(
    members: Vec<(usize, &mut M)>,
    make: impl AsyncFn(&mut M) -> Result<T, MoveError> + Sync,
) -> Made<T> {
    let threads = members.iter().map(|(_, member)| member.threads());
    let threads = threads.max_by_key(|threads| threads.count());
    let make = &make;
    let moves = members
        .into_iter()
        .map(|(index, member)| move || (index, pollster::block_on(make(member))));
    threads.unwrap_or(Threads::ONE).concurrently(moves)
}

/// Event of a move: its results, or the failures, whose errors are kept by member.
fn outcome<T>(
    made: Made<T>,
    errors: &mut BTreeMap<usize, MoveError>,
    event: impl FnOnce(Vec<T>) -> Event,
) -> Event {
    let (mut results, mut failed) = (Vec::new(), Vec::new());
    for (member, result) in made {
        match result {
            Ok(result) => results.push(result),
            Err(error) => {
                let kind = error.failure();
                failed.push(Failed { member, kind });
                errors.insert(member, error);
            }
        }
    }
    match failed.is_empty() {
        true => event(results),
        false => Event::Failed(failed),
    }
}

/// Members that are late in the current round: they abstain, and it continues.
#[derive(Default)]
struct Late {
    round: usize,
    members: Vec<Left>,
}

impl Late {
    /// Drafts, `None` for late members. A member may be asked again if all were late.
    fn drafted<T>(&mut self, made: Made<T>) -> Made<Option<T>> {
        let asked: Vec<usize> = made.iter().map(|&(index, _)| index).collect();
        self.members.retain(|late| !asked.contains(&late.member));
        self.abstaining(made, Some, || None)
    }

    /// Rows of scores, empty for late members.
    fn verified<T>(&mut self, made: Made<Vec<T>>) -> Made<Vec<T>> {
        self.abstaining(made, |row| row, Vec::new)
    }

    fn abstaining<T, U>(
        &mut self,
        made: Made<T>,
        present: impl Fn(T) -> U,
        absent: impl Fn() -> U,
    ) -> Made<U> {
        let mut all = Vec::with_capacity(made.len());
        for (member, result) in made {
            let result = match result {
                Err(error) if error.abstains() => {
                    if self.members.iter().all(|late| late.member != member) {
                        self.members.push(Left {
                            member,
                            round: self.round,
                            error: error.to_string(),
                        });
                    }
                    Ok(absent())
                }
                result => result.map(&present),
            };
            all.push((member, result));
        }
        all
    }
}
