//! The rounds of one answer, natively: the same loop as `web/src/round.ts`.

use conclave_ensemble::{Candidate, Feedback, Query, Score, Settings, Update, cut};
use conclave_member::{Member, Message, VerifiedScore};
use conclave_model::Sampling;
use serde::Serialize;

use crate::failure::Failure;

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
    /// Why it ended.
    pub stopped: &'static str,
    /// Its rounds.
    pub rounds: Vec<Round>,
}

/// Answers `messages`, telling `watch` of every round as it ends.
///
/// # Errors
/// What a member or the method reports; text of earlier rounds has been watched.
pub async fn answer(
    members: &mut [Member],
    messages: &[Message],
    settings: &Settings,
    sampling: Sampling,
    mut watch: impl FnMut(&Round),
) -> Result<Answer, Failure> {
    let mut query = Query::new(members.len(), settings.clone())?;
    for (stream, member) in members.iter_mut().enumerate() {
        member.begin(messages, sampling, stream as u64).await?;
    }
    let mut text = String::new();
    let mut rounds = Vec::new();
    loop {
        let active = query.active().to_vec();

        // Draft.
        let mut candidates = Vec::with_capacity(active.len());
        for &index in &active {
            let draft = members[index].draft(settings.segment_tokens).await?;
            let segment = cut(&draft.text, draft.ended);
            candidates.push(Candidate {
                ended: draft.ended,
                text: segment.to_owned(),
            });
        }

        // Verify in line.
        let fast = query.fast_winner(&candidates);
        let mut scores = Vec::with_capacity(active.len());
        for &index in &active {
            scores.push(members[index].verify(&candidates).await?);
        }

        // Feedback and selection.
        let (normalised, feedback, selection) = if fast.is_some() {
            (Vec::new(), None, None)
        } else {
            let raw: Vec<Vec<Score>> = scores
                .iter()
                .map(|row| row.iter().map(|s| s.score).collect())
                .collect();
            let shares = query.normalise(&raw)?;
            let mut feedback: Option<Feedback> = None;
            if settings.update == Update::Before {
                feedback = Some(query.feedback(&shares)?);
            }
            let selection = query.select(&shares)?;
            if settings.update == Update::After {
                feedback = Some(query.feedback(&shares)?);
            }
            (shares, feedback, Some(selection))
        };
        let winner = fast.or(selection.as_ref().map(|s| s.winner)).unwrap_or(0);

        // Broadcast.
        for &index in &active {
            members[index].keep(winner).await?;
        }
        let weights = query.weights().to_vec();
        let exited = query.exit(winner)?;
        for &index in &exited {
            members[index].release();
        }
        text.push_str(&candidates[winner].text);
        let stop = query.stop(&candidates[winner]);
        let round = Round {
            active,
            verified: fast.is_none(),
            scores: if fast.is_some() { Vec::new() } else { scores },
            normalised,
            totals: selection.map(|s| s.totals).unwrap_or_default(),
            winner,
            counts: feedback.map(|f| f.counts).unwrap_or_default(),
            weights,
            exited,
            candidates,
        };
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
