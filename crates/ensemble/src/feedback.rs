//! Online feedback: members whose candidates the others prefer get a larger weight (Eq. 5).
//!
//! c_j = #{(i, m) : i ≠ j, m ≠ j, ŝ_ij ≥ ŝ_im}, at least 1, r_j = c_j / (N−1)², and
//! w_j ← w_j·exp(η·r_j), renormalised. The weight of a single member stays 1.
//!
//! If not all members judge or draft, i runs over those that judge and have not drafted c_j, m over
//! the other candidates, and r_j is divided by the number of such pairs. A member without a
//! candidate, or with one that no other member judges, keeps its weight relative to the others: its
//! r is their mean. N in the rate η remains the number of active members: the weight is spread
//! over all of them, and a late member is no reason for the others to learn faster. A round without
//! any vote leaves the weights unchanged.
//!
//! With two members each count is 1 in every round, so that no weight would ever change. With
//! [`Reward::Shares`] r_j is the mean of the others' shares of j's candidate,
//! Σ_{i≠j} ŝ_ij / (N−1): in (0, 1) like the paper's, and it measures how much, not how often.

use serde::{Deserialize, Serialize};

use crate::{Rate, Reward, Settings, vote::Vote};

/// Result of a round's feedback.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Feedback {
    /// c, `[candidates]`: how often another member prefers this candidate to some other one; 1 to
    /// (N−1)².
    pub counts: Vec<usize>,
    /// r, `[members]`, as the setting `reward` defines it; 0 for a single member. Members that the
    /// round does not rate have the mean of the others.
    pub rewards: Vec<f64>,
    /// η of this round; 0 for a single member.
    pub rate: f64,
    /// Weights after the update, `[members]`, summing to 1.
    pub weights: Vec<f64>,
}

/// Counts c (`[candidates]`) of a `vote`.
pub fn counts(vote: &Vote<'_>) -> Vec<usize> {
    let (shares, candidates) = (vote.shares, vote.drafters.len());
    (0..candidates)
        .map(|j| {
            let preferred = vote
                .others(j)
                .flat_map(|i| {
                    (0..candidates)
                        .filter(move |&m| m != j)
                        .map(move |m| (i, m))
                })
                .filter(|&(i, m)| shares[i][j] >= shares[i][m])
                .count();
            preferred.max(1)
        })
        .collect()
}

/// Rewards r from `counts` (`[candidates]`); `None` for candidates that no other member judges.
pub fn rewards(vote: &Vote<'_>, counts: &[usize]) -> Vec<Option<f64>> {
    let reward = |(j, &count): (usize, &usize)| {
        let (_, others) = vote.from_others(j)?;
        let pairs = others * (counts.len() - 1);
        Some(count as f64 / pairs as f64)
    };
    counts.iter().enumerate().map(reward).collect()
}

/// Rewards r (`[candidates]`) as the mean of the others' shares; `None` for candidates that no
/// other member judges.
pub fn regard(vote: &Vote<'_>) -> Vec<Option<f64>> {
    let mean = |j| {
        let (given, others) = vote.from_others(j)?;
        Some(given / others as f64)
    };
    (0..vote.drafters.len()).map(mean).collect()
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

/// Weights (`[members]`) after one update: w_j·exp(η·r_j), renormalised, then `mixed` of each
/// spread evenly (0 for the plain rates). A constant added to all rewards changes nothing.
pub fn update(weights: &[f64], rewards: &[f64], rate: f64, mixed: f64) -> Vec<f64> {
    // Differences from the best are at most 0, so that exp can't overflow.
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

/// Complete feedback of a round on its `vote`: `weights` before it, `round` from 1.
pub fn feedback(settings: &Settings, round: usize, vote: &Vote<'_>, weights: &[f64]) -> Feedback {
    let counts = counts(vote);
    let told = match settings.reward {
        Reward::Shares => regard(vote),
        Reward::Counts => rewards(vote, &counts),
    };
    let Some(rewards) = vote.by_member(&told) else {
        return Feedback {
            counts,
            rewards: vec![0.0; weights.len()],
            rate: 0.0,
            weights: weights.to_vec(),
        };
    };
    let rate = rate(settings, weights.len(), round);
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

    /// Vote of a round in which all members draft.
    fn all(shares: &[Vec<f64>]) -> Vote<'_> {
        Vote {
            shares,
            drafters: &[0, 1, 2][..shares.len()],
        }
    }

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
        assert_eq!(counts(&all(&shares)), [4, 3, 3]);
        let rewards = rewards(&all(&shares), &[4, 3, 3]);
        assert_eq!(rewards, [1.0, 0.75, 0.75].map(Some));
    }

    #[test]
    fn self_praise_counts_for_nothing() {
        let shares = [vec![0.9, 0.1], vec![0.2, 0.8]];
        assert_eq!(counts(&all(&shares)), [1, 1]);
    }

    #[test]
    fn rates_have_n_and_k_where_they_belong() {
        let settings = |rate| Settings {
            alpha: 2.0,
            rate,
            ..Settings::default()
        };
        assert_eq!(rate(&settings(Rate::Code), 4, 9), 2.0 / (9.0 * 2.0));
        assert_eq!(rate(&settings(Rate::Printed), 4, 9), 2.0 / (4.0 * 3.0));
        assert_eq!(rate(&settings(Rate::Code), 1, 1), 0.0);
    }

    #[test]
    fn fixed_share_is_a_floor_and_a_way_back() {
        let settings = Settings {
            rate: Rate::FixedShare,
            alpha: 100.0,
            fixed_share: 0.1,
            ..Settings::preset(crate::Rule::Paper)
        };
        let low = [
            vec![0.4, 0.4, 0.2],
            vec![0.4, 0.4, 0.2],
            vec![0.4, 0.4, 0.2],
        ];
        let mut weights = vec![1.0 / 3.0; 3];
        for round in 1..=50 {
            weights = feedback(&settings, round, &all(&low), &weights).weights;
        }
        assert!(weights[2] >= 0.1 / 3.0 && weights[2] < 0.1, "{weights:?}");
        let high = [
            vec![0.2, 0.2, 0.6],
            vec![0.2, 0.2, 0.6],
            vec![0.2, 0.2, 0.6],
        ];
        for round in 51..=80 {
            weights = feedback(&settings, round, &all(&high), &weights).weights;
        }
        assert!(weights[2] > 0.5, "{weights:?}");
    }

    #[test]
    fn two_members_learn_of_each_other() {
        // Each prefers its own; the second rates the first higher than the first rates the second.
        let shares = [vec![0.95, 0.05], vec![0.4, 0.6]];
        assert_eq!(regard(&all(&shares)), [Some(0.4), Some(0.05)]);
        let after = |reward| {
            let settings = Settings {
                reward,
                ..Settings::default()
            };
            feedback(&settings, 1, &all(&shares), &[0.5, 0.5]).weights
        };
        assert_eq!(after(Reward::Counts), [0.5, 0.5]);
        let ratio = (0.35 / 2_f64.sqrt()).exp();
        let weights = after(Reward::Shares);
        assert!(
            (weights[0] / weights[1] - ratio).abs() < 1e-12,
            "{weights:?}"
        );
    }

    #[test]
    fn one_member_learns_nothing_and_divides_by_nothing() {
        let alone = feedback(&Settings::default(), 1, &all(&[vec![1.0]]), &[1.0]);
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

    #[test]
    fn who_drafts_nothing_keeps_its_weight_beside_the_others() {
        // The third only judges; the second abstains.
        let shares = [vec![0.6, 0.4], vec![], vec![0.9, 0.1]];
        let vote = Vote {
            shares: &shares,
            drafters: &[0, 1],
        };
        assert_eq!(counts(&vote), [1, 1], "floored");
        assert_eq!(rewards(&vote, &[1, 1]), [Some(1.0), Some(0.5)]);
        let settings = Settings::default();
        let feedback = feedback(&settings, 1, &vote, &[0.25, 0.25, 0.5]);
        assert_eq!(feedback.rewards, [0.9, 0.25, 0.575]);
        // η has N = 3: all members among which the weight is spread.
        assert!((feedback.rate - 1.0 / 3_f64.sqrt()).abs() < 1e-12);
        let raised = [0.9, 0.25, 0.575].map(|r| (feedback.rate * r).exp());
        let raised = [0.25 * raised[0], 0.25 * raised[1], 0.5 * raised[2]];
        let sum: f64 = raised.iter().sum();
        for (weight, raised) in feedback.weights.iter().zip(raised) {
            assert!((weight - raised / sum).abs() < 1e-12, "{feedback:?}");
        }
    }

    #[test]
    fn a_round_that_says_nothing_of_anybody_changes_no_weight() {
        let settings = Settings {
            rate: Rate::FixedShare,
            ..Settings::default()
        };
        let weights = [0.2, 0.3, 0.5];
        let learnt = |shares: &[Vec<f64>], drafters: &[usize]| {
            let feedback = feedback(&settings, 1, &Vote { shares, drafters }, &weights);
            assert_eq!(
                (feedback.rate, feedback.counts.len()),
                (0.0, drafters.len())
            );
            feedback.weights
        };
        // One candidate, which no other member judges.
        assert_eq!(learnt(&[vec![1.0], vec![1.0], vec![]], &[1]), weights);
        assert_eq!(learnt(&[vec![], vec![], vec![]], &[0, 2]), weights);
    }
}
