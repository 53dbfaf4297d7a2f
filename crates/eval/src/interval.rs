//! Seeded bootstrap intervals (Efron 1979) of means over questions.
//!
//! Questions are resampled with replacement; the interval contains the middle 95 % of the means.
//! Differences are paired: both ways use the same resamples, since a question that is hard for one
//! is hard for the other.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde::Serialize;

/// Number of bootstrap resamples.
const DRAWS: usize = 10_000;

/// 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// 2.5 % of the means are below it.
    pub low: f64,
    /// 2.5 % of the means are above it.
    pub high: f64,
}

/// Mean of `values`, one per question; `None` if empty.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Nearest-rank quantile: the smallest value that a fraction `part` of `values` does not exceed;
/// `None` if empty.
pub fn quantile(values: &[f64], part: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

/// 95 % interval of the mean of `values`, one per question; `None` if empty. For a paired
/// comparison, pass the differences. Deterministic in `seed`.
///
/// Equal values give an interval of width 0: the bootstrap knows only what it has observed.
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

/// Random number below `bound`, which must be far below 2³² for the bias to be negligible.
pub(crate) fn below(chance: &mut ChaCha8Rng, bound: u64) -> usize {
    ((u64::from(chance.next_u32()) * bound) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `count` values with `ones` ones.
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
        // The same rates on unrelated questions: nothing is certain.
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
