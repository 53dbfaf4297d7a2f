//! The rounds of one answer, natively: the same loop as `web/src/worker/round.ts`.

use conclave_ensemble::{Candidate, Query, RoundError, Score, Settings, Stop, Update, cut};
use conclave_member::{Member, MemberError, Message, Thought, VerifiedScore};
use conclave_model::{ModelError, Sampling};
use serde::Serialize;

use crate::failure::Failure;
use crate::together::{all_of, together};

/// One round, as `--record` writes it and `--show-votes` shows it. Rows and weights go by `active`,
/// columns and the winner by `drafters`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Round {
    /// Members of the round, as indices.
    pub active: Vec<usize>,
    /// Those of them who drafted: all, or the leader alone.
    pub drafters: Vec<usize>,
    /// Their segments.
    pub candidates: Vec<Candidate>,
    /// Raw scores, a row a verifier, a column a candidate; empty if a fast end was accepted unverified.
    pub scores: Vec<Vec<VerifiedScore>>,
    /// False where a fast end was accepted.
    pub verified: bool,
    /// Shares, a row a verifier; empty, as totals and counts, where there was no vote.
    pub normalised: Vec<Vec<f64>>,
    /// Y of each candidate.
    pub totals: Vec<f64>,
    /// The winner, an index into the candidates.
    pub winner: usize,
    /// c of each candidate.
    pub counts: Vec<usize>,
    /// Weights after the feedback.
    pub weights: Vec<f64>,
    /// Members (indices) that left after the round.
    pub exited: Vec<usize>,
}

impl Round {
    /// The place among the active of the member that drafted this candidate.
    pub fn place_of(&self, candidate: usize) -> Option<usize> {
        let drafter = self.drafters.get(candidate)?;
        self.active.iter().position(|member| member == drafter)
    }
}

/// A member that failed in mid-answer, and left it to the others.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Left {
    /// Its index.
    pub member: usize,
    /// The round that it did not come through.
    pub round: usize,
    /// Why.
    pub error: String,
}

/// A whole answer.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// The accepted segments joined.
    pub text: String,
    /// Why it ended: a rule of the method, or `context` where the context of the last member is full.
    pub stopped: &'static str,
    /// What each member thought before it.
    pub thoughts: Vec<Thought>,
    /// Members that failed on the way.
    pub left: Vec<Left>,
    /// Its rounds.
    pub rounds: Vec<Round>,
}

/// Answers `messages`, telling `reading` how many tokens of them a member has read and of how many,
/// and `watch` of every round as it ends.
///
/// # Errors
/// What a member or the method reports; text of earlier rounds has been watched.
pub async fn answer(
    members: &mut [Member],
    messages: &[Message],
    settings: &Settings,
    sampling: Sampling,
    mut reading: impl FnMut(&str, usize, usize),
    mut watch: impl FnMut(&Round),
) -> Result<Answer, Failure> {
    let mut query = Query::new(members.len(), settings.clone())?;
    // Whether it fits everybody is known at once; to read may take minutes.
    for member in members.iter() {
        member.measure(messages).map_err(of(member.name()))?;
    }
    for (stream, member) in members.iter_mut().enumerate() {
        let name = member.name().to_owned();
        let go_on = async |done, total| {
            reading(&name, done, total);
            true
        };
        let stream = stream as u64;
        let begun = member.begin_while(messages, sampling, stream, go_on).await;
        begun.map_err(of(member.name()))?;
    }
    let mut said = Answer {
        text: String::new(),
        stopped: "context",
        thoughts: Vec::with_capacity(members.len()),
        left: Vec::new(),
        rounds: Vec::new(),
    };
    for member in members.iter_mut() {
        let thought = member.think_while(async |_: &str| true).await;
        said.thoughts.push(thought.map_err(of(member.name()))?);
    }
    loop {
        let number = query.round();
        let stop = match play(members, &mut query, settings).await {
            Ok((round, stop, failed)) => {
                said.text.push_str(&round.candidates[round.winner].text);
                watch(&round);
                said.rounds.push(round);
                // They were to keep what the others have kept.
                for (index, error) in failed {
                    said.leave(members, &mut query, number, index, error)?;
                }
                stop
            }
            // Whoever fails leaves, and the others begin the round anew.
            Err(Trouble::Of(index, error)) => {
                let full = matches!(error, MemberError::Model(ModelError::ContextFull { .. }));
                if query.active() == [index] && full && !said.rounds.is_empty() {
                    return Ok(said);
                }
                said.leave(members, &mut query, number, index, error)?;
                None
            }
            Err(Trouble::Rule(error)) => return Err(error.into()),
        };
        if let Some(stop) = stop {
            said.stopped = stop.name();
            return Ok(said);
        }
    }
}

impl Answer {
    /// Takes a member that failed out of the query: the others go on.
    ///
    /// # Errors
    /// Its own, where there are no others.
    fn leave(
        &mut self,
        members: &mut [Member],
        query: &mut Query,
        round: usize,
        index: usize,
        error: MemberError,
    ) -> Result<(), Failure> {
        let (member, told) = (&mut members[index], error.to_string());
        if query.leave(&[index]).is_err() {
            return Err(of(member.name())(error));
        }
        member.release();
        eprintln!("{} leaves: {told}; the others go on", member.name());
        self.left.push(Left {
            member: index,
            round,
            error: told,
        });
        Ok(())
    }
}

/// Why a round did not come to its end: a member (by index), or the method.
enum Trouble {
    Of(usize, MemberError),
    Rule(RoundError),
}

impl From<RoundError> for Trouble {
    fn from(error: RoundError) -> Self {
        Self::Rule(error)
    }
}

/// Members that failed, by index.
type Failed = Vec<(usize, MemberError)>;

/// One round, whether it ends the answer, and who could not keep its winner.
async fn play(
    members: &mut [Member],
    query: &mut Query,
    settings: &Settings,
) -> Result<(Round, Option<Stop>, Failed), Trouble> {
    let active = query.active().to_vec();
    let leader = query.leader();
    let first = leader.map_or_else(|| active.clone(), |place| vec![active[place]]);
    let candidates = draft(members, &first, settings).await?;
    if let Some(place) = leader {
        query.drafted(&[place])?;
    }
    let mut round = Round {
        drafters: first,
        candidates,
        active,
        scores: Vec::new(),
        verified: true,
        normalised: Vec::new(),
        totals: Vec::new(),
        winner: 0,
        counts: Vec::new(),
        weights: Vec::new(),
        exited: Vec::new(),
    };
    // Fast mode accepts a candidate that ends the answer at once, unverified.
    let failed = if let Some(winner) = query.fast_winner(&round.candidates) {
        (round.verified, round.winner) = (false, winner);
        Failed::new()
    } else {
        let trusted = match leader {
            Some(place) => trust(members, query, settings, place, &mut round).await?,
            None => None,
        };
        match trusted {
            Some(failed) => failed,
            None => decide(members, query, settings, &mut round).await?,
        }
    };
    round.weights = query.weights().to_vec();
    if !round.totals.is_empty() {
        round.exited = query.exit(round.winner)?;
    }
    for &index in &round.exited {
        members[index].release();
    }
    let stop = query.stop(&round.candidates[round.winner]);
    Ok((round, stop, failed))
}

/// The segments that `drafters` draft, cut to whole words.
async fn draft(
    members: &mut [Member],
    drafters: &[usize],
    settings: &Settings,
) -> Result<Vec<Candidate>, Trouble> {
    let drafting = taking_part(members, drafters).map(async |(index, member)| {
        let draft = member.draft(settings.segment_tokens).await;
        draft.map_err(|error| Trouble::Of(index, error))
    });
    let drafts = together(drafting).await?;
    let candidates = drafts.into_iter().map(|draft| Candidate {
        ended: draft.ended,
        text: cut(&draft.text, draft.ended).to_owned(),
    });
    Ok(candidates.collect())
}

/// All verify what the leader drafted, which has this place among the active. Where nobody doubts it, it is kept, and this gives who did not
/// get it; otherwise all others draft, and the round is still to be decided.
async fn trust(
    members: &mut [Member],
    query: &mut Query,
    settings: &Settings,
    place: usize,
    round: &mut Round,
) -> Result<Option<Failed>, Trouble> {
    let scores = verify(members, round, settings).await?;
    if query.trusts(&raw(&scores))? {
        round.scores = scores;
        return Ok(Some(keep(members, round).await));
    }
    let mut others = round.active.clone();
    others.remove(place);
    let mut candidates = draft(members, &others, settings).await?;
    candidates.splice(place..place, round.candidates.drain(..));
    round.candidates = candidates;
    round.drafters.clone_from(&round.active);
    query.drafted(&(0..round.active.len()).collect::<Vec<_>>())?;
    Ok(None)
}

/// The scores alone, of the same shape.
fn raw(scores: &[Vec<VerifiedScore>]) -> Vec<Vec<Score>> {
    let row = |row: &Vec<VerifiedScore>| row.iter().map(|score| score.score).collect();
    scores.iter().map(row).collect()
}

/// What every active member says of every candidate, in one in-line pass each.
async fn verify(
    members: &mut [Member],
    round: &Round,
    settings: &Settings,
) -> Result<Vec<Vec<VerifiedScore>>, Trouble> {
    let verifying = taking_part(members, &round.active).map(async |(index, member)| {
        let scores = member.verify(&round.candidates, settings).await;
        scores.map_err(|error| Trouble::Of(index, error))
    });
    together(verifying).await
}

/// Makes the winner part of every active member's text. Gives who did not get it; the others have
/// it, so that the round counts.
async fn keep(members: &mut [Member], round: &Round) -> Failed {
    let winner = round.winner;
    let keeping = taking_part(members, &round.active)
        .map(async |(index, member)| member.keep(winner).await.err().map(|error| (index, error)));
    all_of(keeping).await.into_iter().flatten().collect()
}

/// Verify in line, feedback and selection, broadcast: fills in the round. Gives who did not get its
/// winner.
async fn decide(
    members: &mut [Member],
    query: &mut Query,
    settings: &Settings,
    round: &mut Round,
) -> Result<Failed, Trouble> {
    round.scores = verify(members, round, settings).await?;
    round.normalised = query.normalise(&raw(&round.scores))?;
    if settings.update == Update::Before {
        round.counts = query.feedback(&round.normalised)?.counts;
    }
    let selection = query.select(&round.normalised)?;
    if settings.update == Update::After {
        round.counts = query.feedback(&round.normalised)?.counts;
    }
    (round.totals, round.winner) = (selection.totals, selection.winner);
    Ok(keep(members, round).await)
}

/// A member's failure, under its name.
fn of(member: &str) -> impl FnOnce(MemberError) -> Failure {
    let member = member.to_owned();
    |error| Failure::Of {
        member,
        source: Box::new(error),
    }
}

/// The members of a round with their indices; `active` counts upwards.
fn taking_part<'a>(
    members: &'a mut [Member],
    active: &[usize],
) -> impl Iterator<Item = (usize, &'a mut Member)> {
    let members = members.iter_mut().enumerate();
    members.filter(|(index, _)| active.contains(index))
}
