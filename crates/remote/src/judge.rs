//! A judge that can only chat: it is shown the conversation, the answer so far and the candidates
//! under letters, and names one. It is asked twice, in a shuffled order and in that order rotated.
//!
//! With n candidates, agreement a between the two and chance 1/n, κ = (a − 1/n) / (1 − 1/n) is r²,
//! r the chance that a single answer names what the judge likes best. Otherwise, so the model, it
//! names the k-th letter with its bias π_k, whatever stands there. A candidate's preference is then
//! the chance that it is the one liked best, given both answers and no preference before them:
//! proportional to the product over the answers of r·[it was named] + (1 − r)·π_k, where k was
//! named. Both r and π are counted over the whole time that the judge is in use, and begin with a
//! few rounds of no certainty.
//!
//! The page has the same in `web/src/worker/remote/letters.ts`; `tests/judging/letters.json` holds
//! both to it.

use conclave_ensemble::Candidate;

use crate::template::Said;

/// The letters of candidates: as many as an ensemble has members.
pub const LETTERS: &[u8; 8] = b"ABCDEFGH";

/// κ before it has judged.
const KAPPA: f64 = 0.5;

/// Rounds between two candidates that κ before them counts for.
const ROUNDS: f64 = 4.0;

/// What is known of a judge.
#[derive(Debug, Clone, PartialEq)]
pub struct Judge {
    /// Σ (agreed − 1/n) and Σ (1 − 1/n) over the rounds that were answered twice.
    agreed: f64,
    most: f64,
    /// How often each letter was named among n candidates, `[n]` by n: once each before any was.
    named: [[f64; 8]; 9],
}

impl Default for Judge {
    fn default() -> Self {
        Self {
            agreed: KAPPA * ROUNDS * 0.5,
            most: ROUNDS * 0.5,
            named: [[1.0; 8]; 9],
        }
    }
}

impl Judge {
    /// The preferences (`[n]`, positive, summing to 1) after it has named the `named[i]`-th letter
    /// of `orders[i]`; `None` where it named none. What that says of the judge is counted.
    pub fn hear(&mut self, orders: &[Vec<usize>], named: &[Option<usize>]) -> Option<Vec<f64>> {
        let count = orders.first().map_or(0, Vec::len);
        let heard: Vec<(usize, usize)> = orders
            .iter()
            .zip(named)
            .filter_map(|(order, &letter)| Some((letter?, *order.get(letter?)?)))
            .collect();
        if heard.is_empty() || count > LETTERS.len() {
            return None;
        }
        for &(letter, _) in &heard {
            self.named[count][letter] += 1.0;
        }
        let chance = 1.0 / count as f64;
        if let [(_, first), (_, second)] = heard[..] {
            self.agreed += f64::from(u8::from(first == second)) - chance;
            self.most += 1.0 - chance;
        }
        let (sure, bias) = (self.reliability(), self.bias(count));
        let best = |candidate: usize| -> f64 {
            let answers = heard.iter().map(|&(letter, named)| {
                sure * f64::from(u8::from(named == candidate)) + (1.0 - sure) * bias[letter]
            });
            answers.product()
        };
        let chances: Vec<f64> = (0..count).map(best).collect();
        let sum: f64 = chances.iter().sum();
        Some(chances.into_iter().map(|chance| chance / sum).collect())
    }

    /// How often it named each of so many letters, and once each before it named any.
    pub fn named(&self, count: usize) -> &[f64] {
        &self.named[count][..count]
    }

    /// r: the chance that one answer names what the judge likes best.
    pub fn reliability(&self) -> f64 {
        (self.agreed / self.most).clamp(0.01, 0.97).sqrt()
    }

    /// π, `[count]`, summing to 1: how often it names each of so many letters when it does not name
    /// what it likes best.
    pub fn bias(&self, count: usize) -> Vec<f64> {
        let named = self.named(count);
        let all: f64 = named.iter().sum();
        let chance = 1.0 / count as f64;
        // What it likes best stands everywhere alike.
        let beyond = |&named: &f64| (named / all - self.reliability() * chance).max(0.1 * chance);
        let rest: Vec<f64> = named.iter().map(beyond).collect();
        let sum: f64 = rest.iter().sum();
        rest.into_iter().map(|each| each / sum).collect()
    }
}

/// Two orders to show so many candidates in: `order[k]` is the candidate with the k-th letter.
/// Fewer than two, or more than there are letters for, are not shown.
pub fn orders(candidates: usize, seed: u64) -> Vec<Vec<usize>> {
    if !(2..=LETTERS.len()).contains(&candidates) {
        return Vec::new();
    }
    let mut order: Vec<usize> = (0..candidates).collect();
    // Fisher and Yates, by mulberry32, a generator of 32 bits in the public domain.
    let mut state = seed as u32;
    for last in (1..candidates).rev() {
        state = state.wrapping_add(0x6d2b_79f5);
        let mut mixed = (state ^ (state >> 15)).wrapping_mul(state | 1);
        mixed ^= mixed.wrapping_add((mixed ^ (mixed >> 7)).wrapping_mul(mixed | 61));
        let drawn = f64::from(mixed ^ (mixed >> 14)) / f64::from(2).powi(32);
        order.swap(last, (drawn * (last + 1) as f64) as usize);
    }
    let mut turned = order.clone();
    turned.rotate_left(candidates / 2);
    vec![order, turned]
}

/// The question which of some candidates is the best: `order[k]` gets the k-th letter.
pub fn ballot(
    messages: &[Said],
    answer: &str,
    candidates: &[&Candidate],
    order: &[usize],
) -> String {
    let said: Vec<String> = messages
        .iter()
        .map(|said| format!("{}: {}", said.role, said.content))
        .collect();
    let letters: Vec<char> = LETTERS.iter().map(|&letter| char::from(letter)).collect();
    let offered = order.iter().zip(&letters).map(|(&candidate, letter)| {
        let candidate = candidates[candidate];
        // In quotes no candidate can pass for another's line.
        let text = match candidate.text.is_empty() {
            true => String::new(),
            false => serde_json::Value::from(candidate.text.as_str()).to_string(),
        };
        let end = if candidate.ended {
            " (and the answer ends there)"
        } else {
            ""
        };
        format!("{letter}: {text}{end}")
    });
    let offered: Vec<String> = offered.collect();
    let named: Vec<String> = letters[..order.len()].iter().map(char::to_string).collect();
    let (last, others) = named.split_last().expect("there are candidates");
    [
        "You judge how an answer should go on. A conversation:",
        &said.join("\n\n"),
        "The answer as far as it is written:",
        match answer {
            "" => "(nothing yet)",
            answer => answer,
        },
        "Ways to go on from there:",
        &offered.join("\n"),
        &format!(
            "Which of them is right and makes the best answer? Reply with {} or {last} and nothing else.",
            others.join(", ")
        ),
    ]
    .join("\n\n")
}

/// The letter of so many that an answer names, as its place; `None` where it names none, or
/// several. What a model thinks first is passed over.
pub fn letter_in(answer: &str, count: usize) -> Option<usize> {
    let said = without_thought(answer);
    let said: Vec<char> = said.trim().chars().collect();
    let letters = &LETTERS[..count.min(LETTERS.len())];
    let letter = |at: usize| letters.iter().position(|&own| char::from(own) == said[at]);
    let apostrophe = |c: char| matches!(c, '\'' | '’');
    // "B." and "B: the second one" name B, whatever comes behind it.
    let word = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    if let Some(at) = said.iter().position(word)
        && let Some(named) = letter(at)
    {
        let next = said.get(at + 1).copied();
        let goes_on =
            |c: char| c.is_alphanumeric() || apostrophe(c) || (c.is_whitespace() && c != '\n');
        if !next.is_some_and(goes_on) {
            return Some(named);
        }
    }
    let alone = |at: usize| {
        let before = at.checked_sub(1).map(|at| said[at]);
        let next = said.get(at + 1).copied();
        !before.is_some_and(char::is_alphanumeric)
            && !next.is_some_and(|c| c.is_alphanumeric() || apostrophe(c))
    };
    let mut named = (0..said.len()).filter(|&at| alone(at)).filter_map(letter);
    let first = named.next()?;
    named.all(|other| other == first).then_some(first)
}

fn without_thought(answer: &str) -> String {
    let (mut said, mut rest) = (String::new(), answer);
    while let Some((before, thought)) = rest.split_once("<think>") {
        said.push_str(before);
        rest = thought.split_once("</think>").map_or("", |(_, rest)| rest);
    }
    said + rest
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Judges `rounds` rounds of three candidates; `names` says which letter of an order.
    fn after(rounds: u64, names: impl Fn(&[usize]) -> usize) -> (Judge, Vec<f64>) {
        let mut judge = Judge::default();
        let mut row = Vec::new();
        for round in 0..rounds {
            let orders = orders(3, round);
            let named: Vec<_> = orders.iter().map(|order| Some(names(order))).collect();
            row = judge.hear(&orders, &named).unwrap();
        }
        (judge, row)
    }

    fn place_of(order: &[usize], candidate: usize) -> usize {
        order.iter().position(|&one| one == candidate).unwrap()
    }

    #[test]
    fn one_that_knows_is_believed_more_the_longer_it_agrees_with_itself() {
        let knows = |order: &[usize]| place_of(order, 1);
        let (_, first) = after(1, knows);
        let (judge, later) = after(60, knows);
        assert!(later[1] > first[1] && later[1] > 0.95 && first[1] < 0.985);
        assert!(judge.reliability() > 0.95);
    }

    #[test]
    fn one_that_likes_a_letter_is_not_believed() {
        let (judge, row) = after(80, |_| 0);
        assert!(row.iter().all(|&share| share < 1.35 / 3.0), "{row:?}");
        assert!(judge.bias(3)[0] > 0.8);
    }

    #[test]
    fn the_same_candidates_rotated_have_the_same_row() {
        // One that knows half of the time, and names the first letter otherwise: what is left of
        // its likings after the correction is for the candidate, wherever that stands.
        let mut judge = Judge::default();
        let mut sums = [0.0; 3];
        for round in 0..300 {
            let orders = orders(3, round);
            let knows = round % 2 == 0;
            let named: Vec<_> = orders
                .iter()
                .map(|order| Some(if knows { place_of(order, 2) } else { 0 }))
                .collect();
            for (sum, share) in sums.iter_mut().zip(judge.hear(&orders, &named).unwrap()) {
                *sum += share / 300.0;
            }
        }
        assert!(sums[2] > sums[0].max(sums[1]) + 0.1, "{sums:?}");
        assert!(
            (sums[0] - sums[1]).abs() < 0.05,
            "no place is left: {sums:?}"
        );
    }

    #[test]
    fn silence_is_no_vote() {
        let mut judge = Judge::default();
        let orders_of_four = orders(4, 0);
        assert_eq!(judge.hear(&orders_of_four, &[None, None]), None);
        assert_eq!(judge.hear(&orders_of_four, &[Some(7), None]), None);
        assert_eq!(judge, Judge::default());
        assert_eq!(judge.hear(&[], &[]), None);
        assert!(orders(1, 0).is_empty() && orders(9, 0).is_empty());
    }

    #[test]
    fn all_orders_come_and_the_second_moves_every_candidate() {
        let firsts: BTreeSet<_> = (0..60).map(|seed| orders(3, seed)[0].clone()).collect();
        assert_eq!(firsts.len(), 6);
        for count in 2..=8 {
            let orders = orders(count, 1);
            assert!((0..count).all(|place| orders[0][place] != orders[1][place]));
        }
    }
}
