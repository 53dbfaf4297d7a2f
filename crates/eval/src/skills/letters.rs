//! Counting letters: words are spelled with a running count. A fifth of the words are invented, so
//! that spelling must be read, not recalled.

use super::chance::Chance;
use super::words;

fn made_up(chance: &mut Chance) -> String {
    let consonants = b"bdfgklmnprstvz";
    let vowels = b"aeiou";
    let mut word = String::new();
    for _ in 0..chance.between(2, 4) {
        word.push(consonants[chance.below(consonants.len())] as char);
        word.push(vowels[chance.below(vowels.len())] as char);
    }
    word
}

fn word(chance: &mut Chance) -> String {
    if chance.percent(20) {
        return made_up(chance);
    }
    let (_, list) = words::CATEGORIES[chance.below(words::CATEGORIES.len())];
    chance.pick(list).to_string()
}

/// Spells `text`, with the count after every letter for which `counts` holds.
fn spell(text: &str, counts: impl Fn(char) -> bool) -> (String, u32) {
    let mut total = 0;
    let mut spelled = Vec::new();
    for word in text.split(' ') {
        let letters: Vec<String> = word
            .chars()
            .map(|letter| {
                if counts(letter) {
                    total += 1;
                    format!("{letter} {total}")
                } else {
                    letter.to_string()
                }
            })
            .collect();
        spelled.push(letters.join(" "));
    }
    (spelled.join(", "), total)
}

pub(crate) fn count(chance: &mut Chance) -> (String, String) {
    let mut phrase = word(chance);
    let (text, (working, total)) = match chance.below(10) {
        0..6 => {
            if chance.percent(60) {
                phrase = format!("{phrase} {}", word(chance));
            }
            let letters: Vec<char> = phrase.chars().filter(|c| c.is_alphabetic()).collect();
            // Mostly a letter that occurs; a random one often does not.
            let letter = if chance.percent(80) {
                letters[chance.below(letters.len())]
            } else {
                (b'a' + chance.below(26) as u8) as char
            };
            let text = chance.say(
                &[
                    "How many times does the letter {a} appear in \"{b}\"?",
                    "How many {a}'s are in \"{b}\"?",
                    "Count the letter {a} in \"{b}\".",
                    "How often does {a} occur in \"{b}\"?",
                    "How many times is the letter {a} in \"{b}\"?",
                ],
                &[&letter.to_string(), &phrase],
            );
            (text, spell(&phrase, |c| c == letter))
        }
        6..8 => {
            let text = chance.say(
                &[
                    "How many letters are in \"{a}\"?",
                    "How many letters does \"{a}\" have?",
                    "Count the letters of \"{a}\".",
                    "How long is the word \"{a}\"?",
                ],
                &[&phrase],
            );
            (text, spell(&phrase, |_| true))
        }
        _ => {
            if chance.percent(40) {
                phrase = format!("{phrase} {}", word(chance));
            }
            let text = chance.say(
                &[
                    "How many vowels are in \"{a}\"?",
                    "Count the vowels in \"{a}\".",
                    "How many vowels does \"{a}\" have?",
                ],
                &[&phrase],
            );
            (text, spell(&phrase, |c| "aeiou".contains(c)))
        }
    };
    (text, format!("Spell {working}. Answer: {total}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_grows_as_it_spells() {
        let (working, total) = spell("green apple", |c| c == 'e');
        assert_eq!((working.as_str(), total), ("g r e 1 e 2 n, a p p l e 3", 3));
    }
}
