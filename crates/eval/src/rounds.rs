//! Rounds of the ensemble's answers: their writers and times.

use serde::Serialize;

use crate::ceiling::all_wrong;
use crate::interval::quantile;
use crate::outcome::{Outcome, Together};
use crate::ways::Run;

/// Rounds under one rule.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rounds {
    /// Name of the rule.
    pub name: String,
    /// Number of rounds of all answers.
    pub rounds: usize,
    /// Mean number of members in a round.
    pub active: f64,
    /// Percent of the calls saved because members left.
    pub saved: f64,
    /// Segments of each member.
    pub segments: Vec<Segments>,
    /// Percent of the rounds that were won by another than the most frequent winner.
    pub others: f64,
    /// Number of right answers to questions that every member alone answers wrong.
    pub beyond: usize,
    /// Times of the answers.
    pub times: Times,
}

/// Share of a member in the answers.
#[derive(Debug, Clone, Serialize)]
pub struct Segments {
    /// Name of the member.
    pub member: String,
    /// Number of its segments.
    pub won: usize,
    /// Percent of all segments.
    pub share: f64,
}

/// Times of the ensemble's answers, without prompt processing.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Times {
    /// Median of the seconds until the first accepted text.
    pub first: Option<f64>,
    /// Its 95th percentile.
    pub first_p95: Option<f64>,
    /// Member whose own answers take longest.
    pub slowest: Option<String>,
    /// Median ratio of the first accepted text's time to that member's whole answer.
    pub first_over_slowest: Option<f64>,
    /// Median ratio of the whole answer's time to that member's.
    pub over_slowest: Option<f64>,
}

impl Rounds {
    /// Computes the rounds under rule number `rule`; `slowest` is the index from [`slowest`].
    pub fn new(run: &Run, rule: usize, outcomes: &[&Outcome], slowest: Option<usize>) -> Self {
        let pairs = || outcomes.iter().filter(|one| one.rules.len() > rule);
        let answers = || pairs().map(|outcome| &outcome.rules[rule]);
        let rounds: usize = answers().map(|answer| answer.rounds).sum();
        let calls: usize = answers().map(|answer| answer.calls).sum();
        let won = |member: usize| -> usize {
            let won = answers().filter_map(|answer| answer.won.get(member));
            won.sum()
        };
        let all: usize = (0..run.members.len()).map(won).sum();
        let most = (0..run.members.len()).map(won).max().unwrap_or(0);
        let share = |won: usize| 100.0 * won as f64 / all.max(1) as f64;
        let full = (rounds * run.members.len()).max(1);
        let beyond = pairs().filter(|outcome| {
            !outcome.open && outcome.rules[rule].answer.right && all_wrong(outcome)
        });
        Self {
            name: run.rules[rule].clone(),
            rounds,
            active: calls as f64 / rounds.max(1) as f64,
            saved: match rounds {
                0 => 0.0,
                _ => 100.0 * (1.0 - calls as f64 / full as f64),
            },
            segments: run
                .members
                .iter()
                .enumerate()
                .map(|(index, member)| Segments {
                    member: member.clone(),
                    won: won(index),
                    share: share(won(index)),
                })
                .collect(),
            others: share(all - most),
            beyond: beyond.count(),
            times: times(run, rule, outcomes, slowest),
        }
    }
}

/// Index of the member whose greedy answers take longest; `None` without members.
pub fn slowest(run: &Run, outcomes: &[Outcome]) -> Option<usize> {
    let seconds = |member: &usize| -> f64 {
        let own = outcomes
            .iter()
            .filter_map(|outcome| outcome.alone.get(*member));
        own.map(|alone| alone.greedy.seconds).sum()
    };
    let members = 0..run.members.len();
    members.max_by(|a, b| seconds(a).total_cmp(&seconds(b)))
}

fn times(run: &Run, rule: usize, outcomes: &[&Outcome], slowest: Option<usize>) -> Times {
    let answered = || {
        let answers = outcomes.iter().filter_map(|outcome| {
            let answer = outcome.rules.get(rule)?;
            let own = outcome.alone.get(slowest?)?.greedy.seconds;
            Some((answer, own))
        });
        answers.filter(|(answer, _)| answer.answer.error.is_none())
    };
    let first: Vec<f64> = answered()
        .filter_map(|(answer, _)| answer.first_seconds())
        .collect();
    let over = |seconds: &dyn Fn(&Together) -> Option<f64>| {
        let ratios = answered().filter(|(_, own)| *own > 0.0);
        let ratios = ratios.filter_map(|(answer, own)| Some(seconds(answer)? / own));
        quantile(&ratios.collect::<Vec<_>>(), 0.5)
    };
    Times {
        first: quantile(&first, 0.5),
        first_p95: quantile(&first, 0.95),
        slowest: slowest.map(|member| run.members[member].clone()),
        first_over_slowest: over(&Together::first_seconds),
        over_slowest: over(&|answer| Some(answer.answer.seconds)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Played;
    use crate::report::tests::forty;

    fn played(writer: usize, seconds: f64, text: &str) -> Played {
        Played {
            writer,
            seconds,
            text: text.to_owned(),
            ..Played::default()
        }
    }

    #[test]
    fn times_are_beside_those_of_the_slowest_member() {
        let (run, mut outcomes) = forty();
        for (index, outcome) in (1..).zip(&mut outcomes) {
            let seconds = f64::from(index);
            outcome.alone[1].greedy.seconds = 2.0 * seconds;
            let rule = &mut outcome.rules[0];
            rule.answer.seconds = 6.0 * seconds;
            // Nothing was accepted in the first round.
            rule.played = vec![played(0, 0.1, ""), played(1, seconds, "yes")];
        }
        let slowest = slowest(&run, &outcomes);
        assert_eq!(slowest, Some(1));
        let all: Vec<&Outcome> = outcomes.iter().collect();
        let times = Rounds::new(&run, 0, &all, slowest).times;
        assert_eq!(times.slowest.as_deref(), Some("B"));
        assert_eq!((times.first, times.first_p95), (Some(20.0), Some(38.0)));
        assert_eq!(times.over_slowest, Some(3.0));
        assert_eq!(times.first_over_slowest, Some(0.5));
        outcomes[0].rules[0].answer.error = Some("full".to_owned());
        let first: Vec<&Outcome> = outcomes[..1].iter().collect();
        assert_eq!(Rounds::new(&run, 0, &first, slowest).times.first, None);
    }

    #[test]
    fn others_than_the_most_frequent_writer_win_a_third() {
        let (run, outcomes) = forty();
        let all: Vec<&Outcome> = outcomes.iter().collect();
        let rounds = Rounds::new(&run, 0, &all, None);
        assert_eq!(
            (rounds.rounds, rounds.active, rounds.saved),
            (80, 1.5, 25.0)
        );
        assert_eq!((rounds.segments[1].won, rounds.segments[0].won), (20, 40));
        assert!((rounds.segments[1].share - 100.0 / 3.0).abs() < 1e-9);
        assert!((rounds.others - 100.0 / 3.0).abs() < 1e-9);
        assert_eq!(rounds.beyond, 0);
        // The first member wrote all of the last twenty.
        let late = Rounds::new(&run, 0, &all[20..], None);
        assert_eq!(late.others, 0.0);
    }

    #[test]
    fn right_answers_that_no_member_gives_are_counted() {
        let (run, mut outcomes) = forty();
        for outcome in &mut outcomes[..5] {
            outcome.alone[0].greedy.right = false;
        }
        outcomes[0].open = true;
        let all: Vec<&Outcome> = outcomes.iter().collect();
        assert_eq!(Rounds::new(&run, 0, &all, None).beyond, 4);
    }
}
