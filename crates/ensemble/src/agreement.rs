//! Candidates that give the same answer in another form.
//!
//! "Italy" and "The Colosseum is in Rome, Italy." agree, but a verifier that answers in sentences
//! is surprised by the bare word and would vote against its own opinion. So a verifier's share of a
//! candidate becomes the largest of its shares of the candidates that agree with it:
//! ŝ_ij ← max_{m ~ j} ŝ_im. Equal texts agree. A finished candidate agrees with one that
//! contains its words in a row, unless the question contains them too, so that they say nothing.
//!
//! Words are compared in lower case without the marks around them. In scripts without spaces each
//! character is a word. No word lists are used, so the rule holds in any language.

use crate::segment::{Candidate, is_spaceless};

/// Words of `text` in lower case, without marks at their ends.
pub fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for piece in text.split_whitespace() {
        let mut word = String::new();
        for c in piece.trim_matches(|c: char| !c.is_alphanumeric()).chars() {
            if is_spaceless(c) {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                words.push(c.to_string());
            } else {
                word.extend(c.to_lowercase());
            }
        }
        if !word.is_empty() {
            words.push(word);
        }
    }
    words
}

/// For each candidate those that agree with it, itself first. `question`: the question's words.
pub fn agreement(candidates: &[Candidate], question: &[String]) -> Vec<Vec<usize>> {
    let said: Vec<Vec<String>> = candidates.iter().map(|one| words(&one.text)).collect();
    let within = |part: usize, whole: usize| {
        let words = &said[part];
        let news = || !holds(question, words);
        let told = candidates[part].ended && holds(&said[whole], words) && news();
        !words.is_empty() && (told || *words == said[whole])
    };
    let all = 0..candidates.len();
    let agree = |j: usize| {
        let others = all.clone().filter(move |&m| m != j);
        let others = others.filter(|&m| within(j, m) || within(m, j));
        std::iter::once(j).chain(others).collect()
    };
    all.clone().map(agree).collect()
}

/// Whether `whole` contains `part` in a row.
fn holds(whole: &[String], part: &[String]) -> bool {
    !part.is_empty() && whole.windows(part.len()).any(|window| window == part)
}

/// `shares` (`[verifiers][candidates]`) in which each candidate has the largest share of those that
/// agree with it. Rows no longer sum to 1.
pub fn agreed(shares: &[Vec<f64>], agreement: &[Vec<usize>]) -> Vec<Vec<f64>> {
    let best = |row: &Vec<f64>| {
        if row.is_empty() {
            return Vec::new();
        }
        let best = |alike: &Vec<usize>| alike.iter().map(|&m| row[m]).fold(0.0, f64::max);
        agreement.iter().map(best).collect()
    };
    shares.iter().map(best).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(candidates: &[(&str, bool)], question: &str) -> Vec<Vec<usize>> {
        let candidate = |&(text, ended): &(&str, bool)| Candidate {
            text: text.to_owned(),
            ended,
        };
        let candidates: Vec<Candidate> = candidates.iter().map(candidate).collect();
        agreement(&candidates, &words(question))
    }

    #[test]
    fn a_short_answer_agrees_with_the_sentence_that_says_it() {
        let found = groups(
            &[
                ("Italy.", true),
                ("The Colosseum is in Rome, **italy**, and", false),
                ("In Spain", true),
            ],
            "In which country is the Colosseum?",
        );
        assert_eq!(found, [vec![0, 1], vec![1, 0], vec![2]]);
        // Half a word is another word.
        assert_eq!(
            groups(&[("10", true), ("100 or more", true)], ""),
            [[0], [1]]
        );
        assert_eq!(
            groups(&[("東京", true), ("日本の首都は東京です。", true)], "")[0],
            [0, 1]
        );
    }

    #[test]
    fn what_is_unfinished_or_only_the_question_again_agrees_with_nothing() {
        let question = "Which is larger, a cat or a lion?";
        let found = groups(
            &[("A cat", true), ("Larger than a cat is a lion.", true)],
            question,
        );
        assert_eq!(found, [[0], [1]]);
        assert_eq!(
            groups(&[("A lion", false), ("It is a lion", true)], ""),
            [[0], [1]]
        );
        // Equal texts agree, whatever the question.
        assert_eq!(
            groups(&[("a cat", true), ("A cat.", false)], question)[0],
            [0, 1]
        );
        assert_eq!(groups(&[("", true), ("…", true)], ""), [[0], [1]]);
    }

    #[test]
    fn shares_are_those_of_the_best_form() {
        let rows = agreed(
            &[vec![0.2, 0.5, 0.3], vec![], vec![0.6, 0.1, 0.3]],
            &[vec![0, 1], vec![1, 0], vec![2]],
        );
        assert_eq!(rows, [vec![0.5, 0.5, 0.3], vec![], vec![0.6, 0.6, 0.3]]);
    }
}
