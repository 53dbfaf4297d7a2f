//! The method: several language models answer as one, segment by segment. SpecFuse
//! (arXiv 2412.07380, v1 and v2) and its later version SpecEM (v3); the crate's equations bear the
//! paper's numbers.
//!
//! Pure and deterministic: no models, no GPUs, no clock, no randomness. Members are indices, text
//! is `str`, scores are numbers; drafting and verifying is up to the caller.
//!
//! # One round
//!
//! ```
//! use conclave_ensemble::{Candidate, Query, Score, Settings, Update, cut};
//!
//! # fn draft(_: usize) -> (&'static str, bool) { ("It is four.", true) }
//! # fn verify(_: usize, c: &[Candidate]) -> Vec<Score> {
//! #     c.iter().map(|_| Score::of_logprobs(&[-0.2, -0.3])).collect()
//! # }
//! # fn keep(_: usize, _: &Candidate) {}
//! let mut query = Query::new(3, Settings::default())?;
//! let mut answer = String::new();
//! loop {
//!     let members = query.active().to_vec();
//!     let candidates: Vec<Candidate> = members.iter().map(|&i| {
//!         let (text, ended) = draft(i);
//!         Candidate { text: cut(text, ended).to_owned(), ended }
//!     }).collect();
//!     let scores: Vec<Vec<Score>> = members.iter().map(|&i| verify(i, &candidates)).collect();
//!
//!     let shares = query.normalise(&scores)?;
//!     if query.settings().update == Update::Before { query.feedback(&shares)?; }
//!     let winner = query.select(&shares)?.winner;
//!     if query.settings().update == Update::After { query.feedback(&shares)?; }
//!
//!     answer += &candidates[winner].text;
//!     for &i in &members { keep(i, &candidates[winner]); }
//!     query.exit(winner)?;
//!     if query.stop(&candidates[winner]).is_some() { break; }
//! }
//! assert_eq!(answer, "It is four.");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Steps
//!
//! | step | what it does | where |
//! |---|---|---|
//! | trust | weight of each member from the start | [`Query::trust`], [`strength`] |
//! | lead | one drafts for all, while no member doubts it | [`Query::leader`], [`Query::trusts`] |
//! | cut | a draft to whole words | [`cut`], [`segment`] |
//! | drafted | drafters of the candidates, if not all drafted | [`Query::drafted`], [`mod@vote`] |
//! | normalise | scores to shares, Eq. 3, guarded | [`Query::normalise`], [`score`] |
//! | agree | candidates that say the same in another form | [`Query::drafted`], [`mod@agreement`] |
//! | repeat | candidates that say nothing new | [`Query::ask`], [`mod@repetition`] |
//! | select | Y_j = Σ w_i·ŝ_ij, Eq. 4 | [`Query::select`], [`mod@select`] |
//! | feedback | w_j ← w_j·exp(η·r_j), Eq. 5 | [`Query::feedback`], [`mod@feedback`] |
//! | exit | weak members leave | [`Query::exit`], [`mod@exit`] |
//! | stop | the answer is over | [`Query::stop`], [`Query::fast_winner`], [`ending`] |
//! | rounds | all of these in order, as moves of the members | [`Rounds`], [`moves`], [`report`] |
//! | settings | all options, validated | [`Settings`], [`settings`], [`switches`] |
//! | replay | a recorded run, under other settings | [`mod@replay`] |

pub mod agreement;
mod ballot;
pub mod ending;
pub mod error;
pub mod exit;
pub mod feedback;
pub mod moves;
pub mod query;
pub mod repetition;
pub mod replay;
pub mod report;
pub mod score;
pub mod segment;
pub mod select;
pub mod settings;
pub mod strength;
pub mod switches;
pub mod vote;

pub use ending::{Limits, Stop};
pub use error::RoundError;
pub use feedback::Feedback;
pub use moves::{Event, Failed, Failure, Move, Rounds};
pub use query::Query;
pub use report::Round;
pub use score::{Score, VerifiedScore};
pub use segment::{Candidate, Draft, cut};
pub use select::{Selection, Votes};
pub use settings::{Exit, Leader, MEMBERS, SettingRange, Settings, SettingsError};
pub use switches::{Rate, Reward, Rule, Scoring, Update};
pub use vote::Vote;
