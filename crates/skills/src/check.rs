//! Whether a reply's final answer is right. Only the text after the last
//! `Answer:` counts; case, spaces and a closing full stop do not.

use crate::{Question, Skill};

/// The final answer that a reply states: the rest of the line after the last
/// `Answer:`, without its closing full stop. `None` if the reply states none.
pub fn final_answer(reply: &str) -> Option<String> {
    let lower = reply.to_lowercase();
    let (_, rest) = lower.rsplit_once("answer:")?;
    let line = rest.trim_start().lines().next()?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let answer = words.join(" ").replace(" ,", ",");
    let answer = answer.trim_end_matches(['.', ' ']);
    (!answer.is_empty()).then(|| answer.to_string())
}

/// Whether `reply` ends in the right final answer. Stories have none: they
/// never pass.
pub fn check(question: &Question, reply: &str) -> bool {
    question.skill != Skill::Story
        && final_answer(reply).is_some()
        && final_answer(reply) == final_answer(&question.answer)
}
