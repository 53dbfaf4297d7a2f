//! Selection: Y_j = Σ_i w_i·ŝ_ij, and the candidate with the largest total wins (Eq. 4).

use serde::{Deserialize, Serialize};

/// Totals closer than this are a tie: the difference is rounding, which must not decide.
const TIE: f64 = 1e-12;

/// The outcome of a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Selection {
    /// Y, `[candidates]`: positive, summing to 1.
    pub totals: Vec<f64>,
    /// The winner, an index into this round's candidates (the active members in order).
    pub winner: usize,
}

/// The totals Y (`[candidates]`) of square `shares` (`[verifiers][candidates]`) under `weights`
/// (`[verifiers]`).
///
/// Without `self_votes` the diagonal is left out: each verifier's row is renormalised over the
/// candidates of the others, and Y_j is the weighted mean over those who may vote on j,
/// Σ_{i≠j} w_i·ŝ_ij / Σ_{i≠j} w_i, brought back to a sum of 1. (Without that division a member
/// would pay for its own weight: its candidate would be missing the heaviest vote.) Two members
/// would have one candidate each to judge and nothing to compare it with, so up to two members
/// self-votes count whatever the setting.
pub fn totals(shares: &[Vec<f64>], weights: &[f64], self_votes: bool) -> Vec<f64> {
    let n = shares.len();
    if self_votes || n <= 2 {
        return (0..n)
            .map(|j| shares.iter().zip(weights).map(|(row, w)| w * row[j]).sum())
            .collect();
    }
    let others = |i: usize| (0..n).filter(move |&j| j != i);
    let row_sums: Vec<f64> = (0..n)
        .map(|i| others(i).map(|j| shares[i][j]).sum())
        .collect();
    let vote = |i: usize, j: usize| {
        if row_sums[i] > 0.0 {
            shares[i][j] / row_sums[i]
        } else {
            1.0 / (n - 1) as f64
        }
    };
    let means: Vec<f64> = (0..n)
        .map(|j| {
            let voters: f64 = others(j).map(|i| weights[i]).sum();
            if voters > 0.0 {
                others(j).map(|i| weights[i] * vote(i, j)).sum::<f64>() / voters
            } else {
                // One member holds all the weight; on its own candidate the rest vote as equals.
                others(j).map(|i| vote(i, j)).sum::<f64>() / (n - 1) as f64
            }
        })
        .collect();
    let sum: f64 = means.iter().sum();
    means.iter().map(|mean| mean / sum).collect()
}

/// The index of the largest total; ties go to the lowest index. 0 if there is none.
pub fn winner(totals: &[f64]) -> usize {
    let best = totals.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    totals
        .iter()
        .position(|&total| total >= best - TIE)
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_decide_between_verifiers() {
        let shares = [vec![0.75, 0.25], vec![0.25, 0.75]];
        assert_eq!(totals(&shares, &[0.25, 0.75], true), [0.375, 0.625]);
        assert_eq!(totals(&shares, &[0.75, 0.25], true), [0.625, 0.375]);
    }

    #[test]
    fn ties_go_to_the_lowest_index_whatever_the_rounding() {
        assert_eq!(winner(&[0.2, 0.4, 0.4]), 1);
        assert_eq!(winner(&[0.3, 0.3 + 1e-16 * 4.0, 0.3]), 0);
        assert_eq!(winner(&[0.3, 0.3 + 1e-9]), 1);
        assert_eq!(winner(&[]), 0);
    }

    #[test]
    fn without_self_votes_the_diagonal_is_not_heard() {
        let vain = [
            vec![0.98, 0.01, 0.01],
            vec![0.2, 0.2, 0.6],
            vec![0.2, 0.6, 0.2],
        ];
        let modest = [
            vec![0.0, 0.5, 0.5],
            vec![0.25, 0.0, 0.75],
            vec![0.25, 0.75, 0.0],
        ];
        let weights = [0.5, 0.3, 0.2];
        let (a, b) = (
            totals(&vain, &weights, false),
            totals(&modest, &weights, false),
        );
        for (x, y) in a.iter().zip(&b) {
            assert!((x - y).abs() < 1e-12, "{a:?} {b:?}");
        }
        assert!((a.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert_eq!(winner(&totals(&vain, &weights, true)), 0);
        assert_ne!(winner(&a), 0);
    }

    #[test]
    fn without_self_votes_nobody_pays_for_its_own_weight() {
        // All verifiers agree that the candidates are equal: so are the totals.
        let equal = vec![vec![1.0 / 3.0; 3]; 3];
        for total in totals(&equal, &[0.6, 0.3, 0.1], false) {
            assert!((total - 1.0 / 3.0).abs() < 1e-12);
        }
        for total in totals(&equal, &[1.0, 0.0, 0.0], false) {
            assert!((total - 1.0 / 3.0).abs() < 1e-12);
        }
    }

    #[test]
    fn two_members_keep_their_self_votes() {
        let shares = [vec![0.4, 0.6], vec![0.3, 0.7]];
        assert_eq!(
            totals(&shares, &[0.5, 0.5], false),
            totals(&shares, &[0.5, 0.5], true)
        );
    }
}
