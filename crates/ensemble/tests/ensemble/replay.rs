//! Replays: parsing, errors, and agreement with the live query.

use conclave_ensemble::{
    Exit, Rate, Rule, Scoring, Settings, Update,
    replay::{Replay, ReplayError, Run, replay},
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn run(value: Value) -> Run {
    serde_json::from_value(value).unwrap()
}

fn play(value: Value) -> Result<Replay, ReplayError> {
    replay(&run(value), &Settings::preset(Rule::Paper))
}

#[test]
fn one_round_by_hand() {
    // Verifier rows 1:3, 1:1, 3:1 over three candidates, written out.
    let value = json!({"members": ["a", "b"], "rounds": [{"scores": [[1, 3], [3, 1]]}]});
    let replayed = play(value).unwrap();
    assert_eq!(
        serde_json::to_value(&replayed).unwrap(),
        json!({"rounds": [{
            "normalised": [[0.25, 0.75], [0.75, 0.25]], "totals": [0.5, 0.5], "winner": 0,
            "counts": [1, 1], "weights": [0.5, 0.5], "active": [0, 1], "drafters": [0, 1],
            "exited": [],
        }]})
    );
}

#[test]
fn before_or_after_decides_by_which_weights_the_winner_is_chosen() {
    // The others like candidate 2 least, so verifier 2 loses weight; candidate 1 depends on its
    // vote.
    let scores = json!([[3.0, 2.9, 1.0], [3.0, 2.8, 1.0], [2.7, 3.0, 2.8]]);
    let value =
        json!({"members": [1, 2, 3], "rounds": [{"scores": scores.clone()}, {"scores": scores}]});
    let with = |update| {
        let settings = Settings {
            update,
            alpha: 8.0,
            ..Settings::preset(Rule::Paper)
        };
        replay(&run(value.clone()), &settings).unwrap()
    };
    let (before, after) = (with(Update::Before), with(Update::After));
    for (a, b) in before.rounds.iter().zip(&after.rounds) {
        assert_eq!(a.weights, b.weights);
        assert_ne!(a.totals, b.totals);
        // The totals are those of the weights named.
    }
    let total = |shares: &[Vec<f64>], weights: &[f64]| -> Vec<f64> {
        (0..3)
            .map(|j| (0..3).map(|i| weights[i] * shares[i][j]).sum())
            .collect()
    };
    let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(x, y)| (x - y).abs() < 1e-12);
    let (first, second) = (&after.rounds[0], &after.rounds[1]);
    assert!(close(
        &first.totals,
        &total(&first.normalised, &[1.0 / 3.0; 3])
    ));
    assert!(close(
        &second.totals,
        &total(&second.normalised, &first.weights)
    ));
    let first = &before.rounds[0];
    assert!(close(
        &first.totals,
        &total(&first.normalised, &first.weights)
    ));
}

#[test]
fn the_pages_download_is_a_recorded_run() {
    let score =
        |logit: f64, logprob: f64| json!({"meanLogit": logit, "meanLogprob": logprob, "tokens": 7});
    let value = json!({
        "version": 1,
        "question": "2 + 2?",
        "members": [{"name": "a", "bytes": 12}, {"name": "b"}],
        "rounds": [{
            "candidates": [{"text": " It is", "ended": false}, {"text": " 4", "ended": true}],
            "scores": [[score(2.0, -2.0), score(6.0, -1.0)], [score(1.0, -1.0), score(1.0, -3.0)]],
            "winner": 1,
        }],
    });
    let logit = play(value.clone()).unwrap();
    assert_eq!(logit.rounds[0].normalised, [[0.25, 0.75], [0.5, 0.5]]);
    let settings = Settings {
        scoring: Scoring::Likelihood,
        ..Settings::preset(Rule::Paper)
    };
    let likelihood = replay(&run(value), &settings).unwrap();
    let e = std::f64::consts::E;
    let share = likelihood.rounds[0].normalised[0][1];
    assert!((share - e / (1.0 + e)).abs() < 1e-12);
}

#[test]
fn scores_that_were_not_recorded_are_missed_only_where_needed() {
    let value = json!({"members": ["a", "b"], "rounds": [
        {"scores": [
            [{"meanLogit": 1.0}, {"meanLogit": 1.0}],
            [{"meanLogit": 1.0}, {"meanLogit": 2.0}],
        ]},
    ]});
    assert!(play(value.clone()).is_ok());
    let settings = Settings {
        scoring: Scoring::Likelihood,
        ..Settings::preset(Rule::Paper)
    };
    assert_eq!(
        replay(&run(value), &settings),
        Err(ReplayError::Missing {
            round: 1,
            verifier: 0,
            candidate: 0,
            scoring: Scoring::Likelihood
        })
    );
    // JSON's form of NaN.
    let value = json!({"members": ["a", "b"], "rounds": [{"scores": [[1.0, 1.0], [null, 1.0]]}]});
    assert!(matches!(
        play(value),
        Err(ReplayError::Missing {
            verifier: 1,
            candidate: 0,
            ..
        })
    ));
}

#[test]
fn hostile_runs_are_refused_by_name() {
    let members = |n: usize| vec!["m"; n];
    let square = |n: usize| json!(vec![vec![1.0; n]; n]);
    let cases = [
        (json!({"members": [], "rounds": []}), "1 to 8"),
        (json!({"members": members(9), "rounds": []}), "1 to 8"),
        (
            json!({"members": members(2), "rounds": [{"scores": []}]}),
            "round 1",
        ),
        (json!({"members": members(2), "rounds": [{}]}), "round 1"),
        (
            json!({
                "members": members(2), "rounds": [{"scores": square(2)}, {"scores": square(3)}],
            }),
            "round 2",
        ),
        (
            json!({"members": members(2), "rounds": [{"scores": [[1.0, 2.0], [1.0]]}]}),
            "round 1: verifier 1",
        ),
        (
            json!({"members": members(2), "rounds": [{"scores": [[1.0, 2.0], [1.0, 2.0, 3.0]]}]}),
            "round 1: verifier 1",
        ),
        (
            json!({"members": members(3), "rounds": [{"scores": square(2), "active": [1, 1]}]}),
            "ascending",
        ),
        (
            json!({"members": members(3), "rounds": [{"scores": square(2), "active": [0, 3]}]}),
            "ascending",
        ),
        (
            json!({"members": members(3), "rounds": [{"scores": square(2), "active": [2, 1]}]}),
            "ascending",
        ),
        (
            json!({"members": members(3), "rounds": [{"scores": square(2), "active": [1]}]}),
            "round 1: 2 rows",
        ),
        (
            json!({"members": members(3), "rounds": [{"scores": [], "active": []}]}),
            "no member",
        ),
    ];
    for (value, expected) in cases {
        let error = play(value.clone()).unwrap_err().to_string();
        assert!(error.contains(expected), "{value}: {error}");
    }
    assert_eq!(
        play(json!({"members": ["a"], "rounds": []})),
        Ok(Replay { rounds: vec![] })
    );
    for unreadable in [
        json!({"rounds": []}),
        json!({"members": ["a"]}),
        json!({"members": 3, "rounds": []}),
        json!({"members": ["a"], "rounds": [{"scores": [["one"]]}]}),
        json!({"members": ["a"], "rounds": [{"scores": [[[]]]}]}),
        json!([]),
    ] {
        assert!(serde_json::from_value::<Run>(unreadable).is_err());
    }
}

#[test]
fn members_that_leave_the_replay_are_passed_over_in_later_rounds() {
    let scores = json!([[9.0, 8.5, 2.0], [8.0, 9.0, 2.0], [8.0, 8.5, 2.0]]);
    let rounds: Vec<Value> = (0..6).map(|_| json!({"scores": scores})).collect();
    let value = json!({"members": ["a", "b", "c"], "rounds": rounds});
    let settings = Settings {
        exit: Some(Exit::default()),
        ..Settings::preset(Rule::Paper)
    };
    let replayed = replay(&run(value), &settings).unwrap();
    assert_eq!(replayed.rounds[2].exited, [2]);
    for round in &replayed.rounds[..3] {
        assert_eq!(
            (round.active.as_slice(), round.totals.len()),
            (&[0, 1, 2][..], 3)
        );
    }
    for round in &replayed.rounds[3..] {
        assert_eq!(
            (round.active.as_slice(), round.totals.len()),
            (&[0, 1][..], 2)
        );
        assert!((round.normalised[0][0] - 9.0 / 17.5).abs() < 1e-12);
        assert!((round.weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }
}

#[test]
fn the_writer_of_the_winner_stays_and_a_weak_first_member_leaves() {
    // Member 0 is the weak one, and wins round 2 by extreme self-praise.
    let weak = json!([[2.0, 9.0, 8.5], [2.0, 9.0, 8.0], [2.0, 9.0, 8.5]]);
    let vain = json!([[1000.0, 1.0, 1.0], [2.0, 2.1, 2.0], [2.0, 2.1, 2.0]]);
    let settings = Settings {
        exit: Some(Exit {
            warmup: 2,
            temperature: 2.0,
            ..Exit::default()
        }),
        ..Settings::preset(Rule::Paper)
    };
    let exits = |rounds: [&Value; 3]| {
        let rounds: Vec<Value> = rounds.iter().map(|s| json!({ "scores": s })).collect();
        let value = json!({"members": ["a", "b", "c"], "rounds": rounds});
        let replayed = replay(&run(value), &settings).unwrap();
        let exits: Vec<_> = replayed.rounds.iter().map(|r| r.exited.clone()).collect();
        (replayed.rounds[1].winner, exits)
    };
    assert_eq!(
        exits([&weak, &weak, &weak]),
        (1, vec![vec![], vec![0], vec![]])
    );
    let (winner, gone) = exits([&weak, &vain, &weak]);
    assert_eq!((winner, &gone[1]), (0, &vec![]));
}

#[test]
fn members_that_had_left_the_recorded_run_leave_the_replay() {
    let value = json!({"members": ["a", "b", "c"], "rounds": [
        {"scores": [[3, 2, 1], [2, 3, 1], [3, 2, 2]]},
        {"scores": [[3, 1], [3, 1]], "active": [0, 2]},
        {"scores": [[1, 3], [1, 3]]},
        {"verified": false},
    ]});
    let replayed = play(value).unwrap();
    assert_eq!(replayed.rounds.len(), 3);
    assert_eq!(replayed.rounds[1].active, [0, 2]);
    assert_eq!(replayed.rounds[2].active, [0, 2]);
    assert_eq!(replayed.rounds[2].winner, 1);
}

/// JSON with the parts of a run in the wrong places.
fn hostile() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop::num::f64::ANY.prop_map(Value::from),
        (0..5_u64).prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 9, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..9).prop_map(Value::from),
            (inner.clone(), inner.clone())
                .prop_map(|(a, b)| json!({"meanLogit": a, "meanLogprob": b})),
            (inner.clone(), inner).prop_map(|(a, b)| json!({"scores": a, "active": b})),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn nothing_in_a_run_makes_it_panic(
        members in 0_usize..10,
        rounds in prop::collection::vec(hostile(), 0..4),
        rate in prop::sample::select(Rate::ALL),
        scoring in prop::sample::select(Scoring::ALL),
        exit in any::<bool>(),
    ) {
        let value = json!({"members": vec!["m"; members], "rounds": rounds});
        if let Ok(run) = serde_json::from_value::<Run>(value) {
            let settings = Settings {
                rate,
                scoring,
                exit: exit.then(Exit::default),
                ..Settings::preset(Rule::Paper)
            };
            let _ = replay(&run, &settings);
        }
    }

    #[test]
    fn matrices_of_any_size_and_any_listing_are_played_or_refused(
        members in 1_usize..=8,
        rounds in prop::collection::vec(
            (
                (1_usize..=9).prop_flat_map(|n| prop::collection::vec(
                    prop::collection::vec(prop::num::f64::NORMAL | prop::num::f64::ZERO, n), n)),
                prop::option::of(prop::collection::btree_set(0_usize..9, 1..9)),
            ),
            0..6,
        ),
        exit in any::<bool>(),
    ) {
        let rounds: Vec<Value> = rounds
            .iter()
            .map(|(scores, active)| json!({"scores": scores, "active": active}))
            .collect();
        let value = json!({"members": vec!["m"; members], "rounds": rounds});
        let settings = Settings {
            exit: exit.then(Exit::default),
            ..Settings::preset(Rule::Paper)
        };
        if let Ok(replayed) = replay(&run(value), &settings) {
            for round in replayed.rounds {
                prop_assert!((round.weights.iter().sum::<f64>() - 1.0).abs() < 1e-9);
                prop_assert_eq!(round.totals.len(), round.active.len());
                prop_assert!(round.winner < round.active.len());
            }
        }
    }
}

#[test]
fn a_round_that_a_leader_drafted_alone_is_no_part_of_the_replay() {
    let voted = json!({"active": [0, 1], "drafters": [0, 1], "scores": [[1, 3], [1, 3]]});
    let led = json!({"active": [0, 1], "drafters": [1], "scores": [[3], [3]]});
    let value = json!({"members": ["a", "b"], "rounds": [led, voted]});
    let replayed = play(value).unwrap();
    assert_eq!(replayed.rounds.len(), 1);
    assert_eq!(replayed.rounds[0].winner, 1);
}

#[test]
fn members_that_abstain_or_only_judge_are_replayed_as_they_were() {
    let voted = json!({"active": [0, 1, 2], "drafters": [0, 2], "scores": [[1, 3], [], [3, 1]]});
    let judged =
        json!({"drafters": [0, 2], "scores": [[2, 2], [{"preference": 9}, {"preference": 1}], []]});
    let all = json!({"scores": [[1, 1, 1], [1, 1, 1], [1, 1, 1]]});
    let value = json!({"members": ["a", "b", "c"], "rounds": [voted, judged, all]});
    let replayed = play(value).unwrap();
    let columns: Vec<_> = replayed.rounds.iter().map(|r| r.drafters.len()).collect();
    assert_eq!(columns, [2, 2, 3]);
    assert_eq!(replayed.rounds[0].normalised[1], [0.0; 0]);
    assert_eq!(replayed.rounds[0].totals, [0.5, 0.5]);
    let judge = &replayed.rounds[1].normalised[1];
    assert!((judge[0] - 0.9).abs() < 1e-12, "{judge:?}");
    assert_eq!(replayed.rounds[1].winner, 0);

    // A round whose drafters have all left is skipped; a drafter that was not active is an error.
    let gone = json!({"active": [0, 1], "scores": [[1, 1], [1, 1]]});
    let theirs = json!({"active": [0, 1, 2], "drafters": [2], "scores": [[1], [1], [1]]});
    let value = json!({"members": ["a", "b", "c"], "rounds": [gone, theirs]});
    assert_eq!(play(value).unwrap().rounds.len(), 1);
    let absent = json!({"active": [0, 1], "drafters": [0, 2], "scores": [[1, 1], [1, 1]]});
    let value = json!({"members": ["a", "b", "c"], "rounds": [absent]});
    assert_eq!(
        play(value),
        Err(ReplayError::Active {
            round: 1,
            members: 3
        })
    );
}

#[test]
fn logits_are_not_taken_for_harmonic_scores() {
    let value = json!({"members": ["a", "b"], "rounds": [{"scores": [[-1, 3], [-1, -2]]}]});
    let told = replay(&run(value), &Settings::default())
        .unwrap_err()
        .to_string();
    assert!(
        told.contains("verifier 0 has no harmonic score of candidate 1"),
        "{told}"
    );
}
