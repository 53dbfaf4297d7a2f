//! One round: draft, verify in line, feedback and selection, keep.

use conclave_ensemble::{Candidate, Query, RoundError, Score, Settings, Stop, Update, cut};
use conclave_member::{Draft, VerifiedScore};
use serde::Serialize;

use crate::answer::{Left, Watch};
use crate::taking_part::{MoveError, TakePart};
use crate::together::{all_of, together};

/// One round, as `--record` writes it and `--show-votes` shows it. Rows and weights go by `active`,
/// columns and the winner by `drafters`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Round {
    /// Members of the round, as indices.
    pub active: Vec<usize>,
    /// Those of them who drafted: all that can and were in time, or the leader alone.
    pub drafters: Vec<usize>,
    /// Their segments.
    pub candidates: Vec<Candidate>,
    /// Tokens of each, in its drafter's own; of a record the scores tell them.
    #[serde(skip)]
    pub tokens: Vec<usize>,
    /// Raw scores, a row a verifier, a column a candidate; empty if a fast end was accepted
    /// unverified. The row of a verifier that abstained is empty.
    pub scores: Vec<Vec<VerifiedScore>>,
    /// False where a fast end was accepted.
    pub verified: bool,
    /// Shares, a row a verifier; empty, as totals and counts, where there was no vote.
    pub normalised: Vec<Vec<f64>>,
    /// Y of each candidate.
    pub totals: Vec<f64>,
    /// The winner, an index into the candidates.
    pub winner: usize,
    /// Verifiers (places among the active) whose vote alone turned what all others agreed on.
    pub turned_by: Vec<usize>,
    /// c of each candidate.
    pub counts: Vec<usize>,
    /// Weights after the feedback.
    pub weights: Vec<f64>,
    /// Members (indices) that left after the round.
    pub exited: Vec<usize>,
    /// Members that were late in it, and had no candidate or no say for that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub abstained: Vec<Left>,
}

impl Round {
    /// The place among the active of the member that drafted this candidate.
    pub fn place_of(&self, candidate: usize) -> Option<usize> {
        let drafter = self.drafters.get(candidate)?;
        self.active.iter().position(|member| member == drafter)
    }

    /// The places of its drafters among the active.
    fn places(&self) -> Vec<usize> {
        let places = 0..self.active.len();
        let drafted = |place: &usize| self.drafters.contains(&self.active[*place]);
        places.filter(drafted).collect()
    }

    /// What its drafter said of a candidate counts its tokens as they were kept: without the word
    /// that was cut off.
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
    let number = query.round();
    let able: Vec<usize> = active
        .iter()
        .copied()
        .filter(|&index| members[index].drafts())
        .collect();
    let leader = query.leader();
    let mut leader = leader.filter(|&place| able.contains(&active[place]));
    let first = leader.map_or_else(|| able.clone(), |place| vec![active[place]]);
    let mut drafted = draft(members, &first, settings).await?;
    if leader.is_some() && drafted.drafters.is_empty() {
        // It is late: the others draft for themselves.
        let others: Vec<usize> = able
            .iter()
            .copied()
            .filter(|index| *index != first[0])
            .collect();
        drafted.join(draft(members, &others, settings).await?);
        leader = None;
    }
    // Where all are late the round is begun anew, until one drafts or has been late too often.
    while drafted.drafters.is_empty() && !drafted.late.is_empty() {
        if !watch.go_on() {
            return Err(Trouble::Stopped);
        }
        leader = None;
        drafted = draft(members, &able, settings).await?;
    }
    if drafted.drafters.is_empty() {
        let nobody = MoveError::Unknown("draft, nor can any other that is left");
        return Err(Trouble::Of(active[0], nobody));
    }
    let mut round = Round {
        active,
        ..drafted.into_round(number)
    };
    query.drafted(&round.places(), &round.candidates)?;
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

/// What was drafted, by whom, and who was late.
#[derive(Default)]
struct Drafted {
    drafters: Vec<usize>,
    candidates: Vec<Candidate>,
    /// As many as were drawn for each.
    tokens: Vec<usize>,
    late: Failed,
}

impl Drafted {
    /// Puts others' drafts between these, by member.
    fn join(&mut self, others: Self) {
        for (at, drafter) in others.drafters.into_iter().enumerate() {
            let place = self.drafters.partition_point(|&own| own < drafter);
            self.drafters.insert(place, drafter);
            self.candidates.insert(place, others.candidates[at].clone());
            self.tokens.insert(place, others.tokens[at]);
        }
        self.late.extend(others.late);
    }

    fn into_round(self, number: usize) -> Round {
        Round {
            active: Vec::new(),
            drafters: self.drafters,
            candidates: self.candidates,
            tokens: self.tokens,
            scores: Vec::new(),
            verified: true,
            normalised: Vec::new(),
            totals: Vec::new(),
            winner: 0,
            turned_by: Vec::new(),
            counts: Vec::new(),
            weights: Vec::new(),
            exited: Vec::new(),
            abstained: self
                .late
                .iter()
                .map(|late| abstained(number, late))
                .collect(),
        }
    }
}

/// What is told of a member that was late.
fn abstained(round: usize, (member, error): &(usize, MoveError)) -> Left {
    Left {
        member: *member,
        round,
        error: error.to_string(),
    }
}

/// The segments that `drafters` draft, cut to whole words. Who is late is left out.
async fn draft<M: TakePart>(
    members: &mut [M],
    drafters: &[usize],
    settings: &Settings,
) -> Result<Drafted, Trouble> {
    let drafting = taking_part(members, drafters).map(async |(index, member)| {
        match member.draft(settings.segment_tokens).await {
            Err(error) if !error.abstains() => Err(Trouble::Of(index, error)),
            outcome => Ok((index, outcome)),
        }
    });
    let mut drafted = Drafted::default();
    for (index, outcome) in together(drafting).await? {
        match outcome {
            Ok(Draft {
                text,
                ended,
                tokens,
            }) => {
                let text = cut(&text, ended).to_owned();
                drafted.drafters.push(index);
                drafted.candidates.push(Candidate { text, ended });
                drafted.tokens.push(tokens);
            }
            Err(error) => drafted.late.push((index, error)),
        }
    }
    Ok(drafted)
}

/// All verify what the leader drafted, which has this place among the active. Where nobody doubts
/// it, it is kept, and this gives who did not get it; otherwise all others draft, and the round is
/// still to be decided.
async fn trust<M: TakePart>(
    members: &mut [M],
    query: &mut Query,
    settings: &Settings,
    place: usize,
    round: &mut Round,
    watch: &mut impl Watch,
) -> Result<Option<Failed>, Trouble> {
    let number = query.round();
    let scores = verify(members, round, settings, watch, number).await?;
    if query.trusts(&raw(&scores))? {
        round.scores = scores;
        return Ok(Some(keep(members, round).await));
    }
    let mut others = round.active.clone();
    others.remove(place);
    others.retain(|&index| members[index].drafts());
    let mut drafted = Drafted {
        drafters: std::mem::take(&mut round.drafters),
        candidates: std::mem::take(&mut round.candidates),
        tokens: std::mem::take(&mut round.tokens),
        late: Failed::new(),
    };
    drafted.join(draft(members, &others, settings).await?);
    for late in &drafted.late {
        round.abstained.push(abstained(number, late));
    }
    (round.drafters, round.candidates) = (drafted.drafters, drafted.candidates);
    round.tokens = drafted.tokens;
    query.drafted(&round.places(), &round.candidates)?;
    Ok(None)
}

/// The scores alone, of the same shape.
fn raw(scores: &[Vec<VerifiedScore>]) -> Vec<Vec<Score>> {
    let row = |row: &Vec<VerifiedScore>| row.iter().map(|score| score.score).collect();
    scores.iter().map(row).collect()
}

/// What every active member says of every candidate, in one in-line pass each; an empty row of
/// those that only draft, or are late.
async fn verify<M: TakePart>(
    members: &mut [M],
    round: &mut Round,
    settings: &Settings,
    watch: &mut impl Watch,
    number: usize,
) -> Result<Vec<Vec<VerifiedScore>>, Trouble> {
    // The query has not changed yet: a round that ends here has not been.
    if !watch.go_on() {
        return Err(Trouble::Stopped);
    }
    let verifying = taking_part(members, &round.active).map(async |(index, member)| {
        match member.verify(&round.candidates, settings).await {
            Err(error) if !error.abstains() => Err(Trouble::Of(index, error)),
            outcome => Ok((index, outcome)),
        }
    });
    let mut rows = Vec::with_capacity(round.active.len());
    for (index, outcome) in together(verifying).await? {
        rows.push(outcome.unwrap_or_else(|error| {
            if round.abstained.iter().all(|known| known.member != index) {
                round.abstained.push(abstained(number, &(index, error)));
            }
            Vec::new()
        }));
    }
    Ok(rows)
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
    round.scores = verify(members, round, settings, watch, query.round()).await?;
    round.normalised = query.normalise(&raw(&round.scores))?;
    if settings.update == Update::Before {
        round.counts = query.feedback(&round.normalised)?.counts;
    }
    let selection = query.select(&round.normalised)?;
    if settings.update == Update::After {
        round.counts = query.feedback(&round.normalised)?.counts;
    }
    (round.totals, round.winner) = (selection.totals, selection.winner);
    round.turned_by = selection.turned_by;
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
