//! Measures an ensemble's rounds, in the loop that answers.

use std::time::Instant;

use conclave_ensemble::{Leader, Settings};
use conclave_member::Member;
use conclave_rounds::{Ask, Limits, Question, Round, answer};
use serde::Serialize;

use super::Course;
use super::alone::ms_since;
use super::counts::{Counts, Meter};
use super::text::{conversation, forget};
use super::times::{Repeats, Spread, Times};
use crate::args::Drafting;
use crate::failure::Failure;
use crate::progress::EachRound;

/// Rounds in a row; the first is reported separately, since it waits for the prompt.
const ROUNDS_IN_A_ROW: usize = 3;

/// Leader that no member doubts. Its rounds cost as much as rounds in which the members agree,
/// whatever scores they give.
const UNDOUBTED: Leader = Leader { doubt: 1e3 };

/// Times of an ensemble at one prefix, in milliseconds.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RoundReport {
    pub members: usize,
    pub drafting: Drafting,
    pub prefix: usize,
    /// Whether there was time for the first run only.
    pub cold: bool,
    /// A round after the first.
    pub ms: Option<Spread>,
    /// From the question to the first segment, with the whole conversation run anew.
    pub first_segment_ms: Option<Spread>,
    /// Tokens of the answer per second, as counted by the winner, in rounds after the first.
    pub tokens_per_second: f64,
    /// Tokens that a member ran per round, the mean over members and rounds.
    pub tokens_run: f64,
    /// Tokens that it must run: L − 1 if it drafts, and the others' candidates, in its own
    /// tokens.
    pub tokens_due: f64,
    /// GPU operations of the last round.
    pub counts: Option<Counts>,
    /// Bytes of GPU memory in use after it.
    pub gpu_bytes: Option<u64>,
}

/// Measures the ensemble of all `members` at a prefix of about `prefix` tokens.
pub async fn measure(
    members: &mut [Member],
    drafting: Drafting,
    prefix: usize,
    course: &Course<'_>,
    meter: Meter<'_>,
) -> Result<RoundReport, Failure> {
    let sampling = course.sampling;
    let settings = Settings {
        segment_tokens: course.segment_tokens,
        // A second candidate is a first round's, and random weights would always draft one.
        branch: 0.0,
        alone: 0.0,
        max_rounds: ROUNDS_IN_A_ROW,
        max_repeats: ROUNDS_IN_A_ROW,
        leader: match drafting {
            Drafting::All => None,
            Drafting::Leader => Some(UNDOUBTED),
        },
        ..Settings::default()
    };
    let messages = match members.first_mut() {
        Some(member) => conversation(member, prefix, sampling).await?,
        None => Vec::new(),
    };
    // Tokens of the prompt that must be run after another one.
    let (mut longest, mut prompts) = (0, 0);
    for member in members.iter_mut() {
        forget(member, sampling).await?;
        let begun = member.begin(&messages, sampling, 0).await?;
        longest = longest.max(begun.prefix);
        prompts += begun.run;
    }

    let question = Ask {
        question: Question::Conversation(&messages),
        settings: &settings,
        sampling,
        limits: Limits::default(),
        form: None,
    };
    let [mut first, mut later]: [Times; 2] = Default::default();
    let (mut written, mut tokens_run, mut tokens_due, mut rounds_run) = (0, 0, 0, 0);
    let mut counts = None;
    let mut repeats = Repeats::new(course.repeats, course.limit_seconds);
    while repeats.due() {
        let whole = Instant::now();
        for member in members.iter_mut() {
            forget(member, sampling).await?;
        }
        let ran = run_so_far(members);
        let (mut ms, mut due, mut answered) = (Vec::new(), Vec::new(), 0);
        let (mut started, mut asked) = (Instant::now(), meter.read());
        let watch = |round: &Round| {
            if !ms.is_empty() {
                counts = meter.since(asked);
                answered += tokens_of_winner(round);
            }
            ms.push(ms_since(started));
            due.push(tokens_due_in(round, course.segment_tokens));
            (started, asked) = (Instant::now(), meter.read());
        };
        answer(members, &question, &mut EachRound(watch)).await?;
        let ran = run_so_far(members).saturating_sub(ran + prompts);
        if repeats.counts(ms_since(whole)) {
            first.0.extend(ms.first());
            later.0.extend(ms.iter().skip(1));
            written += answered;
            tokens_run += ran;
            tokens_due += due.iter().sum::<usize>();
            rounds_run += due.len() * members.len();
        }
    }
    let mean = |tokens: usize| tokens as f64 / rounds_run as f64;
    Ok(RoundReport {
        members: members.len(),
        drafting,
        prefix: longest,
        cold: repeats.cold,
        ms: later.spread(),
        first_segment_ms: first.spread(),
        tokens_per_second: 1e3 * written as f64 / later.0.iter().sum::<f64>(),
        tokens_run: mean(tokens_run),
        tokens_due: mean(tokens_due),
        counts: counts.map(|counters| Counts::over(counters, 1)),
        gpu_bytes: meter.gpu().map(conclave_kernels::Gpu::memory_in_use),
    })
}

/// Tokens run by these members since loading.
fn run_so_far(members: &[Member]) -> usize {
    let of = |member: &Member| {
        let counters = member.counters();
        counters.prefill_tokens + counters.draft_tokens + counters.verify_tokens
    };
    members.iter().map(of).sum()
}

/// Total tokens that the members of a round must run: L − 1 of each drafter's own, and every
/// member the others' candidates.
fn tokens_due_in(round: &Round, segment_tokens: usize) -> usize {
    let of = |(verifier, row): (usize, &Vec<conclave_member::VerifiedScore>)| {
        let written = row.iter().enumerate();
        let others = written.filter(|&(j, _)| round.place_of(j) != Some(verifier));
        others.map(|(_, score)| score.tokens).sum::<usize>()
    };
    let drafted = round.drafters.len() * (segment_tokens - 1);
    drafted + round.scores.iter().enumerate().map(of).sum::<usize>()
}

/// Tokens of the accepted segment, as counted by its writer.
fn tokens_of_winner(round: &Round) -> usize {
    let own = round.place_of(round.winner);
    own.and_then(|own| round.scores.get(own)?.get(round.winner))
        .map_or(0, |score| score.tokens)
}

#[cfg(test)]
mod tests {
    use conclave_ensemble::Score;
    use conclave_member::VerifiedScore;

    use super::*;

    #[test]
    fn a_member_runs_its_draft_and_what_others_wrote() {
        let score = |tokens| VerifiedScore {
            score: Score::default(),
            tokens,
        };
        let rows = [[10, 7, 5], [11, 8, 6], [9, 8, 4]];
        let mut round = Round {
            active: vec![0, 1, 2],
            drafters: vec![0, 1, 2],
            candidates: Vec::new(),
            tokens: Vec::new(),
            scores: rows.map(|row| row.map(score).to_vec()).to_vec(),
            verified: true,
            normalised: Vec::new(),
            totals: Vec::new(),
            winner: 1,
            writers: vec![1],
            turned_by: Vec::new(),
            counts: Vec::new(),
            weights: Vec::new(),
            exited: Vec::new(),
            abstained: Vec::new(),
        };
        assert_eq!(
            tokens_due_in(&round, 10),
            3 * 9 + (7 + 5) + (11 + 6) + (9 + 8)
        );
        assert_eq!(tokens_of_winner(&round), 8);
        // Only the second drafted.
        round.drafters = vec![1];
        round.scores = rows.map(|row| vec![score(row[1])]).to_vec();
        assert_eq!(tokens_due_in(&round, 10), 9 + 7 + 8);
    }
}
