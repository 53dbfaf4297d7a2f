//! Drives the rounds of one answer natively, as `web/src/worker/round.ts` does in the page: members
//! make the moves that `conclave_ensemble::Rounds` names.
//!
//! | to | see |
//! |---|---|
//! | ask members | [`answer`], with an [`Ask`] |
//! | hear of it as it goes, and stop it | [`Watch`] |
//! | end it by tokens, or before a text | [`Limits`] |
//! | hold it to a JSON schema | [`check_schema`], [`Form`] |
//! | let something else than a local model take part | [`TakePart`], [`AnyMember`] |

mod answer;
mod form;
mod round;
mod taking_part;
mod together;

pub use conclave_grammar::{GrammarError, check as check_schema};
pub use conclave_remote::read_json;

pub use answer::{Answer, AnswerError, Ask, Left, Question, STOPPED, Watch, answer};
pub use conclave_ensemble::Limits;
pub use form::{Form, FormOf, Lexicon};
pub use round::Round;
pub use taking_part::{AnyMember, MoveError, TakePart};
