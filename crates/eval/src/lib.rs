//! What `conclave eval` computes without a model: questions of task files and whether an answer is
//! right, the choices among whole answers that an ensemble has to be better than, and how sure the
//! figures are.
//!
//! | | |
//! |---|---|
//! | read a task file, check an answer | [`tasks`] |
//! | choose among whole answers | [`choose`], [`chrf`] |
//! | 95 % intervals | [`interval`] |

pub mod choose;
pub mod chrf;
pub mod interval;
pub mod marker;
pub mod tasks;
pub mod words;
