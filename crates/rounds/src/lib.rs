//! Drives the rounds of one answer natively, as `web/src/worker/round.ts` does in the page: members
//! make the moves that `conclave_ensemble::Rounds` returns.
//!
//! | to | see |
//! |---|---|
//! | ask members | [`answer()`], with an [`Ask`] |
//! | observe the answer, and stop it | [`Watch`] |
//! | limit its tokens, or end it before a text | [`Limits`] |
//! | leave out old turns of a long conversation | [`leave_out`] |
//! | constrain it to a JSON schema | [`check_schema`], [`Form`] |
//! | let it call functions | [`Calls`], [`TakePart::set_tools`] |
//! | add a kind of member other than a local model | [`TakePart`], [`AnyMember`] |
//! | go on without a server that is down, until it is back | [`Away`] |
//!
//! ```
//! use conclave_ensemble::Settings;
//! use conclave_member::{Member, Message};
//! use conclave_model::Sampling;
//! use conclave_rounds::{AnswerError, Ask, Limits, Question, Watch, answer};
//!
//! struct Unwatched;
//! impl Watch for Unwatched {}
//!
//! # #[allow(dead_code)]
//! /// The members' answer to a question, as one.
//! async fn as_one(members: &mut [Member], question: &str) -> Result<String, AnswerError> {
//!     let conversation = [Message::new("user", question)];
//!     let ask = Ask {
//!         question: Question::Conversation(&conversation),
//!         settings: &Settings::default(),
//!         sampling: Sampling::greedy(),
//!         limits: Limits::default(),
//!         form: None,
//!     };
//!     Ok(answer(members, &ask, &mut Unwatched).await?.text)
//! }
//! ```

mod answer;
mod any_member;
mod away;
mod counted;
mod fitting;
mod form;
mod round;
mod taking_part;
mod together;

pub use conclave_grammar::{CLOSE, Calls, Function, GrammarError, OPEN, check as check_schema};
pub use conclave_remote::read_json;

pub use answer::{Answer, AnswerError, Ask, Left, Question, STOPPED, Timings, Watch, answer};
pub use any_member::AnyMember;
pub use away::{Away, Connect};
pub use conclave_ensemble::Limits;
pub use fitting::leave_out;
pub use form::{Form, FormOf, Lexicon, Shape};
pub use round::Round;
pub use taking_part::{MoveError, TakePart};
