//! A round's shares, with the drafters of its candidates.
//!
//! Rows are the active members, columns the candidates. The row of a member that abstains (late, or
//! it can only draft) is empty; a member that drafted nothing (late, or it only judges) has no
//! column.

/// One round's shares with the drafters of its candidates.
#[derive(Debug, Clone, Copy)]
pub struct Vote<'a> {
    /// Shares, `[verifiers][candidates]`; the row of a verifier that abstains is empty.
    pub shares: &'a [Vec<f64>],
    /// Drafter of each candidate, as a row: `[candidates]`, ascending.
    pub drafters: &'a [usize],
}

impl<'a> Vote<'a> {
    /// Rows that are not empty.
    pub fn judges(&self) -> impl Iterator<Item = usize> + use<'a> {
        let rows = self.shares.iter().enumerate();
        rows.filter(|(_, row)| !row.is_empty())
            .map(|(verifier, _)| verifier)
    }

    /// Members that judge candidate `j` and have not drafted it.
    pub fn others(&self, j: usize) -> impl Iterator<Item = usize> + use<'a> {
        let drafter = self.drafters[j];
        self.judges().filter(move |&verifier| verifier != drafter)
    }

    /// Sum of the others' shares of candidate `j`, and number of these others. `None` if no other
    /// member judges it, or if it is the only candidate.
    pub fn from_others(&self, j: usize) -> Option<(f64, usize)> {
        let count = self.others(j).count();
        let sum = self.others(j).map(|i| self.shares[i][j]).sum();
        (count > 0 && self.drafters.len() > 1).then_some((sum, count))
    }

    /// A number for each member, `[members]`: the largest of `entries` (`[candidates]`) among its
    /// candidates. A member without an entry gets the mean of the others, which leaves its
    /// standing unchanged. `None` if there is no entry at all.
    pub fn by_member(&self, entries: &[Option<f64>]) -> Option<Vec<f64>> {
        let count = entries.iter().flatten().count();
        if count == 0 {
            return None;
        }
        let mean = entries.iter().flatten().sum::<f64>() / count as f64;
        let mut best = vec![f64::NAN; self.shares.len()];
        for (&drafter, entry) in self.drafters.iter().zip(entries) {
            best[drafter] = best[drafter].max(entry.unwrap_or(f64::NAN));
        }
        let known = |best: f64| if best.is_nan() { mean } else { best };
        Some(best.into_iter().map(known).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_row_judges_nothing_and_a_drafter_not_itself() {
        let shares = [vec![0.25, 0.75], vec![], vec![0.5, 0.5]];
        let vote = Vote {
            shares: &shares,
            drafters: &[0, 1],
        };
        assert_eq!(vote.judges().collect::<Vec<_>>(), [0, 2]);
        assert_eq!(vote.others(0).collect::<Vec<_>>(), [2]);
        assert_eq!(vote.others(1).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(vote.from_others(0), Some((0.5, 1)));
        assert_eq!(vote.from_others(1), Some((1.25, 2)));
        assert_eq!(
            vote.by_member(&[Some(1.0), Some(2.0)]),
            Some(vec![1.0, 2.0, 1.5])
        );
        assert_eq!(
            vote.by_member(&[None, Some(2.0)]),
            Some(vec![2.0, 2.0, 2.0])
        );
        assert_eq!(vote.by_member(&[None, None]), None);
    }

    #[test]
    fn of_two_candidates_a_member_has_the_better() {
        let shares = [vec![0.2, 0.5, 0.3], vec![0.1, 0.6, 0.3]];
        let vote = Vote {
            shares: &shares,
            drafters: &[0, 0, 1],
        };
        let told = [Some(1.0), Some(3.0), Some(2.0)];
        assert_eq!(vote.by_member(&told), Some(vec![3.0, 2.0]));
        assert_eq!(
            vote.by_member(&[Some(1.0), None, None]),
            Some(vec![1.0, 1.0])
        );
    }

    #[test]
    fn of_one_candidate_nobody_says_anything() {
        let shares = [vec![1.0], vec![1.0]];
        let vote = Vote {
            shares: &shares,
            drafters: &[1],
        };
        assert_eq!(vote.from_others(0), None);
    }
}
