//! Choices among whole answers: baselines for an ensemble that votes within answers. Ties go to the
//! first.

use std::collections::HashMap;

use crate::chrf::Grams;

/// First of the most frequent `keys`, which stand for answers, or for samples of one member
/// (self-consistency: Wang et al., arXiv 2203.11171). Empty keys don't vote; `None` if all are
/// empty.
pub fn majority(keys: &[&str]) -> Option<usize> {
    let mut votes: HashMap<&str, usize> = HashMap::new();
    for key in keys {
        *votes.entry(key).or_default() += 1;
    }
    let said = |&index: &usize| !keys[index].is_empty();
    // `max_by_key` returns the last of equals; reversed, the first.
    (0..keys.len())
        .rev()
        .filter(said)
        .max_by_key(|&index| votes[keys[index]])
}

/// Minimum-Bayes-risk choice: the text with the highest mean chrF against each other text as
/// reference (Eikema and Aziz, "Is MAP decoding all you need?", COLING 2020). `None` if there is
/// none.
pub fn minimum_risk(texts: &[&str]) -> Option<usize> {
    let grams: Vec<Grams> = texts.iter().map(|text| Grams::new(text)).collect();
    let gain = |index: usize| -> f64 {
        let others = grams
            .iter()
            .enumerate()
            .filter(|&(other, _)| other != index);
        others.map(|(_, other)| grams[index].chrf(other)).sum()
    };
    greatest((0..texts.len()).map(gain))
}

/// Index of the least of the `values` present, such as the member that finds the question least
/// surprising. `None` if there is none; NaN is ignored.
pub fn least(values: &[Option<f64>]) -> Option<usize> {
    let negated = values.iter().map(|value| value.map_or(f64::NAN, |v| -v));
    greatest(negated)
}

/// Index of the first of the greatest; NaN is ignored.
fn greatest(values: impl Iterator<Item = f64>) -> Option<usize> {
    let mut best: Option<(usize, f64)> = None;
    for (index, value) in values.enumerate() {
        if !value.is_nan() && best.is_none_or(|(_, most)| value > most) {
            best = Some((index, value));
        }
    }
    best.map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_most_say_wins_and_the_first_of_equals() {
        assert_eq!(majority(&["4", "5", "5"]), Some(1));
        assert_eq!(majority(&["4", "5"]), Some(0));
        assert_eq!(majority(&["4", "5", "6", "6", "5"]), Some(1));
        assert_eq!(majority(&["", "", "5"]), Some(2));
        assert_eq!(majority(&["", ""]), None);
        assert_eq!(majority(&[]), None);
    }

    #[test]
    fn the_text_closest_to_all_wins() {
        let texts = ["a zebra", "It is Paris.", "It is Paris", "London"];
        assert!(matches!(minimum_risk(&texts), Some(1 | 2)));
        // No two are equal, but one is between the others.
        assert_eq!(minimum_risk(&["abcdef", "abcxyz", "uvwxyz"]), Some(1));
        assert_eq!(minimum_risk(&["one"]), Some(0));
        assert_eq!(minimum_risk(&["same", "same"]), Some(0));
        assert_eq!(minimum_risk(&[]), None);
    }

    #[test]
    fn the_least_is_never_what_is_missing() {
        assert_eq!(
            least(&[None, Some(2.0), Some(1.0), Some(f64::NAN)]),
            Some(2)
        );
        assert_eq!(least(&[Some(1.0), Some(1.0)]), Some(0));
        assert_eq!(least(&[None, Some(f64::NAN)]), None);
    }
}
