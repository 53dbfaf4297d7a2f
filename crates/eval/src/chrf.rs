//! chrF: similarity of two texts, as an F-score of their character n-grams.
//!
//! Maja Popović, "chrF: character n-gram F-score for automatic MT evaluation", WMT 2015. The
//! details follow sacreBLEU 2.6, `nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no`: no white space,
//! n-grams of 1 to 6, orders longer than either text skipped, precision and recall averaged before
//! the F-score.

use std::collections::HashMap;

/// Length of the longest n-grams.
const ORDERS: usize = 6;

/// Weight of recall relative to precision.
const BETA: f64 = 2.0;

/// Count of each n-gram of one length.
type Counts = HashMap<Box<[char]>, usize>;

/// Character n-grams of a text.
#[derive(Debug, Clone)]
pub struct Grams {
    /// For n = 1 to 6, the counts and their total.
    orders: Vec<(Counts, usize)>,
}

impl Grams {
    /// Counts the n-grams of `text`, ignoring white space.
    pub fn new(text: &str) -> Self {
        let letters: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
        let order = |n: usize| {
            let mut counts = Counts::new();
            for gram in letters.windows(n) {
                *counts.entry(gram.into()).or_default() += 1;
            }
            (counts, (letters.len() + 1).saturating_sub(n))
        };
        Self {
            orders: (1..=ORDERS).map(order).collect(),
        }
    }

    /// chrF of this text against `reference`, 0 to 1: (1 + β²)·P·R / (β²·P + R), where P and R are
    /// the means over n of the shared n-grams' fraction of this text's and of the reference's. Two
    /// texts without letters score 1.
    ///
    /// ```
    /// use conclave_eval::chrf::Grams;
    ///
    /// let score = Grams::new("ab").chrf(&Grams::new("abc"));
    /// assert!((score - 7.0 / 11.0).abs() < 1e-12);
    /// ```
    pub fn chrf(&self, reference: &Self) -> f64 {
        let (mut precision, mut recall, mut orders) = (0.0, 0.0, 0.0);
        for ((grams, count), (wanted, wanted_count)) in self.orders.iter().zip(&reference.orders) {
            if *count == 0 || *wanted_count == 0 {
                continue;
            }
            let shared = grams
                .iter()
                .map(|(gram, &count)| count.min(wanted.get(gram).copied().unwrap_or_default()));
            let shared = shared.sum::<usize>() as f64;
            precision += shared / *count as f64;
            recall += shared / *wanted_count as f64;
            orders += 1.0;
        }
        if orders == 0.0 {
            let empty = |grams: &Self| grams.orders.iter().all(|(_, count)| *count == 0);
            return f64::from(u8::from(empty(self) && empty(reference)));
        }
        let (precision, recall) = (precision / orders, recall / orders);
        if precision + recall == 0.0 {
            return 0.0;
        }
        let weight = BETA * BETA;
        (1.0 + weight) * precision * recall / (weight * precision + recall)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chrf(text: &str, reference: &str) -> f64 {
        Grams::new(text).chrf(&Grams::new(reference))
    }

    #[test]
    fn it_is_what_sacrebleu_says() {
        for (text, reference, wanted) in [
            ("the cat sat", "the cat sat", 1.0),
            (
                "the cat sat on the mat",
                "a cat sat on a mat",
                0.5511170308673565,
            ),
            (
                "Paris",
                "Paris is the capital of France.",
                0.1479202037194902,
            ),
            (
                "Paris is the capital of France.",
                "Paris",
                0.4098191973828662,
            ),
            ("abc", "xyz", 0.0),
            ("Four", "four", 0.47916666666666674),
            ("naïve café", "naive cafe", 0.39411375661375664),
            ("ab", "abc", 0.6363636363636362),
        ] {
            let found = chrf(text, reference);
            assert!((found - wanted).abs() < 1e-12, "{text}: {found}");
        }
    }

    #[test]
    fn texts_without_letters_are_the_same_as_each_other_only() {
        assert_eq!(chrf(" ", ""), 1.0);
        assert_eq!(chrf("", "a"), 0.0);
        assert_eq!(chrf("a", ""), 0.0);
    }
}
