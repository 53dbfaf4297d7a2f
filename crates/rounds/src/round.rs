//! One round: draft, verify in line, feedback and selection, keep.

use conclave_ensemble::{Candidate, Query, RoundError, Score, Settings, Stop, Update, cut};
use conclave_member::{Draft, VerifiedScore};
use serde::Serialize;

use crate::answer::Watch;
use crate::taking_part::{MoveError, TakePart};
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
    /// Tokens of each, in its drafter's own; of a record the scores tell them.
    #[serde(skip)]
    pub tokens: Vec<usize>,
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

    /// What its drafter said of a candidate counts its tokens as they were kept: without the word that
    /// was cut off.
    fn count_tokens(&mut self) {
        for candidate in 0..self.tokens.len() {
            let own = self.place_of(candidate);
            let row = own.and_then(|place| self.scores.get(place));
            if let Some(score) = row.and_then(|row| row.get(candidate)) {
                self.tokens[candidate] = score.tokens;
            }
        }
    }
}

/// Why a round did not come to its end: a member (by index), the method, or who asked for it.
pub(crate) enum Trouble {
    Of(usize, MoveError),
    Rule(RoundError),
    Stopped,
}

impl From<RoundError> for Trouble {
    fn from(error: RoundError) -> Self {
        Self::Rule(error)
    }
}

/// Members that failed, by index.
type Failed = Vec<(usize, MoveError)>;

/// One round, whether it ends the answer, and who could not keep its winner.
pub(crate) async fn play<M: TakePart>(
    members: &mut [M],
    query: &mut Query,
    settings: &Settings,
    watch: &mut impl Watch,
) -> Result<(Round, Option<Stop>, Failed), Trouble> {
    let active = query.active().to_vec();
    let leader = query.leader();
    let first = leader.map_or_else(|| active.clone(), |place| vec![active[place]]);
    let (candidates, tokens) = draft(members, &first, settings).await?;
    if let Some(place) = leader {
        query.drafted(&[place])?;
    }
    let mut round = Round {
        drafters: first,
        candidates,
        tokens,
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
            Some(place) => trust(members, query, settings, place, &mut round, watch).await?,
            None => None,
        };
        match trusted {
            Some(failed) => failed,
            None => decide(members, query, settings, &mut round, watch).await?,
        }
    };
    round.weights = query.weights().to_vec();
    round.count_tokens();
    if !round.totals.is_empty() {
        round.exited = query.exit(round.winner)?;
    }
    for &index in &round.exited {
        members[index].release();
    }
    let stop = query.stop(&round.candidates[round.winner]);
    Ok((round, stop, failed))
}

/// The segments that `drafters` draft, cut to whole words; and how many tokens were drawn for each.
async fn draft<M: TakePart>(
    members: &mut [M],
    drafters: &[usize],
    settings: &Settings,
) -> Result<(Vec<Candidate>, Vec<usize>), Trouble> {
    let drafting = taking_part(members, drafters).map(async |(index, member)| {
        let draft = member.draft(settings.segment_tokens).await;
        draft.map_err(|error| Trouble::Of(index, error))
    });
    let drafts = together(drafting).await?;
    let segment = |Draft {
                       text,
                       ended,
                       tokens,
                   }| {
        let text = cut(&text, ended).to_owned();
        (Candidate { text, ended }, tokens)
    };
    Ok(drafts.into_iter().map(segment).unzip())
}

/// All verify what the leader drafted, which has this place among the active. Where nobody doubts it, it is kept, and this gives who did not
/// get it; otherwise all others draft, and the round is still to be decided.
async fn trust<M: TakePart>(
    members: &mut [M],
    query: &mut Query,
    settings: &Settings,
    place: usize,
    round: &mut Round,
    watch: &mut impl Watch,
) -> Result<Option<Failed>, Trouble> {
    let scores = verify(members, round, settings, watch).await?;
    if query.trusts(&raw(&scores))? {
        round.scores = scores;
        return Ok(Some(keep(members, round).await));
    }
    let mut others = round.active.clone();
    others.remove(place);
    let (mut candidates, mut tokens) = draft(members, &others, settings).await?;
    candidates.splice(place..place, round.candidates.drain(..));
    tokens.splice(place..place, round.tokens.drain(..));
    (round.candidates, round.tokens) = (candidates, tokens);
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
async fn verify<M: TakePart>(
    members: &mut [M],
    round: &Round,
    settings: &Settings,
    watch: &mut impl Watch,
) -> Result<Vec<Vec<VerifiedScore>>, Trouble> {
    // The query has not changed yet: a round that ends here has not been.
    if !watch.go_on() {
        return Err(Trouble::Stopped);
    }
    let verifying = taking_part(members, &round.active).map(async |(index, member)| {
        let scores = member.verify(&round.candidates, settings).await;
        scores.map_err(|error| Trouble::Of(index, error))
    });
    together(verifying).await
}

/// Makes the winner part of every active member's text. Gives who did not get it; the others have
/// it, so that the round counts.
async fn keep<M: TakePart>(members: &mut [M], round: &Round) -> Failed {
    let winner = round.winner;
    let keeping = taking_part(members, &round.active)
        .map(async |(index, member)| member.keep(winner).await.err().map(|error| (index, error)));
    all_of(keeping).await.into_iter().flatten().collect()
}

/// Verify in line, feedback and selection, broadcast: fills in the round. Gives who did not get its
/// winner.
async fn decide<M: TakePart>(
    members: &mut [M],
    query: &mut Query,
    settings: &Settings,
    round: &mut Round,
    watch: &mut impl Watch,
) -> Result<Failed, Trouble> {
    round.scores = verify(members, round, settings, watch).await?;
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

/// The members of a round with their indices; `active` counts upwards.
fn taking_part<'a, M>(
    members: &'a mut [M],
    active: &[usize],
) -> impl Iterator<Item = (usize, &'a mut M)> {
    let members = members.iter_mut().enumerate();
    members.filter(|(index, _)| active.contains(index))
}
