//! The ways of answering that are compared: each member alone, the ensemble under each rule, the
//! choices among whole answers, and the oracle.

use serde::Serialize;

use crate::choose::{least, majority, minimum_risk};
use crate::marker::has_marker;
use crate::outcome::{Alone, Given, Outcome, Samples, Surprise};
use crate::router;
use crate::wording::{distinct_grams, repeats};

/// What was run.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The members' names.
    pub members: Vec<String>,
    /// The rules' names.
    pub rules: Vec<String>,
    /// Samples that vote, where there are any.
    pub samples: Option<Samples>,
    /// Seeds that all were sampled with once more.
    pub draws: Vec<u64>,
    /// Of the intervals.
    pub seed: u64,
}

/// What kind of way it is.
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

/// A way of answering, and how it did on each question.
#[derive(Debug, Clone)]
pub struct Way {
    /// What it is called.
    pub name: String,
    /// What kind it is.
    pub kind: Kind,
    /// A question each, in the order of the outcomes.
    pub tried: Vec<Tried>,
}

/// How a way did on one question.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tried {
    /// The answer was right.
    pub right: bool,
    /// Tokens run for it, and for the answers it was chosen from.
    pub tokens: usize,
    /// Time it took, and those it was chosen from.
    pub seconds: f64,
    /// Its length.
    pub characters: usize,
    /// It shows a role marker.
    pub marker: bool,
    /// It repeats a turn of the conversation.
    pub repeats: bool,
    /// The share of its 4-grams that are different, where it is long enough to have some.
    pub distinct: Option<f64>,
    /// How probable the reference member finds it, where it was asked.
    pub surprise: Option<Surprise>,
    /// It came to the limit.
    pub cut: bool,
    /// There was no answer.
    pub failed: bool,
}

impl Tried {
    /// The answer `given` to the question of `outcome`.
    pub fn new(outcome: &Outcome, given: &Given) -> Self {
        Self::chosen(outcome, &[given], Some(0))
    }

    /// Answer `index` of `pool` to the question of `outcome`, at the cost of all.
    fn chosen(outcome: &Outcome, pool: &[&Given], index: Option<usize>) -> Self {
        let tried = Self {
            tokens: pool.iter().map(|given| given.tokens).sum(),
            seconds: pool.iter().map(|given| given.seconds).sum(),
            ..Self::default()
        };
        // Where no answer says anything, the first says nothing as well as any.
        match pool.get(index.unwrap_or_default()) {
            Some(given) => Self {
                right: given.right && !outcome.open,
                characters: given.text.chars().count(),
                marker: has_marker(&given.text),
                repeats: repeats(&given.text, &outcome.conversation()),
                distinct: distinct_grams(&given.text),
                surprise: given.surprise,
                cut: given.cut,
                failed: given.error.is_some(),
                ..tried
            },
            None => Self {
                failed: true,
                ..tried
            },
        }
    }
}

/// What a vote makes of a pool of whole answers.
type Choice = fn(&Outcome, &[&Given]) -> Tried;

/// The ways so far.
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

/// Every way of answering that `outcomes` have answers for.
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
            Some(Tried::new(outcome, &outcome.rules.get(index)?.given))
        });
    }
    if run.samples.is_some() {
        for (index, member) in run.members.iter().enumerate() {
            let name = format!("{member}, majority of its samples");
            ways.add(name, Kind::Baseline, &|outcome| {
                let samples: Vec<&Given> = outcome.alone.get(index)?.samples.iter().collect();
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
                let ensemble = &outcome.rules.first()?.given;
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

/// Every member's greedy answer, then samples, one of each member in turn: all where their number
/// was given, as many as the ensemble costs where that decides.
fn pool<'a>(alone: &'a [Alone], samples: Option<(Samples, &Given)>) -> Vec<&'a Given> {
    let mut pool: Vec<&Given> = alone.iter().map(|alone| &alone.greedy).collect();
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

/// The majority's choice.
fn most(outcome: &Outcome, pool: &[&Given]) -> Tried {
    let keys: Vec<&str> = pool.iter().map(|given| given.key.as_str()).collect();
    Tried::chosen(outcome, pool, majority(&keys))
}

/// The choice with minimum Bayes risk. What failed takes no part.
fn closest(outcome: &Outcome, pool: &[&Given]) -> Tried {
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

/// One that is right, if there is one.
fn right(outcome: &Outcome, pool: &[&Given]) -> Tried {
    Tried::chosen(outcome, pool, pool.iter().position(|given| given.right))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Together;

    fn given(text: &str) -> Given {
        Given {
            text: text.to_owned(),
            key: text.to_owned(),
            right: text == "yes",
            tokens: 10,
            seconds: 1.0,
            ..Given::default()
        }
    }

    fn alone(greedy: &str, samples: &[&str], surprise: f64) -> Alone {
        Alone {
            greedy: given(greedy),
            sampled: None,
            samples: samples.iter().map(|text| given(text)).collect(),
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
                given: Given {
                    tokens: 40,
                    ..given("yes")
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
        // Greedy no and yes, samples yes of A and no of B: a draw, the first.
        let found = tried(&ways, "majority of all answers");
        assert_eq!((found.right, found.tokens), (false, 40));
    }

    #[test]
    fn failures_and_silence_take_no_part_in_a_vote() {
        let mut outcome = outcome();
        outcome.alone[0].greedy = Given {
            error: Some("full".to_owned()),
            ..Given::default()
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
