//! Results of a run: each way of answering over all questions and over each group, the ceiling, and
//! the ensemble's rounds.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::against::{Difference, percent};
use crate::ceiling::Ceiling;
use crate::draws::{Drawn, drawn, groups};
use crate::interval::{Interval, interval, mean};
use crate::means::Means;
use crate::outcome::Outcome;
use crate::rounds::{Rounds, slowest};
use crate::ways::{Kind, Run, Tried, Way, ways};

/// Results of an evaluation: each way of answering with its intervals, groups and rounds.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Number of questions.
    pub asked: usize,
    /// Number of open questions among them, which count in no percentage.
    pub open: usize,
    /// Questions of each task file or skill.
    pub groups: BTreeMap<String, usize>,
    /// Best member alone: with the most right answers, greedy or sampled.
    pub best: Option<String>,
    /// Every way of answering, over the questions with a right answer.
    pub ways: Vec<Row>,
    /// Ceiling of every rule that emits one member's answer.
    pub ceiling: Option<Ceiling>,
    /// Results of each group with right answers.
    pub by_group: BTreeMap<String, Group>,
    /// Rounds under every rule.
    pub rules: Vec<Rounds>,
    /// Members alone and rules, over the open questions.
    pub open_ways: Vec<OpenRow>,
    /// Members alone and rules, sampled with several seeds.
    pub draws: Vec<Drawn>,
}

/// Results of a way of answering.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Name of the way.
    pub name: String,
    /// Kind of the way.
    pub kind: Kind,
    /// Number of right answers.
    pub right: usize,
    /// Percent right.
    pub percent: f64,
    /// 95 % interval of the percentage.
    pub interval: Interval,
    /// Gain over the best member alone; `None` for that member.
    pub difference: Option<Difference>,
    /// Gain over each group's best member, pooled over the groups. Those members were chosen on the
    /// same questions, which favours them.
    pub over_groups: Option<Difference>,
    /// Percent right of each group.
    pub groups: BTreeMap<String, f64>,
    /// Means over the answers.
    #[serde(flatten)]
    pub means: Means,
}

/// Results of a way of answering open questions.
#[derive(Debug, Clone, Serialize)]
pub struct OpenRow {
    /// Name of the way.
    pub name: String,
    /// Kind of the way.
    pub kind: Kind,
    /// Means over the answers.
    #[serde(flatten)]
    pub means: Means,
}

/// Results of one group.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// Number of questions with a right answer.
    pub questions: usize,
    /// Best member alone on this group.
    pub best: String,
    /// Percent right of that member.
    pub percent: f64,
    /// Ceiling on these questions.
    pub ceiling: Option<Ceiling>,
    /// Every way except oracles, compared with that member and the best member of all groups; a
    /// member is not compared with itself.
    pub ways: Vec<Sides>,
    /// Rounds under every rule.
    pub rules: Vec<Rounds>,
}

/// Comparison of a way with two members, on one group.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sides {
    /// Name of the way.
    pub name: String,
    /// Kind of the way.
    pub kind: Kind,
    /// Percent right.
    pub percent: f64,
    /// Gain over the best member of the group.
    pub over_group_best: Option<Difference>,
    /// Gain over the best member of all groups.
    pub over_best: Option<Difference>,
}

impl Report {
    /// Computes all results.
    pub fn new(run: &Run, outcomes: &[Outcome]) -> Self {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for outcome in outcomes {
            *counts.entry(outcome.group.clone()).or_default() += 1;
        }
        let ways = ways(run, outcomes);
        let places = |wanted: &dyn Fn(&Outcome) -> bool| -> Vec<usize> {
            let all = 0..outcomes.len();
            all.filter(|&place| wanted(&outcomes[place])).collect()
        };
        let (closed, open) = (places(&|one| !one.open), places(&|one| one.open));
        let of_groups: Vec<(String, Vec<usize>)> = counts
            .keys()
            .map(|group| {
                let own = places(&|one| !one.open && one.group == *group);
                (group.clone(), own)
            })
            .filter(|(_, own)| !own.is_empty())
            .collect();
        let figures = Figures {
            run,
            outcomes,
            best: best(&ways, &closed),
            slowest: slowest(run, outcomes),
            ways: &ways,
        };
        let alone = |way: &&Way| matches!(way.kind, Kind::Alone | Kind::Ensemble);
        let all: Vec<&Outcome> = outcomes.iter().collect();
        Self {
            asked: outcomes.len(),
            open: open.len(),
            groups: counts,
            best: figures.best.map(|best| best.name.clone()),
            ways: ways
                .iter()
                .filter_map(|way| figures.row(way, &closed, &of_groups))
                .collect(),
            ceiling: Ceiling::new(outcomes.iter()),
            by_group: of_groups
                .iter()
                .filter_map(|(name, own)| Some((name.clone(), figures.group(own)?)))
                .collect(),
            rules: figures.rounds(&all),
            open_ways: match open.is_empty() {
                true => Vec::new(),
                false => ways
                    .iter()
                    .filter(alone)
                    .map(|way| OpenRow {
                        name: way.name.clone(),
                        kind: way.kind,
                        means: figures.means(way, &open),
                    })
                    .collect(),
            },
            draws: drawn(run, outcomes),
        }
    }
}

/// Best member alone on the questions at `places`; of equally good ones the first.
fn best<'a>(ways: &'a [Way], places: &[usize]) -> Option<&'a Way> {
    let right = |way: &Way| tried(way, places).iter().filter(|one| one.right).count();
    let alone = ways.iter().filter(|way| way.kind == Kind::Alone);
    let alone = alone.filter(|_| !places.is_empty());
    // `max_by_key` returns the last of equals.
    let alone: Vec<&Way> = alone.collect();
    alone.into_iter().rev().max_by_key(|way| right(way))
}

/// Results of `way` on the questions at `places`.
fn tried<'a>(way: &'a Way, places: &[usize]) -> Vec<&'a Tried> {
    places.iter().map(|&place| &way.tried[place]).collect()
}

/// Inputs of all results.
struct Figures<'a> {
    run: &'a Run,
    outcomes: &'a [Outcome],
    ways: &'a [Way],
    /// Best member alone.
    best: Option<&'a Way>,
    /// Index of the slowest member.
    slowest: Option<usize>,
}

impl Figures<'_> {
    /// Compares two ways, unless they are the same.
    fn difference(&self, way: &Way, other: &Way, places: &[usize]) -> Option<Difference> {
        if way.name == other.name {
            return None;
        }
        Difference::new(&tried(way, places), &tried(other, places), self.run.seed)
    }

    fn means(&self, way: &Way, places: &[usize]) -> Means {
        let best = self.best.map(|best| tried(best, places));
        Means::new(&tried(way, places), best.as_deref())
    }

    fn rounds(&self, outcomes: &[&Outcome]) -> Vec<Rounds> {
        let rules = 0..self.run.rules.len();
        rules
            .map(|rule| Rounds::new(self.run, rule, outcomes, self.slowest))
            .collect()
    }

    /// Returns `None` without questions.
    fn row(&self, way: &Way, places: &[usize], of_groups: &[(String, Vec<usize>)]) -> Option<Row> {
        let own = tried(way, places);
        let percents: Vec<f64> = own.iter().map(|one| percent(one.right)).collect();
        let outcomes: Vec<&Outcome> = places.iter().map(|&place| &self.outcomes[place]).collect();
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for (_, group) in of_groups {
            if let Some(best) = best(self.ways, group) {
                ours.extend(tried(way, group));
                theirs.extend(tried(best, group));
            }
        }
        Some(Row {
            name: way.name.clone(),
            kind: way.kind,
            right: own.iter().filter(|one| one.right).count(),
            percent: mean(&percents)?,
            interval: interval(&percents, self.run.seed)?,
            difference: self
                .best
                .and_then(|best| self.difference(way, best, places)),
            over_groups: Difference::new(&ours, &theirs, self.run.seed),
            groups: groups(&outcomes, &percents),
            means: self.means(way, places),
        })
    }

    /// Returns `None` without questions or members.
    fn group(&self, places: &[usize]) -> Option<Group> {
        let own_best = best(self.ways, places)?;
        let outcomes: Vec<&Outcome> = places.iter().map(|&place| &self.outcomes[place]).collect();
        let rate = |way: &Way| {
            let own = tried(way, places);
            let percents: Vec<f64> = own.iter().map(|one| percent(one.right)).collect();
            mean(&percents).unwrap_or(0.0)
        };
        let sides = |way: &Way| Sides {
            name: way.name.clone(),
            kind: way.kind,
            percent: rate(way),
            over_group_best: self.difference(way, own_best, places),
            over_best: self
                .best
                .and_then(|best| self.difference(way, best, places)),
        };
        let ways = self.ways.iter().filter(|way| way.kind != Kind::Oracle);
        Some(Group {
            questions: places.len(),
            best: own_best.name.clone(),
            percent: rate(own_best),
            ceiling: Ceiling::new(outcomes.iter().copied()),
            ways: ways.map(sides).collect(),
            rules: self.rounds(&outcomes),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::outcome::{Alone, Answer, Together};

    fn answer(right: bool, text: &str) -> Answer {
        Answer {
            text: text.to_owned(),
            key: text.to_owned(),
            right,
            tokens: 5,
            seconds: 0.5,
            cut: !right,
            ..Answer::default()
        }
    }

    /// Forty questions of two files: A knows the first half, B three quarters, the ensemble all but
    /// the last four.
    pub(crate) fn forty() -> (Run, Vec<Outcome>) {
        let alone = |right| Alone {
            greedy: answer(right, if right { "yes" } else { "no\nUser: well?" }),
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
                answer: Answer {
                    tokens: 20,
                    ..answer(index < 36, "yes")
                },
                rounds: 2,
                calls: 3,
                won: vec![1, usize::from(index < 20)],
                ..Together::default()
            }],
            ..Outcome::default()
        };
        let run = Run {
            members: vec!["A".to_owned(), "B".to_owned()],
            rules: vec!["paper".to_owned()],
            samples: None,
            draws: Vec::new(),
            seed: 7,
        };
        (run, (0..40).map(outcome).collect())
    }

    fn row<'a>(report: &'a Report, name: &str) -> &'a Row {
        report.ways.iter().find(|row| row.name == name).unwrap()
    }

    #[test]
    fn every_figure_is_what_it_says() {
        let (run, outcomes) = forty();
        let report = Report::new(&run, &outcomes);
        assert_eq!((report.asked, report.groups["even"]), (40, 20));
        assert_eq!(report.best.as_deref(), Some("B alone, greedy"));
        let row = |name: &str| row(&report, name);
        let (a, b) = (row("A alone, greedy"), row("B alone, greedy"));
        assert_eq!((a.right, a.percent, b.percent), (20, 50.0, 75.0));
        assert!(a.interval.low < 45.0 && a.interval.high > 55.0);
        let Means {
            markers,
            cut,
            tokens,
            seconds,
            ..
        } = a.means;
        assert_eq!((markers, cut, tokens, seconds), (50.0, 50.0, 5.0, 0.5));
        let characters = (30.0 * 3.0 + 10.0 * 14.0) / 40.0;
        assert_eq!(b.means.characters, characters);
        assert_eq!(b.means.length, Some(1.0));
        assert_eq!(a.groups["odd"], 50.0);
        assert!(b.difference.is_none());
        let ensemble = row("ensemble, paper");
        let over = ensemble.difference.unwrap();
        // Better on ten, worse on four.
        assert_eq!((ensemble.percent, over.points), (90.0, 15.0));
        assert_eq!((over.gained, over.wrong), (10, 10));
        assert_eq!((over.lost, over.right), (4, 30));
        assert!(
            over.interval.low < 0.0 && over.interval.high < 35.0,
            "{over:?}"
        );
        assert_eq!(ensemble.means.length, Some(3.0 / characters));
        assert_eq!(row("oracle of greedy answers").percent, 100.0);
        assert_eq!(report.ceiling.unwrap().gain, 25.0);
    }

    #[test]
    fn groups_have_best_members_of_their_own() {
        let (run, mut outcomes) = forty();
        // A answers all even questions right, B none.
        for outcome in outcomes.iter_mut().step_by(2) {
            outcome.alone[0].greedy.right = true;
            outcome.alone[1].greedy.right = false;
        }
        let report = Report::new(&run, &outcomes);
        let (even, odd) = (&report.by_group["even"], &report.by_group["odd"]);
        assert_eq!(
            (even.best.as_str(), even.percent),
            ("A alone, greedy", 100.0)
        );
        assert_eq!((odd.best.as_str(), odd.percent), ("B alone, greedy", 75.0));
        // A is right on 30 of all, and the best of both groups on 35.
        assert_eq!(report.best.as_deref(), Some("A alone, greedy"));
        let router = row(&report, "each group's best member");
        assert_eq!((router.right, router.kind), (35, Kind::Baseline));
        assert_eq!(router.over_groups.unwrap().points, 0.0);
        let ensemble = row(&report, "ensemble, paper");
        assert_eq!(ensemble.over_groups.unwrap().points, 2.5);
        let sides = even.ways.iter().find(|way| way.name == "ensemble, paper");
        let sides = sides.unwrap();
        assert_eq!(sides.percent, 90.0);
        let over = sides.over_group_best.unwrap();
        assert_eq!((over.lost, over.gained, over.points), (2, 0, -10.0));
        assert_eq!(sides.over_best, Some(over), "the same member");
        assert_eq!(even.ceiling.unwrap().wrong, 0);
        assert_eq!(even.rules[0].rounds, 40);
        assert!(even.ways.iter().all(|way| way.kind != Kind::Oracle));
    }

    #[test]
    fn open_questions_are_in_no_percentage() {
        let (run, mut outcomes) = forty();
        for outcome in &mut outcomes[20..] {
            outcome.open = true;
            outcome.group = "open".to_owned();
        }
        let report = Report::new(&run, &outcomes);
        assert_eq!((report.asked, report.open), (40, 20));
        let a = row(&report, "A alone, greedy");
        assert_eq!((a.right, a.percent, a.means.markers), (20, 100.0, 0.0));
        assert!(!a.groups.contains_key("open") && !report.by_group.contains_key("open"));
        assert_eq!(report.ceiling.unwrap().questions, 20);
        let names: Vec<&str> = report
            .open_ways
            .iter()
            .map(|row| row.name.as_str())
            .collect();
        assert_eq!(
            names,
            ["A alone, greedy", "B alone, greedy", "ensemble, paper"]
        );
        let a = &report.open_ways[0];
        assert_eq!((a.means.characters, a.means.markers), (14.0, 100.0));

        for outcome in &mut outcomes {
            outcome.open = true;
        }
        let report = Report::new(&run, &outcomes);
        assert!(report.ways.is_empty() && report.best.is_none() && report.ceiling.is_none());
        assert_eq!(report.open_ways[0].means.length, None);
    }

    #[test]
    fn of_nothing_there_are_no_figures() {
        let (run, _) = forty();
        let report = Report::new(&run, &[]);
        assert!(report.ways.is_empty() && report.by_group.is_empty());
        assert!(report.rules[0].saved.abs() < f64::EPSILON);
    }
}
