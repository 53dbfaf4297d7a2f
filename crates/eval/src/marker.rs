//! Detects conversation markup in an answer: a model that fails to stop writes the next turn.

/// Role names at the beginning of a line. `Answer:` is absent, since answers use it themselves.
const SPEAKERS: [&str; 8] = [
    "User:",
    "Assistant:",
    "Human:",
    "System:",
    "AI:",
    "Question:",
    "Q:",
    "### ",
];

/// Fragments of control tokens, anywhere.
const CONTROLS: [&str; 8] = [
    "<|",
    "|>",
    "<start_of_turn>",
    "<end_of_turn>",
    "[INST]",
    "[/INST]",
    "<s>",
    "</s>",
];

/// Returns whether `answer` contains a role marker or the text of a control token.
pub fn has_marker(answer: &str) -> bool {
    let speaks = |line: &str| {
        let line = line.trim_start_matches(|c: char| c.is_whitespace() || c == '*');
        SPEAKERS.iter().any(|speaker| {
            let begin = line.get(..speaker.len());
            begin.is_some_and(|begin| begin.eq_ignore_ascii_case(speaker))
        })
    };
    answer.lines().any(speaks) || CONTROLS.iter().any(|control| answer.contains(control))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_seen_and_plain_words_are_not() {
        for answer in [
            "Paris.\nUser: And of Spain?",
            "user: hello",
            "4\n  **Assistant:** 5",
            "Paris<|im_end|>",
            "yes <end_of_turn>",
            "Blue.\n\nQuestion: What is red?",
        ] {
            assert!(has_marker(answer), "{answer}");
        }
        for answer in [
            "The user: a person.",
            "Add 7 and 5.\nAnswer: 12.",
            "x < |y|",
            "",
            "Useful",
            "é",
        ] {
            assert!(!has_marker(answer), "{answer}");
        }
    }
}
