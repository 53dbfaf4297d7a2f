//! A router that knows a question's group: it answers with the group's best member, chosen on other
//! questions.
//!
//! Two-fold: each group's questions are split at random, and the member that did best alone on one
//! half answers the other.

use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::interval::below;
use crate::outcome::Outcome;
use crate::ways::Tried;

/// Name of the way.
pub const NAME: &str = "each group's best member";

/// Results of the router; `None` without closed questions or without members. Deterministic in
/// `seed`.
pub fn tried(outcomes: &[Outcome], seed: u64) -> Option<Vec<Tried>> {
    let closed = outcomes.iter().any(|outcome| !outcome.open);
    if !closed || outcomes.iter().any(|outcome| outcome.alone.is_empty()) {
        return None;
    }
    let halves = halves(outcomes, seed);
    let half = |wanted: bool| {
        let other = outcomes.iter().zip(&halves);
        let other = other.filter(move |(_, half)| **half != wanted);
        other.map(|(outcome, _)| outcome).collect::<Vec<_>>()
    };
    let others = [half(false), half(true)];
    let choice = |outcome: &Outcome, half: bool| {
        let others = &others[usize::from(half)];
        let group = others.iter().filter(|other| other.group == outcome.group);
        // Ties within the group are broken by all groups.
        let (own, all) = (rights(group), rights(others.iter()));
        let count = |rights: &[usize], member: usize| rights.get(member).copied().unwrap_or(0);
        let rank = |&member: &usize| (count(&own, member), count(&all, member));
        // `max_by_key` returns the last of equals; reversed, the first.
        let best = (0..outcome.alone.len()).rev().max_by_key(rank);
        best.unwrap_or_default()
    };
    let tried = outcomes.iter().zip(&halves).map(|(outcome, &half)| {
        let member = choice(outcome, half);
        Tried::new(outcome, &outcome.alone[member].greedy)
    });
    Some(tried.collect())
}

/// Right greedy answers of each member.
fn rights<'a>(outcomes: impl Iterator<Item = &'a &'a Outcome>) -> Vec<usize> {
    let mut rights = Vec::new();
    for outcome in outcomes.filter(|outcome| !outcome.open) {
        rights.resize(outcome.alone.len().max(rights.len()), 0);
        for (count, alone) in rights.iter_mut().zip(&outcome.alone) {
            *count += usize::from(alone.greedy.right);
        }
    }
    rights
}

/// Assigns each outcome to a half. Within a group the halves differ by at most one question.
fn halves(outcomes: &[Outcome], seed: u64) -> Vec<bool> {
    let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, outcome) in outcomes.iter().enumerate() {
        groups.entry(&outcome.group).or_default().push(index);
    }
    let mut chance = ChaCha8Rng::seed_from_u64(seed);
    let mut halves = vec![false; outcomes.len()];
    for mut indices in groups.into_values() {
        for last in (1..indices.len()).rev() {
            indices.swap(last, below(&mut chance, last as u64 + 1));
        }
        for &index in &indices[..indices.len() / 2] {
            halves[index] = true;
        }
    }
    halves
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Alone, Answer};

    fn outcome(group: &str, rights: [bool; 2]) -> Outcome {
        let alone = |right| Alone {
            greedy: Answer {
                right,
                ..Answer::default()
            },
            ..Alone::default()
        };
        Outcome {
            group: group.to_owned(),
            alone: rights.map(alone).to_vec(),
            ..Outcome::default()
        }
    }

    fn right(outcomes: &[Outcome]) -> usize {
        let tried = tried(outcomes, 7).unwrap();
        tried.iter().filter(|tried| tried.right).count()
    }

    #[test]
    fn each_group_has_its_own_member() {
        let mut outcomes = vec![outcome("sums", [true, false]); 10];
        outcomes.extend(vec![outcome("words", [false, true]); 10]);
        assert_eq!(right(&outcomes), 20);
        let halves = halves(&outcomes, 7);
        for group in [&halves[..10], &halves[10..]] {
            assert_eq!(group.iter().filter(|&&half| half).count(), 5);
        }
    }

    /// Each half has one question, and the member that knows it does not know the other half's.
    #[test]
    fn no_question_chooses_its_own_member() {
        let two = [outcome("g", [true, false]), outcome("g", [false, true])];
        assert_eq!(right(&two), 0);
    }

    #[test]
    fn equals_in_a_group_are_told_apart_by_all_groups() {
        let mut outcomes = vec![outcome("alone", [false, true])];
        outcomes.extend(vec![outcome("many", [false, true]); 6]);
        outcomes.push(outcome("open", [false, true]));
        // The group's other half is empty.
        assert_eq!(right(&outcomes), 8);
        assert_eq!(tried(&[], 7), None);
        let open = Outcome {
            open: true,
            ..outcome("open", [true, true])
        };
        assert_eq!(tried(&[open], 7), None);
    }
}
