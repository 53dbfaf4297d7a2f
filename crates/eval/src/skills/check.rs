//! Checks a reply's final answer: the text after the last `Answer:`, ignoring case, spaces and a
//! final full stop.

use super::{Question, Skill};

/// Extracts the final answer of a reply: the rest of the line after the last `Answer:`, without a
/// final full stop. `None` if there is none.
pub fn final_answer(reply: &str) -> Option<String> {
    let lower = reply.to_lowercase();
    let (_, rest) = lower.rsplit_once("answer:")?;
    let line = rest.trim_start().lines().next()?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let answer = words.join(" ").replace(" ,", ",");
    let answer = answer.trim_end_matches(['.', ' ']);
    (!answer.is_empty()).then(|| answer.to_string())
}

/// Returns whether `reply` ends with the right final answer. Stories have none and never pass.
pub fn check(question: &Question, reply: &str) -> bool {
    question.skill != Skill::Story
        && final_answer(reply).is_some()
        && final_answer(reply) == final_answer(&question.answer)
}
