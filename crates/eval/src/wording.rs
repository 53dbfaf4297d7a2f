//! Wording of an answer: its variety, and whether it repeats the conversation.

use std::collections::HashSet;

use crate::conversation::Message;
use crate::words::bare;

/// Words per n-gram.
const WORDS: usize = 4;

/// Minimum share of an answer that an earlier turn must make up for a repetition.
const MOST: f64 = 0.8;

/// Returns whether a script is written without spaces: kana, Han, Thai, Lao, Burmese, Khmer.
fn is_spaceless(c: char) -> bool {
    matches!(c,
        '\u{3041}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}' | '\u{ff66}'..='\u{ff9f}'
        | '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}')
}

/// Lower-case words of `text`, without surrounding punctuation. In scripts without spaces each
/// character is a word.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for run in text.to_lowercase().split_whitespace() {
        let mut word = String::new();
        for c in run.chars() {
            if is_spaceless(c) {
                words.push(std::mem::take(&mut word));
                words.push(c.to_string());
            } else {
                word.push(c);
            }
        }
        words.push(word);
    }
    let bare = words
        .iter()
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric() && !is_spaceless(c)));
    let bare = bare.filter(|word| !word.is_empty());
    bare.map(str::to_owned).collect()
}

/// Share of distinct 4-grams of words in `text`, above 0 and up to 1; `None` for fewer than four
/// words. In scripts without spaces each character is a word.
///
/// ```
/// use conclave_eval::wording::distinct_grams;
///
/// assert_eq!(distinct_grams("one two three four five"), Some(1.0));
/// assert_eq!(distinct_grams("la la la la la la"), Some(1.0 / 3.0));
/// assert_eq!(distinct_grams("too short"), None);
/// ```
pub fn distinct_grams(text: &str) -> Option<f64> {
    let words = words(text);
    let grams = words.windows(WORDS);
    let (count, different) = (grams.len(), grams.collect::<HashSet<_>>().len());
    (count > 0).then(|| different as f64 / count as f64)
}

/// Returns whether `answer` repeats a turn of the user or the assistant: equal except for case,
/// white space and punctuation, or containing it as at least 80 % of the answer.
pub fn repeats(answer: &str, messages: &[Message]) -> bool {
    let answer = bare(answer);
    let length = answer.chars().count() as f64;
    let turns = messages.iter().filter(|turn| turn.role != "system");
    turns.map(|turn| bare(&turn.content)).any(|turn| {
        let share = turn.chars().count() as f64 / length;
        !turn.is_empty() && (share >= MOST) && answer.contains(&turn)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grams_are_of_words_or_of_characters() {
        // Five grams, one of them twice: a b c d.
        let share = distinct_grams("A b, c d! *a* b c d").unwrap();
        assert!((share - 0.8).abs() < 1e-12, "{share}");
        assert_eq!(distinct_grams("一二三四"), Some(1.0));
        assert_eq!(distinct_grams("一二三"), None);
        assert_eq!(distinct_grams("はい、はい、はい"), Some(2.0 / 3.0));
        assert_eq!(distinct_grams("GPT4は 速い"), Some(1.0));
        assert_eq!(distinct_grams("* - … !"), None);
    }

    #[test]
    fn repetitions_are_nearly_the_whole_answer() {
        let turn = |role: &str, content: &str| Message {
            role: role.to_owned(),
            content: content.to_owned(),
        };
        let messages = [
            turn("system", "Be brief."),
            turn("user", "Name a red fruit, please."),
            turn("assistant", "An apple."),
            turn("user", "And a yellow one?"),
        ];
        for answer in [
            "An apple",
            "AN **apple**!",
            "Name a red fruit, please! Yes.",
            "and a yellow one",
        ] {
            assert!(repeats(answer, &messages), "{answer}");
        }
        for answer in [
            "A lemon.",
            "An apple is red, a lemon is yellow.",
            "apple",
            "Be brief.",
            "",
            "…",
        ] {
            assert!(!repeats(answer, &messages), "{answer}");
        }
        assert!(!repeats("", &[turn("user", "…")]));
    }
}
