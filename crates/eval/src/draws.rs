//! Answers sampled with several seeds: means over seeds, intervals over questions.
//!
//! Answers to one question with different seeds are correlated. Each question therefore counts as
//! one value, its mean over seeds, and the bootstrap resamples questions (an interval clustered by
//! question).

use std::collections::BTreeMap;

use serde::Serialize;

use crate::against::percent;
use crate::interval::{Interval, interval, mean};
use crate::means::Means;
use crate::outcome::{Answer, Outcome};
use crate::ways::{Kind, Run, Tried};

/// Results of a way of answering at a temperature.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Drawn {
    /// Name of the way.
    pub name: String,
    /// Kind of the way.
    pub kind: Kind,
    /// Percent right over questions and seeds; `None` if all questions are open.
    pub percent: Option<f64>,
    /// 95 % interval of the percentage, clustered by question.
    pub interval: Option<Interval>,
    /// Gain over the best sampled member; `None` for that member.
    pub difference: Option<DrawnDifference>,
    /// Percent right of each group.
    pub groups: BTreeMap<String, f64>,
    /// Means over all answers, including those to open questions.
    #[serde(flatten)]
    pub means: Means,
}

/// Gain over another way, from means over the seeds of both.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DrawnDifference {
    /// Gain in percentage points.
    pub points: f64,
    /// 95 % interval of the gain, paired and clustered by question.
    pub interval: Interval,
}

/// Answers of a way, `[questions][seeds]`.
struct Answers {
    name: String,
    kind: Kind,
    tried: Vec<Vec<Tried>>,
}

/// Results of every member and rule over all seeds of `run`; empty if an outcome lacks a seed.
pub fn drawn(run: &Run, outcomes: &[Outcome]) -> Vec<Drawn> {
    let complete = |outcome: &Outcome| outcome.draws.len() == run.draws.len();
    if run.draws.is_empty() || outcomes.is_empty() || !outcomes.iter().all(complete) {
        return Vec::new();
    }
    let members = run.members.iter().enumerate().map(|(index, member)| {
        let name = format!("{member} alone");
        answers(name, Kind::Alone, outcomes, |draw| draw.alone.get(index))
    });
    let rules = run.rules.iter().enumerate().map(|(index, rule)| {
        let name = format!("ensemble, {rule}");
        answers(name, Kind::Ensemble, outcomes, |draw| {
            Some(&draw.rules.get(index)?.answer)
        })
    });
    let all: Vec<Answers> = members.chain(rules).flatten().collect();
    let closed: Vec<&Outcome> = outcomes.iter().filter(|outcome| !outcome.open).collect();
    let rights = |answers: &Answers| -> Vec<f64> {
        let such = outcomes.iter().zip(&answers.tried);
        let such = such.filter(|(outcome, _)| !outcome.open);
        such.filter_map(|(_, tried)| {
            let rights: Vec<f64> = tried.iter().map(|one| percent(one.right)).collect();
            mean(&rights)
        })
        .collect()
    };
    let mut best: Option<(&Answers, Vec<f64>)> = None;
    for answers in all.iter().filter(|answers| answers.kind == Kind::Alone) {
        let own = rights(answers);
        if best
            .as_ref()
            .is_none_or(|(_, best)| mean(&own) > mean(best))
        {
            best = Some((answers, own));
        }
    }
    let row = |answers: &Answers| {
        let own = rights(answers);
        let over = |(_, best): &(&Answers, Vec<f64>)| {
            let pairs = own.iter().zip(best);
            let differences: Vec<f64> = pairs.map(|(own, best)| own - best).collect();
            Some(DrawnDifference {
                points: mean(&differences)?,
                interval: interval(&differences, run.seed)?,
            })
        };
        let other = best.as_ref().filter(|(best, _)| best.name != answers.name);
        let tried: Vec<&Tried> = answers.tried.iter().flatten().collect();
        let best: Option<Vec<&Tried>> = best
            .as_ref()
            .map(|(best, _)| best.tried.iter().flatten().collect());
        Drawn {
            name: answers.name.clone(),
            kind: answers.kind,
            percent: mean(&own),
            interval: interval(&own, run.seed),
            difference: other.and_then(over),
            groups: groups(&closed, &own),
            means: Means::new(&tried, best.as_deref()),
        }
    };
    all.iter().map(row).collect()
}

/// Collects a way's answers; `None` if one is missing.
fn answers<'a>(
    name: String,
    kind: Kind,
    outcomes: &'a [Outcome],
    answer: impl Fn(&'a crate::outcome::Draw) -> Option<&'a Answer>,
) -> Option<Answers> {
    let of_question = |outcome: &'a Outcome| {
        let draws = outcome.draws.iter();
        let tried = draws.map(|draw| Some(Tried::new(outcome, answer(draw)?)));
        tried.collect::<Option<Vec<_>>>()
    };
    let tried: Option<_> = outcomes.iter().map(of_question).collect();
    Some(Answers {
        name,
        kind,
        tried: tried?,
    })
}

/// Mean of each group's `values`, one value per question.
pub fn groups(outcomes: &[&Outcome], values: &[f64]) -> BTreeMap<String, f64> {
    let mut groups: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (outcome, &value) in outcomes.iter().zip(values) {
        groups.entry(outcome.group.clone()).or_default().push(value);
    }
    let means = groups.into_iter();
    means
        .filter_map(|(group, values)| Some((group, mean(&values)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Draw, Together};
    use crate::report::tests::forty;

    fn answer(right: bool) -> Answer {
        Answer {
            right,
            text: "four".to_owned(),
            ..Answer::default()
        }
    }

    /// Forty questions and two seeds: A is right on the first half with both seeds, B everywhere
    /// with the first seed only, the ensemble wherever A or B is.
    fn sampled() -> (Run, Vec<Outcome>) {
        let (run, mut outcomes) = forty();
        for (index, outcome) in outcomes.iter_mut().enumerate() {
            let draw = |seed: u64| Draw {
                seed,
                alone: vec![answer(index < 20), answer(seed == 1)],
                rules: vec![Together {
                    answer: answer(index < 20 || seed == 1),
                    ..Together::default()
                }],
            };
            outcome.draws = vec![draw(1), draw(2)];
        }
        let run = Run {
            draws: vec![1, 2],
            ..run
        };
        (run, outcomes)
    }

    #[test]
    fn a_question_is_one_value_whatever_the_seeds() {
        let (run, outcomes) = sampled();
        let rows = drawn(&run, &outcomes);
        let percents: Vec<f64> = rows.iter().filter_map(|row| row.percent).collect();
        assert_eq!(percents, [50.0, 50.0, 75.0]);
        // A's answers differ by question, B's only by seed: each of its questions has the mean 50
        // %.
        let [a, b, ensemble] = rows.as_slice() else {
            panic!("{rows:?}");
        };
        let width = |row: &Drawn| row.interval.map(|found| found.high - found.low).unwrap();
        assert!(width(a) > 25.0 && width(b) == 0.0, "{a:?} {b:?}");
        assert_eq!(a.difference, None, "the first of equals is the best member");
        assert_eq!(ensemble.difference.unwrap().points, 25.0);
        assert_eq!(ensemble.groups["even"], 75.0);
        assert_eq!(
            (ensemble.means.characters, ensemble.means.length),
            (4.0, Some(1.0))
        );
    }

    #[test]
    fn without_every_seed_nothing_is_reported() {
        let (run, mut outcomes) = sampled();
        outcomes[3].draws.pop();
        assert!(drawn(&run, &outcomes).is_empty());
        let (run, outcomes) = forty();
        assert!(drawn(&run, &outcomes).is_empty());
    }
}
