//! The rounds of one answer, natively: the same loop as `web/src/round.ts`.

use conclave_ensemble::{Candidate, Query, Score, Settings, Stop, Update, cut};
use conclave_member::{Member, MemberError, Message, VerifiedScore};
use conclave_model::Sampling;
use serde::Serialize;

use crate::failure::Failure;
use crate::together::together;

/// One round, as `--record` writes it and `--show-votes` shows it. Rows, columns
/// and positions go by `active`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Round {
    /// Members of the round, as indices.
    pub active: Vec<usize>,
    /// Their segments.
    pub candidates: Vec<Candidate>,
    /// Raw scores, a row a verifier; empty if a fast end was accepted unverified.
    pub scores: Vec<Vec<VerifiedScore>>,
    /// False where a fast end was accepted.
    pub verified: bool,
    /// Shares, a row a verifier.
    pub normalised: Vec<Vec<f64>>,
    /// Y of each candidate.
    pub totals: Vec<f64>,
    /// Position of the winner.
    pub winner: usize,
    /// c of each candidate.
    pub counts: Vec<usize>,
    /// Weights after the feedback.
    pub weights: Vec<f64>,
    /// Members (indices) that left after the round.
    pub exited: Vec<usize>,
}

/// A whole answer.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// The accepted segments joined.
    pub text: String,
    /// Why it ended: a rule of the method, or `context` where a member's context is full.
    pub stopped: &'static str,
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
    let mut text = String::new();
    let mut rounds = Vec::new();
    loop {
        let (round, stop) = match play(members, &mut query, settings).await {
            Ok(played) => played,
            // What was written so far is worth more than the error.
            Err(failure) if failure.is_full_context() && !rounds.is_empty() => {
                return Ok(Answer {
                    text,
                    stopped: "context",
                    rounds,
                });
            }
            Err(failure) => return Err(failure),
        };
        text.push_str(&round.candidates[round.winner].text);
        watch(&round);
        rounds.push(round);
        if let Some(stop) = stop {
            return Ok(Answer {
                text,
                stopped: stop.name(),
                rounds,
            });
        }
    }
}

/// One round, and whether it ends the answer.
async fn play(
    members: &mut [Member],
    query: &mut Query,
    settings: &Settings,
) -> Result<(Round, Option<Stop>), Failure> {
    let active = query.active().to_vec();
    let drafting = taking_part(members, &active).map(async |member| {
        let draft = member.draft(settings.segment_tokens).await;
        draft.map_err(of(member.name()))
    });
    let drafts = together(drafting).await?;
    let candidates = drafts.into_iter().map(|draft| Candidate {
        ended: draft.ended,
        text: cut(&draft.text, draft.ended).to_owned(),
    });
    let mut round = Round {
        candidates: candidates.collect(),
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
    if let Some(winner) = query.fast_winner(&round.candidates) {
        (round.verified, round.winner) = (false, winner);
    } else {
        decide(members, query, settings, &mut round).await?;
    }
    round.weights = query.weights().to_vec();
    if round.verified {
        round.exited = query.exit(round.winner)?;
    }
    for &index in &round.exited {
        members[index].release();
    }
    let stop = query.stop(&round.candidates[round.winner]);
    Ok((round, stop))
}

/// Verify in line, feedback and selection, broadcast: fills in the round.
async fn decide(
    members: &mut [Member],
    query: &mut Query,
    settings: &Settings,
    round: &mut Round,
) -> Result<(), Failure> {
    let verifying = taking_part(members, &round.active).map(async |member| {
        let scores = member.verify(&round.candidates, settings.scoring).await;
        scores.map_err(of(member.name()))
    });
    round.scores = together(verifying).await?;
    let raw: Vec<Vec<Score>> = round
        .scores
        .iter()
        .map(|row| row.iter().map(|s| s.score).collect())
        .collect();
    round.normalised = query.normalise(&raw)?;
    if settings.update == Update::Before {
        round.counts = query.feedback(&round.normalised)?.counts;
    }
    let selection = query.select(&round.normalised)?;
    if settings.update == Update::After {
        round.counts = query.feedback(&round.normalised)?.counts;
    }
    (round.totals, round.winner) = (selection.totals, selection.winner);
    let keeping = taking_part(members, &round.active).map(async |member| {
        let kept = member.keep(round.winner).await;
        kept.map_err(of(member.name()))
    });
    together(keeping).await?;
    Ok(())
}

/// A member's failure, under its name.
fn of(member: &str) -> impl FnOnce(MemberError) -> Failure {
    let member = member.to_owned();
    |error| Failure::Of {
        member,
        source: Box::new(error),
    }
}

/// The members of a round; `active` counts upwards.
fn taking_part<'a>(
    members: &'a mut [Member],
    active: &[usize],
) -> impl Iterator<Item = &'a mut Member> {
    let members = members.iter_mut().enumerate();
    members.filter_map(|(index, member)| active.contains(&index).then_some(member))
}
