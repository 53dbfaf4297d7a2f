//! Sorting and filtering short lists of words and of numbers.

use super::chance::{Chance, commas};
use super::words;

fn any_words(chance: &mut Chance, count: usize) -> Vec<&'static str> {
    let all: Vec<&'static str> = words::CATEGORIES
        .iter()
        .flat_map(|(_, list)| list.iter().copied())
        .collect();
    chance.sample(&all, count)
}

fn initial(word: &str) -> char {
    word.chars().next().unwrap_or(' ')
}

pub(crate) fn sort(chance: &mut Chance) -> (String, String) {
    let count = chance.between(3, 6) as usize;
    if chance.percent(75) {
        sort_words(chance, count)
    } else {
        sort_numbers(chance, count)
    }
}

fn sort_words(chance: &mut Chance, count: usize) -> (String, String) {
    // Lists with a repeated initial are the hard ones: a third of them stay.
    let list = loop {
        let list = any_words(chance, count);
        let mut initials: Vec<char> = list.iter().map(|word| initial(word)).collect();
        initials.sort_unstable();
        initials.dedup();
        if initials.len() == count || chance.percent(33) {
            break list;
        }
    };
    let text = chance.say(
        &[
            "Sort these words alphabetically: {a}.",
            "Put these words in alphabetical order: {a}.",
            "Sort alphabetically: {a}.",
            "Arrange these words from A to Z: {a}.",
            "Which is the alphabetical order of {a}?",
            "Order these words by the alphabet: {a}.",
        ],
        &[&commas(&list)],
    );
    let mut sorted = list.clone();
    sorted.sort_unstable();
    let initials: Vec<char> = list.iter().map(|word| initial(word)).collect();
    let ordered: Vec<char> = sorted.iter().map(|word| initial(word)).collect();
    let answer = format!(
        "Initials {}; in order {}. Answer: {}.",
        commas(&initials),
        commas(&ordered),
        commas(&sorted)
    );
    (text, answer)
}

fn numbers(chance: &mut Chance, count: usize) -> Vec<u32> {
    let all: Vec<u32> = (10..100).collect();
    chance.sample(&all, count)
}

fn sort_numbers(chance: &mut Chance, count: usize) -> (String, String) {
    let list = numbers(chance, count);
    let text = chance.say(
        &[
            "Sort these numbers from smallest to largest: {a}.",
            "Put these numbers in order: {a}.",
            "Order these numbers by size: {a}.",
            "Sort the numbers {a}.",
        ],
        &[&commas(&list)],
    );
    let mut sorted = list.clone();
    sorted.sort_unstable();
    let tens = |list: &[u32]| commas(&list.iter().map(|number| number / 10).collect::<Vec<_>>());
    let answer = format!(
        "Tens {}; in order {}. Answer: {}.",
        tens(&list),
        tens(&sorted),
        commas(&sorted)
    );
    (text, answer)
}

/// States for every item whether it is kept, then lists those kept.
fn sift<T: ToString + Copy>(list: &[T], keep: impl Fn(T) -> bool) -> Option<String> {
    let kept: Vec<T> = list.iter().copied().filter(|&item| keep(item)).collect();
    if kept.is_empty() {
        return None;
    }
    let steps: Vec<String> = list
        .iter()
        .map(|&item| {
            format!(
                "{} {}",
                item.to_string(),
                if keep(item) { "yes" } else { "no" }
            )
        })
        .collect();
    Some(format!(
        "Check {}. Answer: {}.",
        steps.join(", "),
        commas(&kept)
    ))
}

pub(crate) fn filter(chance: &mut Chance) -> (String, String) {
    loop {
        let count = chance.between(4, 6) as usize;
        let drawn = match chance.below(10) {
            0..4 => by_category(chance, count),
            4..7 => by_initial(chance, count),
            _ => by_size(chance, count),
        };
        if let (text, Some(answer)) = drawn {
            return (text, answer);
        }
    }
}

fn by_category(chance: &mut Chance, count: usize) -> (String, Option<String>) {
    let (category, members) = words::CATEGORIES[chance.below(words::CATEGORIES.len())];
    let inside = chance.between(1, 3) as usize;
    let mut list = chance.sample(members, inside);
    for word in any_words(chance, count) {
        if list.len() < count && !list.contains(&word) {
            list.push(word);
        }
    }
    let list = chance.sample(&list, count);
    let text = chance.say(
        &[
            "Which of these are {b}: {a}?",
            "Which of these words are {b}: {a}?",
            "Find the {b}: {a}.",
            "Keep only the {b}: {a}.",
            "List the {b} among {a}.",
            "Pick out the {b} from this list: {a}.",
        ],
        &[&commas(&list), category],
    );
    (text, sift(&list, |word| members.contains(&word)))
}

fn by_initial(chance: &mut Chance, count: usize) -> (String, Option<String>) {
    let mut list = any_words(chance, count);
    let letter = initial(list[0]);
    // A second word with that initial, so that the answer is not always a single one.
    let same: Vec<&'static str> = any_words(chance, usize::MAX)
        .into_iter()
        .filter(|word| initial(word) == letter && !list.contains(word))
        .collect();
    if !same.is_empty() && chance.percent(60) {
        list[1] = chance.pick(&same);
    }
    let list = chance.sample(&list, count);
    let text = chance.say(
        &[
            "Which of these words start with {b}: {a}?",
            "Which words begin with {b}: {a}?",
            "Find the words that start with the letter {b}: {a}.",
            "Keep only the words beginning with {b}: {a}.",
            "List the words that begin with {b}: {a}.",
        ],
        &[&commas(&list), &letter.to_string()],
    );
    (text, sift(&list, |word| initial(word) == letter))
}

fn by_size(chance: &mut Chance, count: usize) -> (String, Option<String>) {
    let list = numbers(chance, count);
    let bound = chance.between(15, 95);
    let shown = commas(&list);
    match chance.below(4) {
        0 => {
            let text = chance.say(
                &[
                    "Which of these numbers are bigger than {b}: {a}?",
                    "Keep only the numbers above {b}: {a}.",
                    "Which numbers are greater than {b}: {a}?",
                ],
                &[&shown, &bound.to_string()],
            );
            (text, sift(&list, |number| number > bound))
        }
        1 => {
            let text = chance.say(
                &[
                    "Which of these numbers are smaller than {b}: {a}?",
                    "Keep only the numbers below {b}: {a}.",
                    "Which numbers are less than {b}: {a}?",
                ],
                &[&shown, &bound.to_string()],
            );
            (text, sift(&list, |number| number < bound))
        }
        2 => {
            let text = chance.say(
                &[
                    "Which of these numbers are even: {a}?",
                    "Keep only the even numbers: {a}.",
                    "List the even numbers: {a}.",
                ],
                &[&shown],
            );
            (text, sift(&list, |number| number % 2 == 0))
        }
        _ => {
            let text = chance.say(
                &[
                    "Which of these numbers are odd: {a}?",
                    "Keep only the odd numbers: {a}.",
                    "List the odd numbers: {a}.",
                ],
                &[&shown],
            );
            (text, sift(&list, |number| number % 2 == 1))
        }
    }
}
