//! Replay: runs the method again on a recorded run, under any settings.
//!
//! A run is recorded as `{"members": [...], "rounds": [{"scores": [[...], ...]}, ...]}`: raw
//! scores, a row per verifier, a column per candidate, both in the order of `members`. The row of a
//! verifier that abstained is empty. Other fields are ignored, so the page's download is a recorded
//! run.
//!
//! Limits: scores are those of the recorded candidates. If other settings choose another winner,
//! the later rounds remain those that followed the recorded one, and so does the answer so far,
//! which rules read (its repetition, for example) if winners are recorded. Rules that stop an
//! answer are not applied; every recorded round is played.

use serde::{Deserialize, Serialize};

use crate::{Candidate, Query, RoundError, Score, Scoring, Settings, SettingsError, Update};

/// A recorded run.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Run {
    /// Members, one to eight: names, or objects with more fields. Only their number matters here.
    #[serde(deserialize_with = "count")]
    pub members: usize,
    /// Strengths of the members, if recorded; `null` for an unknown one.
    #[serde(default)]
    pub strengths: Option<Vec<Option<f64>>>,
    /// Members that chat (not base models), if recorded; otherwise all do.
    #[serde(default)]
    pub chats: Option<Vec<bool>>,
    /// Conversation, if recorded.
    #[serde(default)]
    pub messages: Vec<RecordedTurn>,
    /// Rounds in order.
    pub rounds: Vec<RecordedRound>,
}

/// A turn of the conversation.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct RecordedTurn {
    /// Its text.
    pub content: String,
}

/// A recorded round.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct RecordedRound {
    /// Raw scores, `[verifiers][candidates]`, square unless some members did not draft or
    /// abstained.
    #[serde(default)]
    pub scores: Vec<Vec<RecordedScore>>,
    /// Candidates by column, if their texts were recorded.
    #[serde(default)]
    pub candidates: Vec<Candidate>,
    /// Winner, an index into `candidates`, if recorded: its text is part of the answer for the
    /// rounds after it.
    #[serde(default)]
    pub winner: Option<usize>,
    /// Members (indices into `members`) of the rows, ascending, if some had left the recorded run.
    /// Without it the scores cover all members, or those still active in the replay.
    ///
    /// A member that is not listed has no further scores: it leaves the replay as well. Rows and
    /// columns of members that have left the replay are skipped.
    #[serde(default)]
    pub active: Option<Vec<usize>>,
    /// False for a round that was accepted unverified (fast mode). It has no scores and is not part
    /// of the replay.
    #[serde(default = "yes")]
    pub verified: bool,
    /// Members of the columns, ascending, if not all active ones drafted. A round that a leader
    /// drafted alone has no vote, and is not part of the replay; nor is one whose drafters have all
    /// left the replay.
    #[serde(default)]
    pub drafters: Option<Vec<usize>>,
}

impl RecordedRound {
    /// Whether the round had no vote: a leader drafted alone, or the strongest member answered
    /// alone.
    fn unvoted(&self) -> bool {
        let rows = self.active.as_ref().map_or(self.scores.len(), Vec::len);
        let asked = self.scores.iter().filter(|row| !row.is_empty()).count();
        let drafters = self.drafters.as_ref();
        drafters.is_some_and(|drafters| {
            let one = drafters.windows(2).all(|pair| pair[0] == pair[1]);
            drafters.len() < rows.min(2) || (one && asked < rows.min(2))
        })
    }
}

/// A recorded score.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum RecordedScore {
    /// A number, in the kind that the scoring uses.
    Number(f64),
    /// All kinds that a verifier reported.
    Means {
        /// Scores by their names; a JSON list is refused.
        #[serde(flatten)]
        means: Score,
    },
    /// `null`, as JSON writes NaN; an error if the scoring needs the score.
    Missing,
}

/// Largest harmonic score of a candidate of which a verifier is wholly sure, in nats.
const ROUNDING: f64 = 1e-3;

impl RecordedScore {
    /// The score that `scoring` uses, if there is one.
    fn by(self, scoring: Scoring) -> Option<Score> {
        let mut score = Score::default();
        match (self, scoring) {
            // −ln(1 + Σ (1/p − 1)) is above 0 by rounding only: a larger number belongs to another
            // scoring.
            (Self::Number(number), Scoring::Harmonic) => {
                score.harmonic = Some(number).filter(|&number| number <= ROUNDING);
            }
            (Self::Number(number), Scoring::Logit) => score.mean_logit = Some(number),
            (Self::Number(number), Scoring::Likelihood) => score.mean_logprob = Some(number),
            (Self::Means { means }, _) => score = means,
            (Self::Missing, _) => {}
        }
        score.kind(scoring).map(|_| score)
    }
}

/// Result of a replay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Replay {
    /// Its rounds with a vote, in order.
    pub rounds: Vec<ReplayedRound>,
}

/// A round as the method sees it. Rows and weights go by `active`, columns by `drafters`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplayedRound {
    /// Shares, `[verifiers][candidates]`.
    pub normalised: Vec<Vec<f64>>,
    /// Y, `[candidates]`.
    pub totals: Vec<f64>,
    /// Winner, an index into `totals`.
    pub winner: usize,
    /// c of the feedback, `[candidates]`.
    pub counts: Vec<usize>,
    /// Weights after this round's feedback, before any member leaves.
    pub weights: Vec<f64>,
    /// Active members of this round: position → index into the run's members.
    pub active: Vec<usize>,
    /// Drafters of the candidates (indices).
    pub drafters: Vec<usize>,
    /// Members (indices) that left after it.
    pub exited: Vec<usize>,
}

/// A recorded run that can't be played.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ReplayError {
    /// Invalid settings, or number of members.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Invalid strengths.
    #[error(transparent)]
    Strengths(#[from] RoundError),
    /// Invalid numbers of a round. Rounds count from 1.
    #[error("round {round}: {source}")]
    Round {
        /// The round, from 1.
        round: usize,
        /// Its error.
        source: RoundError,
    },
    /// A matrix of scores with neither a row per member nor a row per active member.
    #[error(
        "round {round}: {rows} rows of scores, but the run has {members} members and {active} of \
         them are active in the replay: record all members' scores, or name the rows' members in \
         \"active\""
    )]
    Size {
        /// The round, from 1.
        round: usize,
        /// Rows recorded.
        rows: usize,
        /// Number of members of the run.
        members: usize,
        /// Number of members active in the replay.
        active: usize,
    },
    /// A list of active members or of drafters with a duplicate, a wrong order, an unknown member,
    /// or a drafter that is not active.
    #[error(
        "round {round}: \"active\" must name members by index, ascending, each below {members} and \
         once, and \"drafters\" some of them: correct the recording"
    )]
    Active {
        /// The round, from 1.
        round: usize,
        /// Number of members of the run.
        members: usize,
    },
    /// A score that the scoring needs was not recorded.
    #[error(
        "round {round}: verifier {verifier} has no {scoring} score of candidate {candidate}: \
         replay with the scoring that was recorded"
    )]
    Missing {
        /// The round, from 1.
        round: usize,
        /// Verifier, an index into the run's members.
        verifier: usize,
        /// Candidate, an index into the run's members.
        candidate: usize,
        /// Scoring of the settings.
        scoring: Scoring,
    },
}

/// Plays `run` through the method under `settings`.
///
/// # Errors
/// [`ReplayError`], naming the round. Nothing in a run can make it panic.
///
/// ```
/// use conclave_ensemble::{Rule, Settings, replay::{Run, replay}};
///
/// let run: Run = serde_json::from_str(
///     r#"{"members": ["a", "b", "c"],
///         "rounds": [{"scores": [[2.3, 2.6, 3.2], [1.4, 1.6, 2.2], [0.6, 0.3, 0.5]]}]}"#,
/// )?;
/// let replayed = replay(&run, &Settings::preset(Rule::Paper))?;
/// assert_eq!(replayed.rounds[0].winner, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn replay(run: &Run, settings: &Settings) -> Result<Replay, ReplayError> {
    let mut query = Query::new(run.members, settings.clone())?;
    if let Some(strengths) = &run.strengths {
        let strengths = strengths.iter().map(|one| one.unwrap_or(f64::NAN));
        let strengths: Vec<f64> = strengths.collect();
        let chats = run.chats.clone();
        query.trust(
            &strengths,
            &chats.unwrap_or_else(|| vec![true; strengths.len()]),
        )?;
    }
    query.ask(run.messages.iter().map(|turn| turn.content.as_str()));
    let mut rounds = Vec::new();
    for (index, recorded) in run.rounds.iter().enumerate() {
        if recorded.verified && !recorded.unvoted() {
            rounds.extend(play(run.members, index + 1, recorded, &mut query)?);
        }
        query.next_round();
        let winner = recorded.winner.and_then(|at| recorded.candidates.get(at));
        query.begin(winner.map_or("", |winner| &winner.text));
    }
    Ok(Replay { rounds })
}

/// Plays one round; `None` if its drafters have all left.
fn play(
    members: usize,
    round: usize,
    recorded: &RecordedRound,
    query: &mut Query,
) -> Result<Option<ReplayedRound>, ReplayError> {
    let wrong = |source| ReplayError::Round { round, source };
    let (scores, drafters) = scores(members, round, recorded, query)?;
    if drafters.is_empty() {
        return Ok(None);
    }
    let active = query.active().to_vec();
    let place = |drafter: &usize| active.iter().position(|member| member == drafter);
    let places: Vec<usize> = drafters.iter().filter_map(place).collect();
    let texts = candidates(recorded, &drafters);
    query.drafted(&places, &texts).map_err(wrong)?;
    let normalised = query.normalise(&scores).map_err(wrong)?;
    let (feedback, selection) = match query.settings().update {
        Update::Before => {
            let feedback = query.feedback(&normalised).map_err(wrong)?;
            (feedback, query.select(&normalised).map_err(wrong)?)
        }
        Update::After => {
            let selection = query.select(&normalised).map_err(wrong)?;
            (query.feedback(&normalised).map_err(wrong)?, selection)
        }
    };
    let exited = query.exit(selection.winner).map_err(wrong)?;
    Ok(Some(ReplayedRound {
        normalised,
        totals: selection.totals,
        winner: selection.winner,
        counts: feedback.counts,
        weights: feedback.weights,
        active,
        drafters,
        exited,
    }))
}

/// Candidates of `drafters`, if recorded.
fn candidates(recorded: &RecordedRound, drafters: &[usize]) -> Vec<Candidate> {
    let whose = recorded.drafters.as_ref().or(recorded.active.as_ref());
    let Some(whose) = whose else {
        let found = drafters
            .iter()
            .map(|&drafter| recorded.candidates.get(drafter));
        return found
            .map(Option::<&Candidate>::cloned)
            .collect::<Option<_>>()
            .unwrap_or_default();
    };
    if recorded.candidates.len() != whose.len() {
        return Vec::new();
    }
    // Those of members that have left are passed over.
    let found = whose.iter().zip(&recorded.candidates);
    let found = found.filter(|(drafter, _)| drafters.contains(drafter));
    found.map(|(_, candidate)| candidate.clone()).collect()
}

/// Recorded scores among the members active in the replay, and their drafters, after members
/// without scores have left it.
fn scores(
    members: usize,
    round: usize,
    recorded: &RecordedRound,
    query: &mut Query,
) -> Result<(Vec<Vec<Score>>, Vec<usize>), ReplayError> {
    let rows = &recorded.scores;
    let present: Vec<usize> = match &recorded.active {
        Some(active) => {
            let ascending = active.is_sorted_by(|a, b| a < b);
            if !ascending || active.iter().any(|&member| member >= members) {
                return Err(ReplayError::Active { round, members });
            }
            active.clone()
        }
        None if rows.len() == members => (0..members).collect(),
        None if rows.len() == query.active().len() => query.active().to_vec(),
        None => {
            return Err(ReplayError::Size {
                round,
                rows: rows.len(),
                members,
                active: query.active().len(),
            });
        }
    };
    let wrong = |source| ReplayError::Round { round, source };
    if rows.len() != present.len() {
        return Err(wrong(RoundError::Rows {
            found: rows.len(),
            members: present.len(),
        }));
    }
    let drafters = recorded.drafters.as_ref().unwrap_or(&present);
    if !drafters.is_sorted() || drafters.iter().any(|d| !present.contains(d)) {
        return Err(ReplayError::Active { round, members });
    }
    let fits = |row: &Vec<RecordedScore>| row.is_empty() || row.len() == drafters.len();
    if let Some(verifier) = rows.iter().position(|row| !fits(row)) {
        return Err(wrong(RoundError::Row {
            verifier,
            found: rows[verifier].len(),
            candidates: drafters.len(),
        }));
    }
    let gone: Vec<usize> = (0..members).filter(|m| !present.contains(m)).collect();
    query.leave(&gone).map_err(wrong)?;
    let scoring = query.settings().scoring;
    let here = |member: usize| query.active().contains(&member);
    let mut scores = Vec::new();
    for (&verifier, row) in present.iter().zip(rows).filter(|&(&m, _)| here(m)) {
        let mut kept = Vec::new();
        for (&candidate, score) in drafters.iter().zip(row).filter(|&(&m, _)| here(m)) {
            kept.push(score.by(scoring).ok_or(ReplayError::Missing {
                round,
                verifier,
                candidate,
                scoring,
            })?);
        }
        scores.push(kept);
    }
    let drafters = drafters.iter().copied().filter(|&m| here(m)).collect();
    Ok((scores, drafters))
}

fn count<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    Ok(Vec::<serde::de::IgnoredAny>::deserialize(deserializer)?.len())
}

fn yes() -> bool {
    true
}
