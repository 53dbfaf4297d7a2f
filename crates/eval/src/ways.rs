//! Compared ways of answering: each member alone, the ensemble under each rule, choices among whole
//! answers, and the oracle.

use serde::Serialize;

use crate::choose::{least, majority, minimum_risk};
use crate::marker::has_marker;
use crate::outcome::{Alone, Answer, Outcome, Samples, Surprise};
use crate::router;
use crate::wording::{distinct_grams, repeats};

/// Description of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Names of the members.
    pub members: Vec<String>,
    /// Names of the rules.
    pub rules: Vec<String>,
    /// Number of samples that vote, if any.
    pub samples: Option<Samples>,
    /// Seeds of further sampled answers.
    pub draws: Vec<u64>,
    /// Seed of the intervals.
    pub seed: u64,
}

/// Kind of a way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A member alone.
    Alone,
    /// The ensemble.
    Ensemble,
    /// A choice among whole answers.
    Baseline,
    /// A choice that knows which answer is right.
    Oracle,
}

/// A way of answering, with its result on each question.
#[derive(Debug, Clone)]
pub struct Way {
    /// Name of the way.
    pub name: String,
    /// Kind of the way.
    pub kind: Kind,
    /// One result per question, in the order of the outcomes.
    pub tried: Vec<Tried>,
}

/// Result of a way on one question.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tried {
    /// Whether the answer is right.
    pub right: bool,
    /// Tokens run for it and for the answers it was chosen from.
    pub tokens: usize,
    /// Seconds taken by it and the answers it was chosen from.
    pub seconds: f64,
    /// Length of the answer.
    pub characters: usize,
    /// Whether it contains a role marker.
    pub marker: bool,
    /// Whether it repeats a turn of the conversation.
    pub repeats: bool,
    /// Share of distinct 4-grams, if it is long enough to have any.
    pub distinct: Option<f64>,
    /// Its probability under the reference member, if measured.
    pub surprise: Option<Surprise>,
    /// Whether it was cut off at the limit.
    pub cut: bool,
    /// Whether there was no answer.
    pub failed: bool,
}

impl Tried {
    /// Result of one answer to the question of `outcome`.
    pub fn new(outcome: &Outcome, answer: &Answer) -> Self {
        Self::chosen(outcome, &[answer], Some(0))
    }

    /// Result of answer `index` of `pool`, at the cost of the whole pool.
    fn chosen(outcome: &Outcome, pool: &[&Answer], index: Option<usize>) -> Self {
        let tried = Self {
            tokens: pool.iter().map(|answer| answer.tokens).sum(),
            seconds: pool.iter().map(|answer| answer.seconds).sum(),
            ..Self::default()
        };
        // If every answer is empty, the first is as good as any.
        match pool.get(index.unwrap_or_default()) {
            Some(answer) => Self {
                right: answer.right && !outcome.open,
                characters: answer.text.chars().count(),
                marker: has_marker(&answer.text),
                repeats: repeats(&answer.text, &outcome.conversation()),
                distinct: distinct_grams(&answer.text),
                surprise: answer.surprise,
                cut: answer.cut,
                failed: answer.error.is_some(),
                ..tried
            },
            None => Self {
                failed: true,
                ..tried
            },
        }
    }
}

/// A vote among whole answers.
type Choice = fn(&Outcome, &[&Answer]) -> Tried;

/// Ways found so far.
struct Ways<'a> {
    outcomes: &'a [Outcome],
    all: Vec<Way>,
}

impl Ways<'_> {
    /// Adds a way if every outcome has an answer for it.
    fn add(&mut self, name: String, kind: Kind, tried: &dyn Fn(&Outcome) -> Option<Tried>) {
        let tried: Option<Vec<Tried>> = self.outcomes.iter().map(tried).collect();
        if let Some(tried) = tried {
            self.all.push(Way { name, kind, tried });
        }
    }
}

/// Every way of answering for which `outcomes` have answers.
pub fn ways(run: &Run, outcomes: &[Outcome]) -> Vec<Way> {
    let mut ways = Ways {
        outcomes,
        all: Vec::new(),
    };
    for (index, member) in run.members.iter().enumerate() {
        ways.add(format!("{member} alone, greedy"), Kind::Alone, &|outcome| {
            Some(Tried::new(outcome, &outcome.alone.get(index)?.greedy))
        });
        ways.add(
            format!("{member} alone, sampled"),
            Kind::Alone,
            &|outcome| {
                let sampled = outcome.alone.get(index)?.sampled.as_ref()?;
                Some(Tried::new(outcome, sampled))
            },
        );
    }
    for (index, rule) in run.rules.iter().enumerate() {
        ways.add(format!("ensemble, {rule}"), Kind::Ensemble, &|outcome| {
            Some(Tried::new(outcome, &outcome.rules.get(index)?.answer))
        });
    }
    if run.samples.is_some() {
        for (index, member) in run.members.iter().enumerate() {
            let name = format!("{member}, majority of its samples");
            ways.add(name, Kind::Baseline, &|outcome| {
                let samples: Vec<&Answer> = outcome.alone.get(index)?.samples.iter().collect();
                Some(most(outcome, &samples))
            });
        }
    }
    if run.members.len() > 1 {
        let choices: [(&str, Choice); 2] = [("majority", most), ("chrF's choice", closest)];
        for (name, choice) in choices {
            let name = format!("{name} of greedy answers");
            ways.add(name, Kind::Baseline, &|outcome| {
                Some(choice(outcome, &pool(&outcome.alone, None)))
            });
        }
        for (name, choice) in choices {
            let name = format!("{name} of all answers");
            ways.add(name, Kind::Baseline, &|outcome| {
                let ensemble = &outcome.rules.first()?.answer;
                let samples = Some((run.samples?, ensemble));
                Some(choice(outcome, &pool(&outcome.alone, samples)))
            });
        }
        let surprised = |outcome: &Outcome| outcome.alone.iter().any(|a| a.surprise.is_some());
        let asked = outcomes.iter().any(surprised);
        ways.add(
            "member least surprised by the question".to_owned(),
            Kind::Baseline,
            &|outcome| {
                let surprises: Vec<_> = outcome.alone.iter().map(|alone| alone.surprise).collect();
                let member = outcome.alone.get(least(&surprises).unwrap_or_default())?;
                asked.then(|| Tried::new(outcome, &member.greedy))
            },
        );
    }
    if run.members.len() > 1
        && let Some(tried) = router::tried(outcomes, run.seed)
    {
        ways.all.push(Way {
            name: router::NAME.to_owned(),
            kind: Kind::Baseline,
            tried,
        });
    }
    ways.add(
        "oracle of greedy answers".to_owned(),
        Kind::Oracle,
        &|outcome| {
            let greedy = outcome.alone.iter().map(|alone| &alone.greedy);
            Some(right(outcome, &greedy.collect::<Vec<_>>()))
        },
    );
    ways.add(
        "oracle of sampled answers".to_owned(),
        Kind::Oracle,
        &|outcome| {
            let sampled = outcome.alone.iter().map(|alone| alone.sampled.as_ref());
            Some(right(outcome, &sampled.collect::<Option<Vec<_>>>()?))
        },
    );
    ways.all
}

/// Every member's greedy answer, then the samples of all members, taken in turn. With a fixed
/// number of samples all of them are included; otherwise only as many as the ensemble's cost
/// allows.
fn pool<'a>(alone: &'a [Alone], samples: Option<(Samples, &Answer)>) -> Vec<&'a Answer> {
    let mut pool: Vec<&Answer> = alone.iter().map(|alone| &alone.greedy).collect();
    let Some((samples, ensemble)) = samples else {
        return pool;
    };
    let most = alone.iter().map(|alone| alone.samples.len()).max();
    for turn in 0..most.unwrap_or_default() {
        for sample in alone.iter().filter_map(|alone| alone.samples.get(turn)) {
            let all = matches!(samples, Samples::Count(_));
            if !all && samples.enough(pool.iter().copied(), ensemble) {
                return pool;
            }
            pool.push(sample);
        }
    }
    pool
}

/// Choice of the majority.
fn most(outcome: &Outcome, pool: &[&Answer]) -> Tried {
    let keys: Vec<&str> = pool.iter().map(|answer| answer.key.as_str()).collect();
    Tried::chosen(outcome, pool, majority(&keys))
}

/// Choice of minimum Bayes risk. Failed answers are excluded.
fn closest(outcome: &Outcome, pool: &[&Answer]) -> Tried {
    let there: Vec<usize> = (0..pool.len())
        .filter(|&index| pool[index].error.is_none())
        .collect();
    let texts: Vec<&str> = there
        .iter()
        .map(|&index| pool[index].text.as_str())
        .collect();
    Tried::chosen(
        outcome,
        pool,
        minimum_risk(&texts).map(|index| there[index]),
    )
}

/// Chooses a right answer if there is one.
fn right(outcome: &Outcome, pool: &[&Answer]) -> Tried {
    Tried::chosen(outcome, pool, pool.iter().position(|answer| answer.right))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Together;

    fn answer(text: &str) -> Answer {
        Answer {
            text: text.to_owned(),
            key: text.to_owned(),
            right: text == "yes",
            tokens: 10,
            seconds: 1.0,
            ..Answer::default()
        }
    }

    fn alone(greedy: &str, samples: &[&str], surprise: f64) -> Alone {
        Alone {
            greedy: answer(greedy),
            sampled: None,
            samples: samples.iter().map(|text| answer(text)).collect(),
            surprise: Some(surprise),
        }
    }

    fn outcome() -> Outcome {
        Outcome {
            alone: vec![
                alone("no", &["yes", "no", "yes"], 2.0),
                alone("yes", &["no", "no", "no"], 1.0),
            ],
            rules: vec![Together {
                answer: Answer {
                    tokens: 40,
                    ..answer("yes")
                },
                ..Together::default()
            }],
            ..Outcome::default()
        }
    }

    fn run(samples: Option<Samples>) -> Run {
        Run {
            members: vec!["A".to_owned(), "B".to_owned()],
            rules: vec!["paper".to_owned()],
            samples,
            draws: Vec::new(),
            seed: 0,
        }
    }

    fn tried(ways: &[Way], name: &str) -> Tried {
        let way = ways.iter().find(|way| way.name == name);
        let way = way.unwrap_or_else(|| panic!("no {name}"));
        way.tried[0].clone()
    }

    #[test]
    fn each_way_takes_its_own_answer_and_pays_for_all_it_chose_from() {
        let ways = ways(&run(Some(Samples::Count(3))), &[outcome()]);
        for (name, right, tokens) in [
            ("A alone, greedy", false, 10),
            ("B alone, greedy", true, 10),
            ("ensemble, paper", true, 40),
            ("A, majority of its samples", true, 30),
            ("B, majority of its samples", false, 30),
            ("majority of greedy answers", false, 20),
            ("chrF's choice of greedy answers", false, 20),
            ("majority of all answers", false, 80),
            ("chrF's choice of all answers", false, 80),
            ("member least surprised by the question", true, 10),
            ("oracle of greedy answers", true, 20),
        ] {
            let found = tried(&ways, name);
            assert_eq!((found.right, found.tokens), (right, tokens), "{name}");
        }
        assert_eq!(ways.len(), 12, "nothing was sampled alone");
    }

    #[test]
    fn at_equal_cost_the_pool_ends_where_the_ensemble_did() {
        let ways = ways(&run(Some(Samples::EqualTokens)), &[outcome()]);
        // Greedy no and yes, samples yes of A and no of B: a tie, won by the first.
        let found = tried(&ways, "majority of all answers");
        assert_eq!((found.right, found.tokens), (false, 40));
    }

    #[test]
    fn failures_and_silence_take_no_part_in_a_vote() {
        let mut outcome = outcome();
        outcome.alone[0].greedy = Answer {
            error: Some("full".to_owned()),
            ..Answer::default()
        };
        let ways = ways(&run(None), &[outcome]);
        for name in [
            "majority of greedy answers",
            "chrF's choice of greedy answers",
        ] {
            let found = tried(&ways, name);
            assert!(found.right && !found.failed, "{name}");
        }
        assert!(tried(&ways, "A alone, greedy").failed);
    }
}
