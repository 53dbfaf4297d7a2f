//! Online feedback: members whose candidates the others prefer get a heavier vote (Eq. 5).
//!
//! c_j = #{(i, m) : i ≠ j, m ≠ j, ŝ_ij ≥ ŝ_im}, floored at 1, r_j = c_j / (N−1)², and
//! w_j ← w_j·exp(η·r_j), renormalised. One member has nobody to learn from: its weight stays 1.
//!
//! Of two members each count is 1 in every round, and no weight would ever move. With
//! [`Reward::Shares`] r_j is what the others think of j's candidate, Σ_{i≠j} ŝ_ij / (N−1): in (0, 1)
//! as the paper's, and it says how much, not how often.

use serde::{Deserialize, Serialize};

use crate::{Rate, Reward, Settings};

/// What a round's feedback did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct Feedback {
    /// c, `[members]`: how often another member preferred this candidate to some other one, at
    /// least 1 and at most (N−1)².
    pub counts: Vec<usize>,
    /// r, `[members]`: what the setting `reward` says; 0 for a single member.
    pub rewards: Vec<f64>,
    /// η of this round; 0 for a single member.
    pub rate: f64,
    /// The weights after the update, `[members]`, summing to 1.
    pub weights: Vec<f64>,
}

/// The counts c (`[members]`) of square `shares` (`[verifiers][candidates]`).
pub fn counts(shares: &[Vec<f64>]) -> Vec<usize> {
    let n = shares.len();
    (0..n)
        .map(|j| {
            let preferred = (0..n)
                .filter(|&i| i != j)
                .flat_map(|i| (0..n).filter(move |&m| m != j).map(move |m| (i, m)))
                .filter(|&(i, m)| shares[i][j] >= shares[i][m])
                .count();
            preferred.max(1)
        })
        .collect()
}

/// The rewards r of `counts` among as many members.
pub fn rewards(counts: &[usize]) -> Vec<f64> {
    let pairs = counts.len().saturating_sub(1).pow(2);
    counts
        .iter()
        .map(|&count| {
            if pairs == 0 {
                0.0
            } else {
                count as f64 / pairs as f64
            }
        })
        .collect()
}

/// The rewards r of square `shares`: the mean of the others' shares of each candidate; 0 for a
/// single member.
pub fn regard(shares: &[Vec<f64>]) -> Vec<f64> {
    let n = shares.len();
    let others = n.saturating_sub(1).max(1) as f64;
    (0..n)
        .map(|j| {
            (0..n)
                .filter(|&i| i != j)
                .map(|i| shares[i][j])
                .sum::<f64>()
                / others
        })
        .collect()
}

/// η in `round` (from 1) among `members`; 0 for a single member.
pub fn rate(settings: &Settings, members: usize, round: usize) -> f64 {
    if members < 2 {
        return 0.0;
    }
    let (n, k) = (members as f64, round.max(1) as f64);
    match settings.rate {
        Rate::Code | Rate::FixedShare => settings.alpha / (k * n.sqrt()),
        Rate::Printed => settings.alpha / (n * k.sqrt()),
    }
}

/// The weights (`[members]`) after one update: w_j·exp(η·r_j), renormalised, then `mixed` of each
/// shared out evenly (0 for the plain rates). A constant added to all rewards changes nothing.
pub fn update(weights: &[f64], rewards: &[f64], rate: f64, mixed: f64) -> Vec<f64> {
    // exp of differences from the best: at most 1, so nothing overflows.
    let best = rewards.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let raised: Vec<f64> = weights
        .iter()
        .zip(rewards)
        .map(|(weight, reward)| weight * (rate * (reward - best)).exp())
        .collect();
    let sum: f64 = raised.iter().sum();
    let even = mixed / weights.len() as f64;
    raised
        .iter()
        .map(|weight| (1.0 - mixed) * weight / sum + even)
        .collect()
}

/// The whole of a round's feedback: `shares` square, `weights` before it, `round` from 1.
pub fn feedback(
    settings: &Settings,
    round: usize,
    shares: &[Vec<f64>],
    weights: &[f64],
) -> Feedback {
    let counts = counts(shares);
    let rewards = match settings.reward {
        Reward::Shares => regard(shares),
        Reward::Counts => rewards(&counts),
    };
    let rate = rate(settings, shares.len(), round);
    let mixed = match settings.rate {
        Rate::FixedShare => settings.fixed_share,
        Rate::Code | Rate::Printed => 0.0,
    };
    let weights = update(weights, &rewards, rate, mixed);
    Feedback {
        counts,
        rewards,
        rate,
        weights,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_of_the_definition() {
        // Verifier 1 ranks 0 > 2 > 1, verifier 2 ranks 0 = 1 > 2, verifier 0 ranks 2 > 1 > 0.
        let shares = [
            vec![0.2, 0.3, 0.5],
            vec![0.5, 0.2, 0.3],
            vec![0.4, 0.4, 0.2],
        ];
        // 0: verifier 1 prefers it to both, verifier 2 to both (a tie counts).      → 4
        // 1: verifier 0 prefers it to 0, verifier 2 to 0 (tie) and 2.               → 3
        // 2: verifier 0 prefers it to both, verifier 1 to 1.                        → 3
        assert_eq!(counts(&shares), [4, 3, 3]);
        assert_eq!(rewards(&[4, 3, 3]), [1.0, 0.75, 0.75]);
    }

    #[test]
    fn self_praise_counts_for_nothing() {
        let shares = [vec![0.9, 0.1], vec![0.2, 0.8]];
        assert_eq!(counts(&shares), [1, 1]);
    }

    #[test]
    fn rates_have_n_and_k_where_they_belong() {
        let settings = |rate| Settings {
            alpha: 2.0,
            rate,
            ..Settings::default()
        };
        assert_eq!(super::rate(&settings(Rate::Code), 4, 9), 2.0 / (9.0 * 2.0));
        assert_eq!(
            super::rate(&settings(Rate::Printed), 4, 9),
            2.0 / (4.0 * 3.0)
        );
        assert_eq!(super::rate(&settings(Rate::Code), 1, 1), 0.0);
    }

    #[test]
    fn fixed_share_is_a_floor_and_a_way_back() {
        let settings = Settings {
            rate: Rate::FixedShare,
            alpha: 100.0,
            fixed_share: 0.1,
            ..Settings::of(crate::Rule::Paper)
        };
        let low = [
            vec![0.4, 0.4, 0.2],
            vec![0.4, 0.4, 0.2],
            vec![0.4, 0.4, 0.2],
        ];
        let mut weights = vec![1.0 / 3.0; 3];
        for round in 1..=50 {
            weights = feedback(&settings, round, &low, &weights).weights;
        }
        assert!(weights[2] >= 0.1 / 3.0 && weights[2] < 0.1, "{weights:?}");
        let high = [
            vec![0.2, 0.2, 0.6],
            vec![0.2, 0.2, 0.6],
            vec![0.2, 0.2, 0.6],
        ];
        for round in 51..=80 {
            weights = feedback(&settings, round, &high, &weights).weights;
        }
        assert!(weights[2] > 0.5, "{weights:?}");
    }

    #[test]
    fn two_members_learn_of_each_other() {
        // Each prefers its own; the second thinks better of the first than the other way round.
        let shares = [vec![0.95, 0.05], vec![0.4, 0.6]];
        assert_eq!(regard(&shares), [0.4, 0.05]);
        let after = |reward| {
            let settings = Settings {
                reward,
                ..Settings::default()
            };
            feedback(&settings, 1, &shares, &[0.5, 0.5]).weights
        };
        assert_eq!(after(Reward::Counts), [0.5, 0.5]);
        let ratio = (0.35 / 2f64.sqrt()).exp();
        let weights = after(Reward::Shares);
        assert!(
            (weights[0] / weights[1] - ratio).abs() < 1e-12,
            "{weights:?}"
        );
    }

    #[test]
    fn one_member_learns_nothing_and_divides_by_nothing() {
        let alone = feedback(&Settings::default(), 1, &[vec![1.0]], &[1.0]);
        assert_eq!(
            alone,
            Feedback {
                counts: vec![1],
                rewards: vec![0.0],
                rate: 0.0,
                weights: vec![1.0]
            }
        );
    }
}
