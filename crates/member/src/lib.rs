//! One member of an ensemble: a model with its tokenizer, its chat template and its conversation.
//!
//! | step of the method | call |
//! |---|---|
//! | check whether the conversation fits | [`Member::measure`] |
//! | read the question | [`Member::begin`] |
//! | think aloud first, if the model can and may | [`Member::set_thinking`], [`Member::think_while`] |
//! | draft a segment | [`Member::draft`] |
//! | constrain its drafts | a [`Constraint`] over [`Member::vocabulary`], [`Member::constrain`] |
//! | score all candidates in one pass | [`Member::verify`] |
//! | keep the winner | [`Member::keep`] |
//! | leave the query | [`Member::release`] |
//! | read a system prompt once for all visits | [`Member::system_key`], [`Member::give_system`], [`Member::take_prefix`] |
//! | answer alone instead | [`Member::write`] |
//! | continue a bare text instead of a conversation, or score one | [`Member::begin_text_while`], [`Member::judge_text`] |
//! | embed a text | [`Member::embed`] |
//!
//! Candidates cross between members as text: each verifier reads them in its own tokens.
//!
//! ```
//! use conclave_ensemble::{Candidate, Settings};
//! use conclave_member::{Member, MemberError, Message};
//! use conclave_model::{Cpu, LoadOptions, Sampling};
//! use conclave_weights::Disk;
//!
//! # #[allow(dead_code)]
//! /// Drafts a segment, scores it as the only candidate, and keeps it.
//! async fn one_round(path: &str) -> Result<String, MemberError> {
//!     let source = Disk::open(path).map_err(conclave_weights::CheckpointError::from)?;
//!     let options = LoadOptions::with_context(2048);
//!     let mut member = Member::load("ada", &source, &Cpu::ALONE, options, &mut |_| ()).await?;
//!     let question = [Message::new("user", "How many legs has a spider?")];
//!     member.begin(&question, Sampling::greedy(), 0).await?;
//!     let draft = member.draft(16).await?;
//!     let candidates = [Candidate { text: draft.text, ended: draft.ended }];
//!     member.verify(&candidates, &Settings::default()).await?;
//!     member.keep(0).await?;
//!     let [candidate] = candidates;
//!     Ok(candidate.text)
//! }
//! ```

mod constraint;
mod error;
mod kept;
mod member;
mod thinking;

pub use conclave_ensemble::{Draft, VerifiedScore};
pub use conclave_text::{Message, Tool, ToolCall, instructions, written_out};
pub use constraint::Constraint;
pub use error::MemberError;
pub use member::{Begun, ChosenToken, Embedding, Judged, JudgedToken, Member, Passage};
pub use thinking::{Thinking, Thought};
