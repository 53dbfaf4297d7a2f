//! Model-free parts of `conclave eval`: task files and checking of answers, baselines that choose
//! among whole answers, and statistics of the results.
//!
//! | to | see |
//! |---|---|
//! | generate questions | [`skills`] |
//! | read a task file, check an answer | [`tasks`], [`conversation`] |
//! | run the code in an answer | [`code`], [`python`] |
//! | choose among whole answers | [`choose`], [`chrf`], [`router`] |
//! | 95 % intervals | [`interval`], [`beta`] |
//! | measure an answer's wording | [`wording`], [`marker`] |
//! | answers to a question, and all ways of answering | [`outcome`], [`ways`] |
//! | the report and its Markdown | [`report`], [`table`] |
//! | parts of the report | [`against`], [`ceiling`], [`draws`], [`means`], [`rounds`] |
//!
//! ```
//! use std::path::Path;
//!
//! use conclave_eval::{interval::interval, tasks};
//!
//! # fn main() -> Result<(), conclave_eval::tasks::TaskError> {
//! let line = r#"{"question": "What is 2 + 2?", "answer": ["4", "four"]}"#;
//! let tasks = tasks::parse(Path::new("sums.jsonl"), line)?;
//! assert!(tasks[0].check("It is four."));
//! // 95 % interval of a mean over ten questions, nine of them right.
//! let right = [1., 1., 1., 1., 0., 1., 1., 1., 1., 1.];
//! assert!(interval(&right, 0).is_some_and(|found| found.low > 0.6));
//! # Ok(())
//! # }
//! ```

pub mod against;
pub mod beta;
pub mod ceiling;
pub mod choose;
pub mod chrf;
pub mod code;
pub mod conversation;
pub mod draws;
pub mod interval;
pub mod marker;
pub mod means;
pub mod outcome;
pub mod python;
pub mod report;
pub mod rounds;
pub mod router;
pub mod skills;
pub mod table;
pub mod tasks;
pub mod ways;
pub mod wording;
pub mod words;
