//! How sure a mean over questions is: bootstrap intervals (Efron 1979), seeded.
//!
//! Questions are drawn again with replacement, as many as there are, and the middle 95 % of the
//! means is the interval. A difference is paired: both ways of answering are taken on the same
//! draws, since a question that is hard for one is hard for the other.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde::Serialize;

/// How often the questions are drawn again.
const DRAWS: usize = 10_000;

/// From where to where 95 % lie.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// 2.5 % of the means are below it.
    pub low: f64,
    /// 2.5 % of the means are above it.
    pub high: f64,
}

/// The mean of `values`, one a question; `None` without any.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The least of `values` that so many of them, a share of `part`, don't exceed (nearest rank);
/// `None` without any.
pub fn quantile(values: &[f64], part: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

/// The 95 % interval of the mean of `values`, one a question; `None` without any. Of a difference
/// between two ways of answering, `values` are the differences. The same for the same `seed`.
///
/// Where all values are equal it has no width: the bootstrap knows nothing that it has not seen.
pub fn interval(values: &[f64], seed: u64) -> Option<Interval> {
    let count = u64::try_from(values.len())
        .ok()
        .filter(|&count| count > 0)?;
    let mut chance = ChaCha8Rng::seed_from_u64(seed);
    let mut means: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let drawn = (0..count).map(|_| values[below(&mut chance, count)]);
            drawn.sum::<f64>() / count as f64
        })
        .collect();
    means.sort_unstable_by(f64::total_cmp);
    let tail = DRAWS / 40;
    Some(Interval {
        low: means[tail],
        high: means[DRAWS - 1 - tail],
    })
}

/// A number below `bound`, which is far below 2³²: the bias doesn't matter.
pub(crate) fn below(chance: &mut ChaCha8Rng, bound: u64) -> usize {
    ((u64::from(chance.next_u32()) * bound) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many ones among `count` values.
    fn ones(ones: usize, count: usize) -> Vec<f64> {
        (0..count)
            .map(|index| f64::from(u8::from(index < ones)))
            .collect()
    }

    #[test]
    fn of_a_rate_it_is_nearly_the_normal_one() {
        for (right, count) in [(50, 100), (200, 1000), (560, 641)] {
            let rate = right as f64 / count as f64;
            let wanted = 1.96 * (rate * (1.0 - rate) / count as f64).sqrt();
            let found = interval(&ones(right, count), 1).unwrap();
            assert!(
                (rate - found.low - wanted).abs() < 0.06 * wanted,
                "{found:?}"
            );
            assert!(
                (found.high - rate - wanted).abs() < 0.06 * wanted,
                "{found:?}"
            );
        }
    }

    #[test]
    fn pairs_are_surer_than_two_rates() {
        // Right on 60 and 50 of 100, never right where the better one is wrong.
        let (better, worse) = (ones(60, 100), ones(50, 100));
        let differences: Vec<f64> = better.iter().zip(&worse).map(|(a, b)| a - b).collect();
        let paired = interval(&differences, 3).unwrap();
        assert!(paired.low > 0.03 && paired.high < 0.17, "{paired:?}");
        // The same rates on questions of their own: nothing is sure.
        let mut other = worse;
        other.reverse();
        let differences: Vec<f64> = better.iter().zip(&other).map(|(a, b)| a - b).collect();
        let unlike = interval(&differences, 3).unwrap();
        assert!(unlike.low < 0.0 && unlike.high > 0.2, "{unlike:?}");
    }

    #[test]
    fn quantiles_are_values_that_were_seen() {
        let values = [3.0, 1.0, 2.0, 4.0];
        assert_eq!(quantile(&values, 0.5), Some(2.0));
        assert_eq!(quantile(&values, 0.95), Some(4.0));
        assert_eq!(quantile(&values, 0.0), Some(1.0));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn the_seed_decides() {
        let values: Vec<f64> = (0..90).map(|index| f64::from(index).sqrt()).collect();
        assert_eq!(interval(&values, 5), interval(&values, 5));
        assert_ne!(interval(&values, 5), interval(&values, 6));
        assert_eq!(interval(&[], 5), None);
        assert_eq!(mean(&[]), None);
        let sure = interval(&[1.0; 9], 5).unwrap();
        assert_eq!((sure.low, sure.high), (1.0, 1.0));
    }
}
