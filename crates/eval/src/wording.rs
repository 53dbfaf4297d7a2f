//! How an answer is worded: how varied it is, and whether it repeats the conversation.

use std::collections::HashSet;

use crate::conversation::Message;
use crate::words::bare;

/// Words of an n-gram.
const WORDS: usize = 4;

/// The share of an answer that an earlier turn may be before the answer counts as a repetition.
const MOST: f64 = 0.8;

/// Scripts that are written without spaces: kana, Han, Thai, Lao, Burmese, Khmer.
fn is_spaceless(c: char) -> bool {
    matches!(c,
        '\u{3041}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}' | '\u{ff66}'..='\u{ff9f}'
        | '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}')
}

/// The words of `text` in lower case, without marks around them. A character of a script without
/// spaces is a word.
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

/// The share of the 4-grams of words in `text` that are different, from just above 0 to 1; `None`
/// where there are fewer than four words. Characters count as words in scripts without spaces.
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

/// Whether `answer` repeats a turn of the user or the assistant: it is that turn but for case,
/// white space and marks, or contains it and hardly more (the turn is 80 % of the answer).
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
        // Five grams, of which one is there twice: a b c d.
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
        let turn = |role: &str, content: &str| Message::new(role, content);
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
