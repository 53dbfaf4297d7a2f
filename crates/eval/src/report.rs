//! The figures of a run: each way of answering over all questions, and who wrote the ensemble's
//! answers.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::interval::{Interval, interval, mean};
use crate::outcome::Outcome;
use crate::ways::{Kind, Run, Tried, Way, ways};

/// All figures.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Questions asked.
    pub asked: usize,
    /// Questions of each task file or skill.
    pub groups: BTreeMap<String, usize>,
    /// The best member alone: that which answers most right, greedy or sampled.
    pub best: Option<String>,
    /// Every way of answering.
    pub ways: Vec<Row>,
    /// Every rule's rounds.
    pub rules: Vec<Rounds>,
}

/// A way of answering.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// What it is called.
    pub name: String,
    /// What kind it is.
    pub kind: Kind,
    /// Right answers.
    pub right: usize,
    /// The same in percent.
    pub percent: f64,
    /// Its 95 % interval.
    pub interval: Interval,
    /// Percentage points over the best member alone; nothing for itself.
    pub difference: Option<Difference>,
    /// Percent of each group.
    pub groups: BTreeMap<String, f64>,
    /// Tokens run per answer, without the prompt's.
    pub tokens: f64,
    /// Seconds per answer, without the reading of the prompt.
    pub seconds: f64,
    /// Mean length.
    pub characters: f64,
    /// Percent of the answers with a role marker.
    pub markers: f64,
    /// Percent of the answers that came to the limit.
    pub cut: f64,
    /// Questions without an answer.
    pub failed: usize,
}

/// How far a way is over another.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Difference {
    /// Percentage points.
    pub points: f64,
    /// The 95 % interval, paired.
    pub interval: Interval,
}

/// What the rounds under a rule were.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rounds {
    /// The rule.
    pub name: String,
    /// Rounds of all answers.
    pub rounds: usize,
    /// Members that took part in a round, on average.
    pub active: f64,
    /// Percent of the calls that members who left saved.
    pub saved: f64,
    /// Who wrote how much.
    pub segments: Vec<Segments>,
}

/// A member's part of the answers.
#[derive(Debug, Clone, Serialize)]
pub struct Segments {
    /// The member.
    pub member: String,
    /// Segments that it wrote.
    pub won: usize,
    /// Percent of all.
    pub share: f64,
}

impl Report {
    /// The figures of `outcomes`.
    pub fn of(run: &Run, outcomes: &[Outcome]) -> Self {
        let mut groups: BTreeMap<String, usize> = BTreeMap::new();
        for outcome in outcomes {
            *groups.entry(outcome.group.clone()).or_default() += 1;
        }
        let ways = ways(run, outcomes);
        let mut best: Option<&Way> = None;
        for way in ways.iter().filter(|way| way.kind == Kind::Alone) {
            if best.is_none_or(|best| count(way, |t| t.right) > count(best, |t| t.right)) {
                best = Some(way);
            }
        }
        let row = |way| row(way, best, run.seed, outcomes);
        Self {
            asked: outcomes.len(),
            groups,
            best: best.map(|best| best.name.clone()),
            ways: ways.iter().filter_map(row).collect(),
            rules: (0..run.rules.len())
                .map(|rule| rounds(run, rule, outcomes))
                .collect(),
        }
    }
}

/// Percent right of each answer: 100 or 0.
fn percents(way: &Way) -> Vec<f64> {
    let percent = |tried: &Tried| if tried.right { 100.0 } else { 0.0 };
    way.tried.iter().map(percent).collect()
}

fn count(way: &Way, what: impl Fn(&Tried) -> bool) -> usize {
    way.tried.iter().filter(|tried| what(tried)).count()
}

/// `None` without any question.
fn row(way: &Way, best: Option<&Way>, seed: u64, outcomes: &[Outcome]) -> Option<Row> {
    let percents = percents(way);
    let over = |best: &Way| {
        let differences: Vec<f64> = percents
            .iter()
            .zip(self::percents(best))
            .map(|(own, best)| own - best)
            .collect();
        Some(Difference {
            points: mean(&differences)?,
            interval: interval(&differences, seed)?,
        })
    };
    let mut of_groups: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (outcome, &percent) in outcomes.iter().zip(&percents) {
        of_groups
            .entry(outcome.group.clone())
            .or_default()
            .push(percent);
    }
    let average = |of: &dyn Fn(&Tried) -> f64| {
        let all: Vec<f64> = way.tried.iter().map(of).collect();
        mean(&all)
    };
    let share = |of: &dyn Fn(&Tried) -> bool| average(&|tried| if of(tried) { 100.0 } else { 0.0 });
    Some(Row {
        name: way.name.clone(),
        kind: way.kind,
        right: count(way, |tried| tried.right),
        percent: mean(&percents)?,
        interval: interval(&percents, seed)?,
        difference: best.filter(|best| best.name != way.name).and_then(over),
        groups: of_groups
            .into_iter()
            .filter_map(|(group, values)| Some((group, mean(&values)?)))
            .collect(),
        tokens: average(&|tried| tried.tokens as f64)?,
        seconds: average(&|tried| tried.seconds)?,
        characters: average(&|tried| tried.characters as f64)?,
        markers: share(&|tried| tried.marker)?,
        cut: share(&|tried| tried.cut)?,
        failed: count(way, |tried| tried.failed),
    })
}

fn rounds(run: &Run, rule: usize, outcomes: &[Outcome]) -> Rounds {
    let answers = || {
        outcomes
            .iter()
            .filter_map(|outcome| outcome.rules.get(rule))
    };
    let rounds: usize = answers().map(|answer| answer.rounds).sum();
    let calls: usize = answers().map(|answer| answer.calls).sum();
    let won = |member: usize| -> usize {
        let won = answers().filter_map(|answer| answer.won.get(member));
        won.sum()
    };
    let all: usize = (0..run.members.len()).map(won).sum();
    let active = calls as f64 / rounds.max(1) as f64;
    let full = (rounds * run.members.len()).max(1);
    Rounds {
        name: run.rules[rule].clone(),
        rounds,
        active,
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
                share: 100.0 * won(index) as f64 / all.max(1) as f64,
            })
            .collect(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::outcome::{Alone, Given, Together};

    fn given(right: bool, text: &str) -> Given {
        Given {
            text: text.to_owned(),
            key: text.to_owned(),
            right,
            tokens: 5,
            seconds: 0.5,
            cut: !right,
            error: None,
        }
    }

    /// Forty questions of two files: A knows the first half, B three quarters, the ensemble all but
    /// the last four.
    pub(crate) fn forty() -> (Run, Vec<Outcome>) {
        let alone = |right| Alone {
            greedy: given(right, if right { "yes" } else { "no\nUser: well?" }),
            ..Alone::default()
        };
        let outcome = |index: usize| Outcome {
            group: if index.is_multiple_of(2) {
                "even"
            } else {
                "odd"
            }
            .to_owned(),
            id: index.to_string(),
            question: "q".to_owned(),
            alone: vec![alone(index < 20), alone(index >= 10)],
            rules: vec![Together {
                given: Given {
                    tokens: 20,
                    ..given(index < 36, "yes")
                },
                rounds: 2,
                calls: 3,
                won: vec![1, usize::from(index < 20)],
            }],
            ..Outcome::default()
        };
        let run = Run {
            members: vec!["A".to_owned(), "B".to_owned()],
            rules: vec!["paper".to_owned()],
            samples: None,
            seed: 7,
        };
        (run, (0..40).map(outcome).collect())
    }

    #[test]
    fn every_figure_is_what_it_says() {
        let (run, outcomes) = forty();
        let report = Report::of(&run, &outcomes);
        assert_eq!((report.asked, report.groups["even"]), (40, 20));
        assert_eq!(report.best.as_deref(), Some("B alone, greedy"));
        let row = |name: &str| report.ways.iter().find(|row| row.name == name).unwrap();
        let (a, b) = (row("A alone, greedy"), row("B alone, greedy"));
        assert_eq!((a.right, a.percent, b.percent), (20, 50.0, 75.0));
        assert!(a.interval.low < 45.0 && a.interval.high > 55.0);
        assert_eq!(
            (a.markers, a.cut, a.tokens, a.seconds),
            (50.0, 50.0, 5.0, 0.5)
        );
        assert_eq!(b.characters, (30.0 * 3.0 + 10.0 * 14.0) / 40.0);
        assert_eq!(a.groups["odd"], 50.0);
        assert!(b.difference.is_none());
        let ensemble = row("ensemble, paper");
        let over = ensemble.difference.unwrap();
        // Better on ten, worse on four.
        assert_eq!((ensemble.percent, over.points), (90.0, 15.0));
        assert!(
            over.interval.low < 0.0 && over.interval.high < 35.0,
            "{over:?}"
        );
        assert_eq!(row("oracle of greedy answers").percent, 100.0);
        let rounds = &report.rules[0];
        assert_eq!(
            (rounds.rounds, rounds.active, rounds.saved),
            (80, 1.5, 25.0)
        );
        assert_eq!((rounds.segments[1].won, rounds.segments[0].won), (20, 40));
        assert!((rounds.segments[1].share - 100.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn of_nothing_there_are_no_figures() {
        let (run, _) = forty();
        let report = Report::of(&run, &[]);
        assert!(report.ways.is_empty());
        assert!(report.rules[0].saved.abs() < f64::EPSILON);
    }
}
