//! The parts of `conclave eval` that need no model: questions of task files and whether an answer
//! is right, the choices among whole answers that an ensemble has to be better than, and how sure
//! the figures are.
//!
//! | to | see |
//! |---|---|
//! | read a task file, check an answer | [`tasks`], [`conversation`] |
//! | run the code in an answer | [`code`], [`python`] |
//! | choose among whole answers | [`choose`], [`chrf`], [`router`] |
//! | 95 % intervals | [`interval`], [`beta`] |
//! | measure an answer's wording | [`wording`], [`marker`] |
//! | answers to a question, and all ways of answering | [`outcome`], [`ways`] |
//! | the report and its Markdown | [`report`], [`table`] |
//! | parts of the report | [`against`], [`ceiling`], [`draws`], [`means`], [`rounds`] |

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
pub mod table;
pub mod tasks;
pub mod ways;
pub mod wording;
pub mod words;
