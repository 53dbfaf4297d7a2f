//! Ceiling of every rule that emits one member's answer: if all members are wrong, so is the rule
//! (arXiv 2606.27288 calls the share of such questions β).

use serde::Serialize;

use crate::beta::clopper_pearson;
use crate::interval::Interval;
use crate::outcome::Outcome;

/// Share of the questions that no member answers right, alone and greedily.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ceiling {
    /// Number of questions with a right answer.
    pub questions: usize,
    /// Number of questions among them that every member answers wrong.
    pub wrong: usize,
    /// β: their share in percent.
    pub percent: f64,
    /// 95 % interval of β (Clopper-Pearson), percent.
    pub interval: Interval,
    /// Percent right of the member with the most right answers.
    pub best: f64,
    /// 100 − β − best: no choice among the members' answers gains more points over that member
    /// on these questions.
    pub gain: f64,
    /// The same with the lower end of β's interval.
    pub gain_high: f64,
}

impl Ceiling {
    /// Computes the ceiling of `outcomes`, ignoring open questions; `None` without questions or
    /// members.
    pub fn new<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> Option<Self> {
        let closed: Vec<&Outcome> = outcomes.filter(|outcome| !outcome.open).collect();
        let members = closed.iter().map(|outcome| outcome.alone.len()).max()?;
        let wrong = closed.iter().filter(|outcome| all_wrong(outcome)).count();
        let right = |member: usize| {
            let answers = closed
                .iter()
                .filter_map(|outcome| outcome.alone.get(member));
            answers.filter(|alone| alone.greedy.right).count()
        };
        let percent = |count: usize| 100.0 * count as f64 / closed.len() as f64;
        let best = percent((0..members).map(right).max()?);
        let shares = clopper_pearson(wrong, closed.len())?;
        let interval = Interval {
            low: 100.0 * shares.low,
            high: 100.0 * shares.high,
        };
        Some(Self {
            questions: closed.len(),
            wrong,
            percent: percent(wrong),
            interval,
            best,
            gain: 100.0 - percent(wrong) - best,
            gain_high: 100.0 - interval.low - best,
        })
    }
}

/// Returns whether every member is wrong, alone and greedily.
pub fn all_wrong(outcome: &Outcome) -> bool {
    outcome.alone.iter().all(|alone| !alone.greedy.right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::forty;

    #[test]
    fn no_choice_among_answers_gains_more() {
        let (_, mut outcomes) = forty();
        // A knows the first half, B all but the first ten: every question is known to one of them.
        let ceiling = Ceiling::new(outcomes.iter()).unwrap();
        assert_eq!((ceiling.wrong, ceiling.percent), (0, 0.0));
        assert_eq!((ceiling.best, ceiling.gain), (75.0, 25.0));
        for outcome in &mut outcomes[30..] {
            outcome.alone[1].greedy.right = false;
        }
        outcomes[39].open = true;
        let ceiling = Ceiling::new(outcomes.iter()).unwrap();
        assert_eq!((ceiling.questions, ceiling.wrong), (39, 9));
        // Each is right on twenty; one of them on thirty.
        let share = |count: f64| 100.0 * count / 39.0;
        assert!((ceiling.gain - share(10.0)).abs() < 1e-9);
        assert!((ceiling.best - share(20.0)).abs() < 1e-9);
        let Interval { low, high } = ceiling.interval;
        assert!(low < ceiling.percent && ceiling.percent < high);
        // Where the binomial's terms sum to 2.5 %.
        assert!((low - 11.1337).abs() < 1e-4 && (high - 39.3262).abs() < 1e-4);
        assert!((ceiling.gain_high - (100.0 - low - ceiling.best)).abs() < 1e-9);
        assert!(Ceiling::new([].iter()).is_none());
    }
}
