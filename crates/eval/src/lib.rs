//! What `conclave eval` computes without a model: questions of task files and whether an answer is
//! right, the choices among whole answers that an ensemble has to be better than, and how sure the
//! figures are.
//!
//! | | |
//! |---|---|
//! | read a task file, check an answer | [`tasks`], [`conversation`] |
//! | run the code in an answer | [`code`], [`python`] |
//! | choose among whole answers | [`choose`], [`chrf`] |
//! | 95 % intervals | [`interval`], [`beta`] |
//! | measure the wording of an answer | [`wording`], [`marker`] |
//! | what a question came to, and what every way of answering makes of it | [`outcome`], [`ways`] |
//! | the report and its Markdown | [`report`], [`table`] |

pub mod beta;
pub mod choose;
pub mod chrf;
pub mod code;
pub mod conversation;
pub mod interval;
pub mod marker;
pub mod outcome;
pub mod python;
pub mod report;
pub mod table;
pub mod tasks;
pub mod ways;
pub mod wording;
pub mod words;
