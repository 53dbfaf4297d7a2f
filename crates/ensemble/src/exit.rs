//! Model exit: members whose candidates the others keep scoring low leave the query.
//!
//! The papers describe the rule (cumulative quality, its entropy, a softmax temperature, a
//! keep-probability under a threshold) without a formula. Ours, over the n active members after K
//! rounds:
//!
//! 1. x_ik = n · mean over i' ≠ i of ŝ_i'i in round k, minus 1: the OTHERS' opinion of i's
//!    candidate, 0 being average. Q_i = Σ_k x_ik.
//! 2. Standardise: z_i = (Q_i − mean Q) / (σ·√K), with σ the deviation of a single round's
//!    quality, pooled over the active members, at least 0.05: z counts standard errors. (Divided by
//!    the spread of Q itself, z would always have spread 1, and one of two nearly equal members
//!    would look lost.)
//! 3. H = entropy of softmax(z) / ln n, T = T0·H (at least 0.05), p = softmax(z/T).
//! 4. After the warm-up, i leaves if p_i < threshold/n, unless it wrote this round's winner or
//!    fewer than two members would remain; the lowest Q goes first, ties from the highest index.
//!
//! Similar members have H ≈ 1, a hot softmax, and stay; a clear gap is cold.
//!
//! If not all members judge or draft, x is the mean over those that judge, and n the number of
//! candidates. A member without a candidate, or with one that no other member judges, gets the mean
//! of the others' x for that round, which leaves its standing unchanged. It does not leave in that
//! round, its warm-up counts only its own rounds, and at least two members whose candidates were
//! judged remain. A member that has never been judged takes no part in steps 2 to 4.

use crate::{Exit, vote::Vote};

/// Least deviation of a round's quality, relative to the average share: rounds that happen to be
/// alike must not make a lead of a few per cent significant.
const LEAST_DEVIATION: f64 = 0.05;

/// Lowest softmax temperature.
const LEAST_TEMPERATURE: f64 = 0.05;

/// Cumulative quality of the active members. Only sums are kept, so a round costs O(n²).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Quality {
    rounds: usize,
    /// Number of rounds in which each member's candidate was judged, `[members]`.
    judged: Vec<usize>,
    /// Last round in which it was judged, from 1; 0 for all after a round without any vote.
    last: Vec<usize>,
    /// Σ_k x_ik, `[members]`.
    sums: Vec<f64>,
    /// Σ_k x_ik·x_jk, `[members][members]`: enough to re-centre past rounds on the members that
    /// remain.
    products: Vec<Vec<f64>>,
}

impl Quality {
    /// No rounds yet, of `members` members.
    pub fn new(members: usize) -> Self {
        Self {
            rounds: 0,
            judged: vec![0; members],
            last: vec![0; members],
            sums: vec![0.0; members],
            products: vec![vec![0.0; members]; members],
        }
    }

    /// Rounds seen.
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// Adds a round's `vote`; a round without any vote is ignored.
    pub fn add(&mut self, vote: &Vote<'_>) {
        let (n, candidates) = (self.sums.len(), vote.drafters.len());
        let told: Vec<Option<f64>> = (0..candidates)
            .map(|j| {
                let (given, others) = vote.from_others(j)?;
                Some(candidates as f64 * given / others as f64 - 1.0)
            })
            .collect();
        let Some(round) = vote.by_member(&told) else {
            self.last.fill(0);
            return;
        };
        for (&drafter, told) in vote.drafters.iter().zip(&told) {
            // Once, however many candidates a member has drafted.
            if told.is_some() && self.last[drafter] != self.rounds + 1 {
                self.judged[drafter] += 1;
                self.last[drafter] = self.rounds + 1;
            }
        }
        for i in 0..n {
            self.sums[i] += round[i];
            for j in 0..n {
                self.products[i][j] += round[i] * round[j];
            }
        }
        self.rounds += 1;
    }

    /// Removes the members for which `stays` (`[members]`) is false.
    pub fn retain(&mut self, stays: &[bool]) {
        fn kept<T>(values: &mut Vec<T>, stays: &[bool]) {
            let mut stays = stays.iter();
            values.retain(|_| stays.next().copied().unwrap_or(false));
        }
        kept(&mut self.judged, stays);
        kept(&mut self.last, stays);
        kept(&mut self.sums, stays);
        kept(&mut self.products, stays);
        for row in &mut self.products {
            kept(row, stays);
        }
    }

    /// z, `[members]`: each member's lead over the average in standard errors.
    fn standardised(&self) -> Vec<f64> {
        let (n, rounds) = (self.sums.len() as f64, self.rounds as f64);
        let centre = self.sums.iter().sum::<f64>() / n;
        let leads: Vec<f64> = self.sums.iter().map(|sum| sum - centre).collect();
        // Σ_k (x_ik − mean_k)² from the products, then about each member's own mean.
        let row_means: Vec<f64> = self
            .products
            .iter()
            .map(|row| row.iter().sum::<f64>() / n)
            .collect();
        let mean = row_means.iter().sum::<f64>() / n;
        let squares: f64 = (0..leads.len())
            .map(|i| self.products[i][i] - 2.0 * row_means[i] + mean - leads[i] * leads[i] / rounds)
            .sum();
        let freedom = (n - 1.0) * (rounds - 1.0);
        let deviation = if freedom > 0.0 {
            (squares.max(0.0) / freedom).sqrt()
        } else {
            0.0
        };
        let error = deviation.max(LEAST_DEVIATION) * rounds.sqrt();
        leads.iter().map(|lead| lead / error).collect()
    }

    /// p, `[members]`: keep-probabilities under T0 = `temperature`. Uniform before the first round.
    pub fn keep(&self, temperature: f64) -> Vec<f64> {
        let n = self.sums.len();
        if n < 2 || self.rounds == 0 {
            return vec![1.0 / n.max(1) as f64; n];
        }
        let z = self.standardised();
        let entropy: f64 = softmax(&z, 1.0)
            .into_iter()
            .filter(|&p| p > 0.0)
            .map(|p| -p * p.ln())
            .sum();
        let heat = temperature * entropy / (n as f64).ln();
        softmax(&z, heat.max(LEAST_TEMPERATURE))
    }

    /// Members that leave now, ascending. `winner` wrote this round's winner.
    pub fn leavers(&self, exit: &Exit, winner: usize) -> Vec<usize> {
        let judged = |i: usize| self.judged[i] > 0;
        let now = |i: usize| self.last[i] == self.rounds;
        let members: Vec<usize> = (0..self.sums.len()).filter(|&i| judged(i)).collect();
        let here = members.iter().filter(|&&i| now(i)).count();
        if here <= 2 {
            return Vec::new();
        }
        let mut among = self.clone();
        among.retain(&(0..self.sums.len()).map(judged).collect::<Vec<_>>());
        let least = exit.threshold / members.len() as f64;
        let keep = among.keep(exit.temperature);
        let mut leaving: Vec<usize> = members
            .into_iter()
            .zip(keep)
            .filter(|&(i, _)| i != winner && now(i) && self.judged[i] >= exit.warmup)
            .filter(|&(_, keep)| keep < least)
            .map(|(i, _)| i)
            .collect();
        // By quality, since the keep-probabilities of several weak members may all have vanished.
        leaving.sort_by(|&a, &b| self.sums[a].total_cmp(&self.sums[b]).then(b.cmp(&a)));
        leaving.truncate(here - 2);
        leaving.sort_unstable();
        leaving
    }
}

fn softmax(values: &[f64], temperature: f64) -> Vec<f64> {
    let best = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let raised: Vec<f64> = values
        .iter()
        .map(|value| ((value - best) / temperature).exp())
        .collect();
    let sum: f64 = raised.iter().sum();
    raised.iter().map(|value| value / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vote of a round in which all members draft.
    fn all(shares: &[Vec<f64>]) -> Vote<'_> {
        Vote {
            shares,
            drafters: &[0, 1, 2, 3, 4][..shares.len()],
        }
    }

    /// Every verifier gives the same row.
    fn agreed(row: &[f64]) -> Vec<Vec<f64>> {
        let sum: f64 = row.iter().sum();
        vec![row.iter().map(|share| share / sum).collect(); row.len()]
    }

    fn after(rows: &[&[f64]]) -> Quality {
        let mut quality = Quality::new(rows[0].len());
        for row in rows {
            quality.add(&all(&agreed(row)));
        }
        quality
    }

    /// The same row in every round.
    fn steady(row: &[f64], rounds: usize) -> Quality {
        after(&vec![row; rounds])
    }

    /// The module's equations, step by step, from all rounds at once.
    fn keep_by_definition(rounds: &[Vec<Vec<f64>>], temperature: f64) -> Vec<f64> {
        let (n, k) = (rounds[0].len(), rounds.len());
        let x = |shares: &Vec<Vec<f64>>, i: usize| {
            let others: f64 = (0..n).filter(|&v| v != i).map(|v| shares[v][i]).sum();
            n as f64 * others / (n as f64 - 1.0) - 1.0
        };
        // Quality against the round's mean, [rounds][members].
        let centred: Vec<Vec<f64>> = rounds
            .iter()
            .map(|shares| {
                let all: Vec<f64> = (0..n).map(|i| x(shares, i)).collect();
                let mean = all.iter().sum::<f64>() / n as f64;
                all.iter().map(|quality| quality - mean).collect()
            })
            .collect();
        let lead = |i: usize| centred.iter().map(|round| round[i]).sum::<f64>();
        let squares: f64 = centred
            .iter()
            .flat_map(|round| (0..n).map(move |i| (round[i] - lead(i) / k as f64).powi(2)))
            .sum();
        let deviation = (squares / ((n - 1) * (k - 1)) as f64).sqrt().max(0.05);
        let z: Vec<f64> = (0..n)
            .map(|i| lead(i) / (deviation * (k as f64).sqrt()))
            .collect();
        let share = |values: &[f64]| -> Vec<f64> {
            let sum: f64 = values.iter().map(|value| value.exp()).sum();
            values.iter().map(|value| value.exp() / sum).collect()
        };
        let entropy: f64 = share(&z).iter().map(|p| -p * p.ln()).sum();
        let heat = temperature * entropy / (n as f64).ln();
        share(&z.iter().map(|z| z / heat).collect::<Vec<f64>>())
    }

    #[test]
    fn keep_probabilities_are_those_of_the_equations() {
        // The middle round is full of self-praise, which lowers the quality of all at once.
        let noisy = vec![
            vec![
                vec![0.2, 0.5, 0.3],
                vec![0.4, 0.4, 0.2],
                vec![0.5, 0.3, 0.2],
            ],
            vec![
                vec![0.8, 0.11, 0.09],
                vec![0.1, 0.8, 0.1],
                vec![0.12, 0.08, 0.8],
            ],
            vec![
                vec![0.3, 0.3, 0.4],
                vec![0.4, 0.2, 0.4],
                vec![0.6, 0.3, 0.1],
            ],
        ];
        let calm = vec![agreed(&[0.34, 0.34, 0.32]), agreed(&[0.34, 0.33, 0.33])];
        for rounds in [noisy, calm] {
            let mut quality = Quality::new(3);
            for shares in &rounds {
                quality.add(&all(shares));
            }
            for temperature in [0.5, 6.0] {
                let expected = keep_by_definition(&rounds, temperature);
                for (p, q) in quality.keep(temperature).iter().zip(expected) {
                    assert!((p - q).abs() < 1e-9, "{p} against {q}");
                }
            }
        }
    }

    #[test]
    fn a_clear_gap_leaves_after_the_warm_up_only() {
        let weak: &[f64] = &[3.0, 3.1, 2.0];
        let exit = Exit::default();
        assert!(steady(weak, 2).leavers(&exit, 0).is_empty());
        assert_eq!(steady(weak, 3).leavers(&exit, 0), [2]);
        // A member stays if it has just won, or if only two remain.
        assert!(steady(weak, 3).leavers(&exit, 2).is_empty());
        assert!(steady(&[3.0, 1.0], 9).leavers(&exit, 0).is_empty());
    }

    #[test]
    fn members_that_look_alike_stay() {
        let exit = Exit::default();
        // A steady lead of one per cent, and fluctuating leads.
        assert!(steady(&[1.0, 1.01, 0.99], 30).leavers(&exit, 1).is_empty());
        let swinging: [&[f64]; 3] = [&[1.2, 1.0, 0.8], &[0.8, 1.2, 1.0], &[1.0, 0.8, 1.1]];
        let rounds: Vec<&[f64]> = swinging.iter().copied().cycle().take(30).collect();
        assert!(after(&rounds).leavers(&exit, 0).is_empty());
        let keep = steady(&[1.0; 4], 5).keep(4.0);
        assert!(keep.iter().all(|p| (p - 0.25).abs() < 1e-12), "{keep:?}");
    }

    #[test]
    fn patience_threshold_and_warm_up_are_heard() {
        let quality = steady(&[3.0, 3.1, 2.6], 4);
        let leavers = |exit: Exit| quality.leavers(&exit, 0);
        assert_eq!(leavers(Exit::default()), [2]);
        assert!(
            leavers(Exit {
                temperature: 40.0,
                ..Exit::default()
            })
            .is_empty()
        );
        assert!(
            leavers(Exit {
                threshold: 0.0,
                ..Exit::default()
            })
            .is_empty()
        );
        assert!(
            leavers(Exit {
                warmup: 5,
                ..Exit::default()
            })
            .is_empty()
        );
    }

    #[test]
    fn at_most_all_but_two_leave_the_worst_first() {
        let quality = steady(&[9.0, 0.1, 0.3, 0.2, 0.3], 6);
        assert_eq!(quality.leavers(&Exit::default(), 0), [1, 3, 4]);
        assert_eq!(quality.leavers(&Exit::default(), 1), [2, 3, 4]);
    }

    #[test]
    fn forgetting_a_member_is_as_if_it_had_never_been_there() {
        let rows: [&[f64]; 3] = [&[1.0, 2.0, 3.0], &[2.5, 1.0, 3.0], &[1.5, 2.0, 2.0]];
        let mut three = after(&rows);
        three.retain(&[true, false, true]);
        // The same qualities of members 0 and 2, recorded between themselves.
        let x = |share: f64, row: &[f64]| 3.0 * share / row.iter().sum::<f64>() - 1.0;
        let mut two = Quality::new(2);
        for row in rows {
            let (a, b) = (x(row[0], row), x(row[2], row));
            two.add(&all(&[
                vec![0.0, (b + 1.0) / 2.0],
                vec![(a + 1.0) / 2.0, 0.0],
            ]));
        }
        for (p, q) in three.keep(4.0).iter().zip(two.keep(4.0)) {
            assert!((p - q).abs() < 1e-12, "{p} {q}");
        }
    }

    #[test]
    fn rounds_without_a_candidate_count_neither_for_a_member_nor_against_it() {
        let exit = Exit::default();
        let weak = agreed(&[3.0, 3.1, 2.0, 3.0]);
        let without = |member: usize| -> Vec<Vec<f64>> {
            let mut rows = weak.clone();
            for row in &mut rows {
                row.remove(member);
                let sum: f64 = row.iter().sum();
                row.iter_mut().for_each(|share| *share /= sum);
            }
            rows
        };
        // A judge that never drafts is not compared, and never leaves.
        let mut quality = Quality::new(4);
        let shares = without(3);
        for _ in 0..4 {
            quality.add(&Vote {
                shares: &shares,
                drafters: &[0, 1, 2],
            });
        }
        assert_eq!(quality.leavers(&exit, 0), [2]);
        let mut three = Quality::new(3);
        for _ in 0..4 {
            three.add(&all(&shares[..3]));
        }
        let mut known = quality.clone();
        known.retain(&[true, true, true, false]);
        for (p, q) in known.keep(6.0).iter().zip(three.keep(6.0)) {
            assert!((p - q).abs() < 1e-9, "{p} {q}");
        }

        // The weak member is late in two of four rounds: its warm-up counts three that it drafted
        // in.
        let mut quality = Quality::new(4);
        let late = without(2);
        let round = |quality: &mut Quality, present: bool| {
            let (shares, drafters): (_, &[usize]) = match present {
                true => (&weak, &[0, 1, 2, 3]),
                false => (&late, &[0, 1, 3]),
            };
            quality.add(&Vote { shares, drafters });
            quality.leavers(&exit, 0)
        };
        let mut gone = |present| round(&mut quality, present);
        assert!(gone(true).is_empty());
        assert!(gone(true).is_empty());
        assert!(gone(false).is_empty(), "absent, it does not leave");
        assert!(gone(false).is_empty());
        assert_eq!(gone(true), [2]);
    }

    #[test]
    fn two_that_draft_are_left() {
        // Two good members, a weak one, and two that only judge.
        let shares = agreed(&[3.0, 3.1, 0.5]);
        let shares: Vec<Vec<f64>> = shares.iter().cycle().take(5).cloned().collect();
        let mut quality = Quality::new(5);
        let mut add = |drafters: &[usize]| {
            let rows: Vec<Vec<f64>> = shares
                .iter()
                .map(|row| drafters.iter().map(|&i| row[i]).collect())
                .collect();
            quality.add(&Vote {
                shares: &rows,
                drafters,
            });
            quality.leavers(&Exit::default(), 0)
        };
        for _ in 0..3 {
            add(&[0, 1, 2]);
        }
        assert_eq!(add(&[0, 1, 2]), [2]);
        let two = add(&[0, 2]);
        assert!(two.is_empty(), "there would be nobody to choose from");
        assert!(add(&[2]).is_empty());
    }
}
