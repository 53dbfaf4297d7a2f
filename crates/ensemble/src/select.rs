//! Selection: Y_j = Σ_i w_i·ŝ_ij, and the candidate with the largest total wins (Eq. 4). By
//! default each row of ŝ is first divided by its largest share ([`totals`]).

use serde::{Deserialize, Serialize};

use crate::vote::Vote;

/// Largest difference of tied totals: it is rounding, which must not decide.
const TIE: f64 = 1e-12;

/// The outcome of a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Selection {
    /// Y, `[candidates]`: not negative, summing to 1 unless a candidate is discounted.
    pub totals: Vec<f64>,
    /// Winner, an index into this round's candidates.
    pub winner: usize,
    /// Verifiers, by row, whose vote alone decided the round (see [`turned_by`]).
    pub turned_by: Vec<usize>,
}

/// How votes count: see [`Settings::self_votes`](crate::Settings::self_votes) and
/// [`Settings::level`](crate::Settings::level).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Votes {
    /// A verifier's vote for its own candidate counts.
    pub own: bool,
    /// A verifier's shares are divided by its largest.
    pub level: bool,
}

/// Totals Y (`[candidates]`) of a `vote` under `weights` (`[verifiers]`). Sums run over the members
/// that judge, their weights normalised to a sum of 1.
///
/// Without `own` votes each verifier's row is renormalised over the others' candidates, and Y_j is
/// the weighted mean over those that may vote on j, Σ_{i≠j} w_i·ŝ_ij / Σ_{i≠j} w_i,
/// normalised to a sum of 1. (Without that division a member would pay for its own weight: its
/// candidate would lack the heaviest vote.) With two candidates each drafter would have only one to
/// judge and no comparison, so up to two votes for oneself count regardless of `own`; so they do if
/// a candidate has no other judge.
///
/// With `level` votes ŝ_ij / max_m ŝ_im replaces ŝ_ij, and Y is normalised to a sum of 1. A
/// verifier that finds all candidates of the others unlikely, as one with little knowledge does,
/// has nearly all of its shares on its own; levelled, every verifier gives its favourite the same,
/// and the differences in what it gives the others decide.
///
/// If no member judges, only the votes of earlier rounds are known: Y_j is the weight of j's
/// drafter.
pub fn totals(vote: &Vote<'_>, weights: &[f64], votes: Votes) -> Vec<f64> {
    let (shares, drafters) = (vote.shares, vote.drafters);
    let candidates = drafters.len();
    let judges: Vec<usize> = vote.judges().collect();
    if judges.is_empty() {
        let drafted: Vec<f64> = drafters.iter().map(|&i| weights[i]).collect();
        return to_one(&drafted);
    }
    let own =
        votes.own || candidates <= 2 || (0..candidates).any(|j| vote.others(j).next().is_none());
    let heard = |i: usize, j: usize| own || i != drafters[j];
    let rows: Vec<Vec<f64>> = (0..shares.len())
        .map(|i| {
            if shares[i].is_empty() {
                return Vec::new();
            }
            let row = || {
                let heard = (0..candidates).filter(|&j| heard(i, j));
                heard.map(|j| shares[i][j])
            };
            let whole = match votes.level {
                true => row().fold(0.0, f64::max),
                // Shares already sum to 1.
                false if own => 1.0,
                false => row().sum(),
            };
            let even = 1.0 / row().count() as f64;
            let levelled = |share: &f64| if whole > 0.0 { share / whole } else { even };
            shares[i].iter().map(levelled).collect()
        })
        .collect();
    let totals: Vec<f64> = (0..candidates)
        .map(|j| {
            let voters = || judges.iter().copied().filter(|&i| heard(i, j));
            let total: f64 = voters().map(|i| weights[i] * rows[i][j]).sum();
            let heard: f64 = voters().map(|i| weights[i]).sum();
            if heard == 0.0 {
                // All the weight is with members that have no say here; the rest vote as equals.
                return voters().map(|i| rows[i][j]).sum::<f64>() / voters().count() as f64;
            }
            if own { total } else { total / heard }
        })
        .collect();
    if own && !votes.level && judges.len() == shares.len() {
        return totals;
    }
    to_one(&totals)
}

/// Verifiers (rows) that turned a round which `winner` won: without their vote another candidate
/// would have won, the favourite of every other verifier. At least two others have to agree, so
/// that no member of two can turn a round.
///
/// `choose` returns the winner under other weights.
pub fn turned_by(
    vote: &Vote<'_>,
    weights: &[f64],
    winner: usize,
    choose: impl Fn(&[f64]) -> usize,
) -> Vec<usize> {
    let judges: Vec<usize> = vote.judges().collect();
    let agreed = |verifier: usize| {
        let others = judges.iter().filter(|&&other| other != verifier);
        let favourites = others.map(|&other| self::winner(&vote.shares[other]));
        let favourites: Vec<usize> = favourites.collect();
        match favourites[..] {
            [first, second, ref more @ ..] => {
                let alike = second == first && more.iter().all(|&favourite| favourite == first);
                alike.then_some(first)
            }
            _ => None,
        }
    };
    let turned = |&verifier: &usize| {
        let Some(favourite) = agreed(verifier).filter(|&favourite| favourite != winner) else {
            return false;
        };
        let mut without = weights.to_vec();
        without[verifier] = 0.0;
        choose(&without) == favourite
    };
    judges.iter().copied().filter(turned).collect()
}

/// `values` normalised to a sum of 1; uniform if the sum is 0.
fn to_one(values: &[f64]) -> Vec<f64> {
    let sum: f64 = values.iter().sum();
    let even = 1.0 / values.len() as f64;
    let share = |value: &f64| if sum > 0.0 { value / sum } else { even };
    values.iter().map(share).collect()
}

/// Index of the largest total; ties go to the lowest index. 0 if there is none.
pub fn winner(totals: &[f64]) -> usize {
    let best = totals.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    totals
        .iter()
        .position(|&total| total >= best - TIE)
        .unwrap_or(0)
}

/// Index of the largest total; ties go to the one that `form` (`[candidates]`) ranks first.
pub fn winner_among(totals: &[f64], form: &[f64]) -> usize {
    let first = winner(totals);
    let best = totals.get(first).copied().unwrap_or(0.0);
    let tied = |&j: &usize| totals[j] >= best - TIE;
    let most = (0..totals.len()).filter(tied).map(|j| form[j]);
    let most = most.fold(f64::NEG_INFINITY, f64::max);
    let chosen = (0..totals.len()).find(|j| tied(j) && form[*j] >= most - TIE);
    chosen.unwrap_or(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Totals of a round in which all members draft.
    fn totals(shares: &[Vec<f64>], weights: &[f64], votes: Votes) -> Vec<f64> {
        let drafters: Vec<usize> = (0..shares.len()).collect();
        among(shares, &drafters, weights, votes)
    }

    fn among(shares: &[Vec<f64>], drafters: &[usize], weights: &[f64], votes: Votes) -> Vec<f64> {
        super::totals(&Vote { shares, drafters }, weights, votes)
    }

    const ALL: Votes = Votes {
        own: true,
        level: false,
    };
    const OTHERS: Votes = Votes {
        own: false,
        level: false,
    };

    #[test]
    fn who_turns_what_all_others_agree_on_is_told() {
        let turned = |shares: &[Vec<f64>], weights: &[f64]| {
            let drafters: Vec<usize> = (0..shares[0].len()).collect();
            let vote = Vote {
                shares,
                drafters: &drafters,
            };
            let choose = |weights: &[f64]| winner(&super::totals(&vote, weights, ALL));
            turned_by(&vote, weights, choose(weights), choose)
        };
        let loud = [
            vec![0.1, 0.9, 0.0],
            vec![0.5, 0.3, 0.2],
            vec![0.5, 0.3, 0.2],
        ];
        assert_eq!(turned(&loud, &[0.4, 0.3, 0.3]), [0]);
        // Too light to turn it.
        assert_eq!(turned(&loud, &[0.1, 0.45, 0.45]), [0; 0]);
        // The others do not agree with each other.
        let split = [
            vec![0.1, 0.9, 0.0],
            vec![0.5, 0.3, 0.2],
            vec![0.2, 0.3, 0.5],
        ];
        assert_eq!(turned(&split, &[0.4, 0.3, 0.3]), [0; 0]);
        // With two members there is no majority to turn.
        assert_eq!(
            turned(&[vec![0.2, 0.8], vec![0.6, 0.4]], &[0.5, 0.5]),
            [0; 0]
        );
    }

    #[test]
    fn weights_decide_between_verifiers() {
        let shares = [vec![0.75, 0.25], vec![0.25, 0.75]];
        assert_eq!(totals(&shares, &[0.25, 0.75], ALL), [0.375, 0.625]);
        assert_eq!(totals(&shares, &[0.75, 0.25], ALL), [0.625, 0.375]);
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
            totals(&vain, &weights, OTHERS),
            totals(&modest, &weights, OTHERS),
        );
        for (x, y) in a.iter().zip(&b) {
            assert!((x - y).abs() < 1e-12, "{a:?} {b:?}");
        }
        assert!((a.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert_eq!(winner(&totals(&vain, &weights, ALL)), 0);
        assert_ne!(winner(&a), 0);
    }

    #[test]
    fn without_self_votes_nobody_pays_for_its_own_weight() {
        // All verifiers agree that the candidates are equal: so are the totals.
        let equal = vec![vec![1.0 / 3.0; 3]; 3];
        for total in totals(&equal, &[0.6, 0.3, 0.1], OTHERS) {
            assert!((total - 1.0 / 3.0).abs() < 1e-12);
        }
        for total in totals(&equal, &[1.0, 0.0, 0.0], OTHERS) {
            assert!((total - 1.0 / 3.0).abs() < 1e-12);
        }
    }

    #[test]
    fn two_members_keep_their_self_votes() {
        let shares = [vec![0.4, 0.6], vec![0.3, 0.7]];
        assert_eq!(
            totals(&shares, &[0.5, 0.5], OTHERS),
            totals(&shares, &[0.5, 0.5], ALL)
        );
    }

    #[test]
    fn levelled_a_vain_verifier_does_not_outvote_two() {
        // The third dislikes all but its own; the others think little of that.
        let shares = [
            vec![0.50, 0.45, 0.05],
            vec![0.40, 0.55, 0.05],
            vec![0.01, 0.01, 0.98],
        ];
        let even = [1.0 / 3.0; 3];
        assert_eq!(winner(&totals(&shares, &even, ALL)), 2);
        let level = Votes { level: true, ..ALL };
        let levelled = totals(&shares, &even, level);
        assert_eq!(winner(&levelled), 1);
        assert!((levelled.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        // Rows over their best: Y_1 : Y_2 = (0.9 + 1 + 1/98) : (1 + 8/11 + 1/98).
        let ratio = (0.9 + 1.0 + 1.0 / 98.0) / (1.0 + 8.0 / 11.0 + 1.0 / 98.0);
        assert!((levelled[1] / levelled[0] - ratio).abs() < 1e-12);
        // Among the others' candidates alone the third's row is 1 : 1, and the first two praise
        // each other.
        let level = Votes {
            level: true,
            ..OTHERS
        };
        let others = totals(&shares, &even, level);
        assert!((others.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!((others[1] - others[0]).abs() < 1e-12, "{others:?}");
        let ratio = (1.0 + 1.0) / (0.05 / 0.45 + 0.05 / 0.40);
        assert!((others[0] / others[2] - ratio).abs() < 1e-12, "{others:?}");
    }

    #[test]
    fn those_that_judge_share_the_weight_of_those_that_abstain() {
        let shares = [vec![0.75, 0.25], vec![], vec![0.25, 0.75]];
        let weights = [0.1, 0.6, 0.3];
        // (0.1 · 0.75 + 0.3 · 0.25) / 0.4
        let found = among(&shares, &[0, 1], &weights, ALL);
        assert!((found[0] - 0.375).abs() < 1e-12, "{found:?}");
        assert!((found[1] - 0.625).abs() < 1e-12, "{found:?}");
        // All the weight is with the one that abstains: the others vote as equals.
        assert_eq!(among(&shares, &[0, 1], &[0.0, 1.0, 0.0], ALL), [0.5, 0.5]);
    }

    #[test]
    fn where_nobody_judges_the_weightiest_drafter_wins() {
        let silent = vec![vec![]; 3];
        let found = among(&silent, &[0, 2], &[0.2, 0.4, 0.4], ALL);
        assert!((found[1] - 0.4 / 0.6).abs() < 1e-12, "{found:?}");
        assert_eq!(winner(&found), 1);
        assert_eq!(among(&silent, &[1], &[0.5, 0.0, 0.5], ALL), [1.0]);
    }

    #[test]
    fn a_judge_that_drafts_nothing_is_heard_on_all() {
        // The last only judges; the others praise themselves.
        let shares = [
            vec![0.98, 0.01, 0.01],
            vec![0.01, 0.98, 0.01],
            vec![0.01, 0.01, 0.98],
            vec![0.2, 0.5, 0.3],
        ];
        let found = among(&shares, &[0, 1, 2], &[0.25; 4], OTHERS);
        assert_eq!(winner(&found), 1);
        // Rows without the own: 0.5 for each other, and the judge unchanged; a mean of three votes.
        let votes = [0.2, 0.5, 0.3].map(|share| (0.5 + 0.5 + share) / 3.0);
        let sum: f64 = votes.iter().sum();
        for (total, vote) in found.iter().zip(votes) {
            assert!((total - vote / sum).abs() < 1e-12, "{found:?}");
        }
    }

    #[test]
    fn an_only_judge_is_heard_on_its_own_candidate_too() {
        let shares = [vec![0.2, 0.5, 0.3], vec![], vec![]];
        let found = among(&shares, &[0, 1, 2], &[0.2, 0.4, 0.4], OTHERS);
        for (total, share) in found.iter().zip(&shares[0]) {
            assert!((total - share).abs() < 1e-12, "{found:?}");
        }
    }
}
