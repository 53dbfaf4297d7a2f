//! One member of an ensemble: a model with its tokenizer, its chat template and
//! the conversation it is in.
//!
//! | step of the method | call |
//! |---|---|
//! | see whether the conversation fits | [`Member::measure`] |
//! | take in the question | [`Member::begin`] |
//! | think aloud first, if the model does and may | [`Member::set_thinking`], [`Member::think_while`] |
//! | draft a segment | [`Member::draft`] |
//! | hold its drafts to a form | a [`Constraint`] over [`Member::vocabulary`], [`Member::constrain`] |
//! | score all candidates in one pass | [`Member::verify`] |
//! | keep the winner | [`Member::keep`] |
//! | leave the query | [`Member::release`] |
//! | read a system prompt once for all visits | [`Member::system_key`], [`Member::give_system`], [`Member::take_prefix`] |
//! | answer alone instead | [`Member::write`] |
//! | continue a bare text instead of a conversation, or judge one | [`Member::begin_text_while`], [`Member::judge_text`] |
//!
//! Candidates cross between members as text: each verifier reads them in its
//! own tokens.

mod constraint;
mod error;
mod kept;
mod member;
mod thinking;

pub use conclave_ensemble::{Draft, VerifiedScore};
pub use conclave_text::Message;
pub use constraint::Constraint;
pub use error::MemberError;
pub use member::{Begun, Judged, JudgedToken, Member};
pub use thinking::{Thinking, Thought};
