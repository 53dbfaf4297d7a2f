//! Comparison of a way of answering with one member alone, on the same questions.

use serde::Serialize;

use crate::interval::{Interval, interval, mean};
use crate::ways::Tried;

/// Gain over a member, with the counts of questions it results from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// Gain in percentage points.
    pub points: f64,
    /// 95 % interval of the gain, paired.
    pub interval: Interval,
    /// Number of questions that the member answers right.
    pub right: usize,
    /// Number of questions among them that the way answers wrong.
    pub lost: usize,
    /// Number of questions that the member answers wrong.
    pub wrong: usize,
    /// Number of questions among them that the way answers right.
    pub gained: usize,
}

impl Difference {
    /// Compares `own` with `member`, each `[questions]` in the same order; `None` without
    /// questions.
    pub fn new(own: &[&Tried], member: &[&Tried], seed: u64) -> Option<Self> {
        let pairs = || own.iter().zip(member);
        let points = |(own, member): (&&Tried, &&Tried)| percent(own.right) - percent(member.right);
        let differences: Vec<f64> = pairs().map(points).collect();
        let count = |own: bool, member: bool| {
            let such = pairs().filter(|(a, b)| a.right == own && b.right == member);
            such.count()
        };
        let (lost, gained) = (count(false, true), count(true, false));
        Some(Self {
            points: mean(&differences)?,
            interval: interval(&differences, seed)?,
            right: lost + count(true, true),
            lost,
            wrong: gained + count(false, false),
            gained,
        })
    }
}

/// Returns 100 for a right answer, else 0.
pub fn percent(right: bool) -> f64 {
    if right { 100.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_and_gained_questions_make_the_difference() {
        let tried = |right| Tried {
            right,
            ..Tried::default()
        };
        let (yes, no) = (tried(true), tried(false));
        // Both, only the member, neither, only the way (three times).
        let own = [&yes, &no, &no, &yes, &yes, &yes];
        let member = [&yes, &yes, &no, &no, &no, &no];
        let found = Difference::new(&own, &member, 1).unwrap();
        assert_eq!((found.right, found.lost), (2, 1));
        assert_eq!((found.wrong, found.gained), (4, 3));
        assert!((found.points - 100.0 * 2.0 / 6.0).abs() < 1e-9);
        assert!(found.interval.low < found.points && found.points < found.interval.high);
        assert_eq!(Difference::new(&[], &[], 1), None);
    }
}
