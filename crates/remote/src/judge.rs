//! A judge that can only chat: shown the conversation, the answer so far and lettered candidates,
//! it names one. It is asked twice, in a shuffled order and in that order rotated.
//!
//! With n candidates, agreement a between both answers and chance 1/n,
//! κ = (a − 1/n) / (1 − 1/n) is r², where r is the probability that one answer names the
//! favourite. Otherwise the model assumes that it names the k-th letter with bias π_k, regardless
//! of the candidate. A candidate's preference is the probability that it is the favourite, given
//! both answers and a uniform prior: proportional to the product over the answers of r·[it was
//! named] + (1 − r)·π_k, where k was named. Both r and π are estimated over the judge's whole
//! lifetime, starting from a few rounds of prior counts.

use conclave_ensemble::Candidate;

use crate::template::ChatMessage;

/// Letters of candidates: two for each of eight members, which may draft a second one. Without `I`,
/// which is a word.
pub const LETTERS: &[u8; MOST] = b"ABCDEFGHJKLMNOPQ";

/// Maximum number of candidates.
const MOST: usize = 16;

/// Prior of κ.
const PRIOR_KAPPA: f64 = 0.5;

/// Weight of that prior, in rounds of two candidates.
const PRIOR_ROUNDS: f64 = 4.0;

/// Running estimate of a judge's reliability and bias.
#[derive(Debug, Clone, PartialEq)]
pub struct Judge {
    /// Σ (agreed − 1/n) and Σ (1 − 1/n) over the rounds answered twice.
    agreed: f64,
    most: f64,
    /// How often each letter was named among n candidates, `[n]` by n; starts at one each.
    named: [[f64; MOST]; MOST + 1],
}

impl Default for Judge {
    fn default() -> Self {
        Self {
            agreed: PRIOR_KAPPA * PRIOR_ROUNDS * 0.5,
            most: PRIOR_ROUNDS * 0.5,
            named: [[1.0; MOST]; MOST + 1],
        }
    }
}

impl Judge {
    /// Returns the preferences (`[n]`, positive, summing to 1) after the judge named the
    /// `named[i]`-th letter of `orders[i]`; `None` if it named none. Updates the estimates.
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

    /// How often each of `count` letters was named, plus one each.
    pub fn named(&self, count: usize) -> &[f64] {
        &self.named[count][..count]
    }

    /// r: the probability that one answer names the favourite.
    pub fn reliability(&self) -> f64 {
        (self.agreed / self.most).clamp(0.01, 0.97).sqrt()
    }

    /// π, `[count]`, summing to 1: the distribution of letters when the answer is not the
    /// favourite.
    pub fn bias(&self, count: usize) -> Vec<f64> {
        let named = self.named(count);
        let all: f64 = named.iter().sum();
        let chance = 1.0 / count as f64;
        // The favourite is equally likely at every position.
        let beyond = |&named: &f64| (named / all - self.reliability() * chance).max(0.1 * chance);
        let rest: Vec<f64> = named.iter().map(beyond).collect();
        let sum: f64 = rest.iter().sum();
        rest.into_iter().map(|each| each / sum).collect()
    }
}

/// Two orders in which to show the candidates: `order[k]` is the candidate with the k-th letter.
/// Empty for fewer than two candidates, or more than there are letters.
pub fn orders(candidates: usize, seed: u64) -> Vec<Vec<usize>> {
    if !(2..=LETTERS.len()).contains(&candidates) {
        return Vec::new();
    }
    let mut order: Vec<usize> = (0..candidates).collect();
    // Fisher–Yates shuffle with mulberry32, a 32-bit generator in the public domain.
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

/// Prompt that asks for the best of some candidates: `order[k]` gets the k-th letter.
pub fn ballot(
    messages: &[ChatMessage],
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
        // Quoted, so that no candidate can imitate another's line.
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
            "Which of them is right and makes the best answer? Reply with {} or {last} and \
            nothing else.",
            others.join(", ")
        ),
    ]
    .join("\n\n")
}

/// Index of the letter that a reply names, out of `count`; `None` if it names none or several.
/// Thoughts are ignored.
pub fn letter_in(answer: &str, count: usize) -> Option<usize> {
    let said = without_thought(answer);
    let said: Vec<char> = said.trim().chars().collect();
    let letters = &LETTERS[..count.min(LETTERS.len())];
    let letter = |at: usize| letters.iter().position(|&own| char::from(own) == said[at]);
    let apostrophe = |c: char| matches!(c, '\'' | '’');
    // "B." and "B: the second one" name B, whatever follows.
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

/// The reply without thoughts, also one that was cut.
pub(crate) fn without_thought(answer: &str) -> String {
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

    /// Judges `rounds` rounds of three candidates; `names` picks the letter for an order.
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
        // A judge that knows half of the time and names the first letter otherwise: after the
        // correction its remaining preference is for the candidate, wherever it stands.
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
        assert!(orders(1, 0).is_empty() && orders(17, 0).is_empty());
    }

    #[test]
    fn all_orders_come_and_the_second_moves_every_candidate() {
        let firsts: BTreeSet<_> = (0..60).map(|seed| orders(3, seed)[0].clone()).collect();
        assert_eq!(firsts.len(), 6);
        for count in 2..=16 {
            let orders = orders(count, 1);
            assert!((0..count).all(|place| orders[0][place] != orders[1][place]));
        }
    }
}
