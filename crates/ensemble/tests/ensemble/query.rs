//! Bookkeeping of a query: errors, fast mode, stopping, members that leave, and the error rate of
//! exit.

use conclave_ensemble::{
    Candidate, Exit, Leader, Query, RoundError, Rule, Score, Settings, SettingsError, Stop,
};

fn candidate(text: &str, ended: bool) -> Candidate {
    Candidate {
        text: text.into(),
        ended,
    }
}

fn query(members: usize) -> Query {
    Query::new(members, Settings::preset(Rule::Paper)).unwrap()
}

#[test]
fn one_to_eight_members_under_sound_settings() {
    for members in [0, 9, usize::MAX] {
        assert_eq!(
            Query::new(members, Settings::preset(Rule::Paper)),
            Err(SettingsError::Members(members))
        );
    }
    let settings = Settings {
        alpha: f64::NAN,
        ..Settings::preset(Rule::Paper)
    };
    assert!(Query::new(3, settings).is_err());
}

#[test]
fn one_member_always_wins_with_share_one() {
    let mut query = query(1);
    for mean_logit in [3.0, 0.0, -7.0] {
        let score = Score {
            mean_logit: Some(mean_logit),
            ..Score::default()
        };
        let shares = query.normalise(&[vec![score]]).unwrap();
        assert_eq!(shares, [[1.0]]);
        let feedback = query.feedback(&shares).unwrap();
        assert_eq!(
            (feedback.rate, feedback.weights.as_slice()),
            (0.0, &[1.0][..])
        );
        let selection = query.select(&shares).unwrap();
        assert_eq!(
            (selection.totals.as_slice(), selection.winner),
            (&[1.0][..], 0)
        );
        assert!(query.exit(0).unwrap().is_empty());
    }
}

#[test]
fn ragged_and_broken_rounds_are_refused_and_leave_the_weights_alone() {
    let mut query = query(2);
    let score = Score {
        mean_logit: Some(1.0),
        ..Score::default()
    };
    assert_eq!(
        query.normalise(&[vec![score; 2]]),
        Err(RoundError::Rows {
            found: 1,
            members: 2
        })
    );
    assert_eq!(
        query.normalise(&[vec![score; 2], vec![score; 3]]),
        Err(RoundError::Row {
            verifier: 1,
            found: 3,
            candidates: 2
        })
    );
    let wrong = [vec![0.5, 0.5], vec![f64::NAN, 0.5]];
    let refused = RoundError::NotAShare {
        verifier: 1,
        candidate: 0,
    };
    assert_eq!(query.feedback(&wrong), Err(refused.clone()));
    assert_eq!(query.select(&wrong), Err(refused));
    assert_eq!(query.weights(), [0.5, 0.5]);
    assert_eq!(
        query.exit(2),
        Err(RoundError::Winner {
            winner: 2,
            candidates: 2
        })
    );
}

#[test]
fn fast_mode_takes_the_first_candidate_that_ends() {
    let candidates = [
        candidate(" and so", false),
        candidate(" end.", true),
        candidate("", true),
    ];
    assert_eq!(query(3).fast_winner(&candidates), None);
    let settings = Settings {
        fast: true,
        ..Settings::preset(Rule::Paper)
    };
    let query = Query::new(3, settings).unwrap();
    assert_eq!(query.fast_winner(&candidates), Some(1));
    assert_eq!(query.fast_winner(&candidates[..1]), None);
}

#[test]
fn an_answer_stops_for_each_reason() {
    let stop = |settings: Settings, winners: &[(&str, bool)]| {
        let mut query = Query::new(2, settings).unwrap();
        let stops: Vec<_> = winners
            .iter()
            .map(|&(text, ended)| query.stop(&candidate(text, ended)))
            .collect();
        let (last, before) = stops.split_last().unwrap();
        assert!(before.iter().all(Option::is_none));
        *last
    };
    let settings = || Settings::preset(Rule::Paper);
    assert_eq!(
        stop(settings(), &[("It is", false), (" 42", true)]),
        Some(Stop::Ended)
    );
    assert_eq!(stop(settings(), &[("", true)]), Some(Stop::Ended));
    assert_eq!(
        stop(settings(), &[("It is", false), ("", false)]),
        Some(Stop::Silence)
    );
    assert_eq!(stop(settings(), &[("It is", false)]), None);
    let three = Settings {
        max_rounds: 3,
        ..settings()
    };
    assert_eq!(
        stop(three, &[("a", false), ("b", false), ("c", false)]),
        Some(Stop::Rounds)
    );
    // Characters, not bytes.
    let ten = Settings {
        max_characters: 10,
        ..settings()
    };
    assert_eq!(
        stop(ten, &[("ééééé", false), ("éééé", false), ("é", false)]),
        Some(Stop::Length)
    );
    assert_eq!(
        serde_json::to_value(Stop::Silence).unwrap(),
        Stop::Silence.name()
    );
}

#[test]
fn those_who_stay_share_the_weight_of_those_who_leave() {
    let mut query = query(4);
    query.leave(&[1, 3]).unwrap();
    assert_eq!(query.active(), [0, 2]);
    assert_eq!(query.weights(), [0.5, 0.5]);
    query.leave(&[1]).unwrap(); // out already
    assert_eq!(query.leave(&[0, 2]), Err(RoundError::Nobody));
    assert_eq!(query.active(), [0, 2]);
    query.leave(&[0]).unwrap();
    assert_eq!((query.active(), query.weights()), (&[2][..], &[1.0][..]));
}

#[test]
fn the_learning_rate_falls_with_the_rounds_of_the_query() {
    let mut query = query(3);
    let shares = vec![vec![0.2, 0.3, 0.5]; 3];
    for round in 1..=4 {
        assert_eq!(query.round(), round);
        let rate = query.feedback(&shares).unwrap().rate;
        assert!((rate - 1.0 / (round as f64 * 3_f64.sqrt())).abs() < 1e-12);
        query.stop(&candidate(" on", false));
    }
}

/// A generator of uniform numbers, sufficient for a simulation.
struct Noise(u64);

impl Noise {
    /// Between −1 and 1.
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

/// Per cent of 400 queries of 12 rounds that lost member 0, whose candidates score `handicap` of 10
/// lower than the others'.
fn exits(members: usize, exit: Exit, handicap: f64) -> f64 {
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let mut lost = 0;
    for _ in 0..400 {
        let settings = Settings {
            exit: Some(exit),
            ..Settings::preset(Rule::Paper)
        };
        let mut query = Query::new(members, settings).unwrap();
        let mut gone = Vec::new();
        for _ in 0..12 {
            let active = query.active().to_vec();
            // Quality of each candidate this round, and each verifier's view of it.
            let good: Vec<f64> = active
                .iter()
                .map(|&j| 10.0 + 2.0 * noise.next() - if j == 0 { handicap } else { 0.0 })
                .collect();
            let scores: Vec<Vec<Score>> = active
                .iter()
                .map(|_| {
                    good.iter()
                        .map(|quality| Score {
                            mean_logit: Some(quality + noise.next()),
                            ..Score::default()
                        })
                        .collect()
                })
                .collect();
            let shares = query.normalise(&scores).unwrap();
            query.feedback(&shares).unwrap();
            let winner = query.select(&shares).unwrap().winner;
            gone.extend(query.exit(winner).unwrap());
            query.stop(&candidate(" on", false));
        }
        lost += usize::from(gone.contains(&0));
    }
    lost as f64 / 4.0
}

/// The numbers in the docs of [`Exit::temperature`].
#[test]
fn exit_keeps_equals_and_drops_the_weak() {
    let colder = Exit {
        temperature: 4.0,
        ..Exit::default()
    };
    for (members, alike, in_the_cold) in [(3, 10.0, 16.0), (5, 8.0, 19.0), (8, 3.0, 13.0)] {
        let usual = Exit::default();
        assert_eq!(exits(members, usual, 0.0).round(), alike, "of {members}");
        assert_eq!(exits(members, usual, 3.0), 100.0, "of {members}");
        assert_eq!(
            exits(members, colder, 0.0).round(),
            in_the_cold,
            "of {members}"
        );
    }
}

/// A verifier's surprise at a candidate, as a score.
fn surprising(nats: f64) -> Score {
    Score {
        mean_logprob: Some(-1.0),
        harmonic: Some(-nats),
        ..Score::default()
    }
}

#[test]
fn the_first_leads_until_another_wins_and_the_first_again_once_that_one_is_gone() {
    let mut all = query(3);
    assert_eq!(all.leader(), None);
    all.leave(&[0]).unwrap();

    let mut query = Query::new(3, Settings::preset(Rule::Leader)).unwrap();
    assert_eq!(query.leader(), Some(0));
    // No doubt: weights and leader stay.
    assert_eq!(query.stop(&candidate(" a", false)), None);
    assert_eq!(
        (query.leader(), query.weights()),
        (Some(0), &[1.0 / 3.0; 3][..])
    );
    let rows = vec![[9.0, 8.0, 2.0].map(surprising).to_vec(); 3];
    let shares = query.normalise(&rows).unwrap();
    query.feedback(&shares).unwrap();
    assert_eq!(query.select(&shares).unwrap().winner, 2);
    query.stop(&candidate(" b", false));
    assert_eq!(query.leader(), Some(2));
    // The strongest leads first; among about equally strong ones, the first.
    for (strengths, leader) in [([1.0, 1.05, 0.5], 0), ([1.0, 2.0, 2.1], 1)] {
        let mut query = Query::new(3, Settings::preset(Rule::Leader)).unwrap();
        query.trust(&strengths, &[true; 3]).unwrap();
        assert_eq!(query.leader(), Some(leader));
    }
    // By member, not by position.
    query.leave(&[0]).unwrap();
    assert_eq!(query.leader(), Some(1));
    query.leave(&[2]).unwrap();
    assert_eq!(query.leader(), None, "alone it has nobody to ask");
}

#[test]
fn one_verifier_that_is_surprised_is_enough_to_doubt_a_leader() {
    let settings = Settings {
        leader: Some(Leader { doubt: 4.0 }),
        ..Settings::default()
    };
    let mut query = Query::new(3, settings).unwrap();
    query.drafted(&[1], &[]).unwrap();
    let rows = |scores: [Option<Score>; 3]| scores.map(|score| score.into_iter().collect());
    let trusts = |nats: [f64; 3]| {
        let scores = rows(nats.map(|nats| Some(surprising(nats))));
        query.trusts(&scores).unwrap()
    };
    assert!(trusts([3.9, 1.0, 3.9]));
    assert!(!trusts([1.0, 1.0, 4.1]));
    assert!((surprising(3.9).surprise() - 3.9).abs() < 1e-12);
    assert_eq!(
        query.trusts(&[vec![surprising(1.0)], vec![surprising(1.0)]]),
        Err(RoundError::Rows {
            found: 2,
            members: 3
        })
    );
    for harmonic in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let broken = Score {
            harmonic: Some(harmonic),
            ..surprising(1.0)
        };
        assert_eq!(
            query.trusts(&rows([surprising(1.0), broken, surprising(1.0)].map(Some))),
            Err(RoundError::NotFinite {
                verifier: 1,
                candidate: 0
            })
        );
    }
    // A member that abstains, or has no log-probabilities, has no say; the leader's own is not
    // enough.
    let (calm, wild) = (Some(surprising(1.0)), Some(surprising(9.0)));
    let chats = Some(Score {
        preference: Some(1.0),
        ..Score::default()
    });
    for (scores, trusted) in [
        ([None, calm, calm], true),
        ([chats, calm, calm], true),
        ([None, None, wild], false),
        ([None, calm, chats], false),
        ([None, None, None], false),
    ] {
        assert_eq!(query.trusts(&rows(scores)), Ok(trusted), "{scores:?}");
    }
}

#[test]
fn columns_follow_the_drafters_until_the_round_is_over() {
    let mut query = query(3);
    for wrong in [&[][..], &[1, 0], &[3]] {
        assert_eq!(
            query.drafted(wrong, &[]),
            Err(RoundError::Drafters { members: 3 }),
            "{wrong:?}"
        );
    }
    query.drafted(&[1, 2], &[]).unwrap();
    let row = |a: f64, b: f64| vec![a, b];
    let shares = [row(0.4, 0.6), row(0.5, 0.5), vec![]];
    assert_eq!(query.feedback(&shares).unwrap().counts.len(), 2);
    assert_eq!(query.select(&shares).unwrap().winner, 1);
    let beyond = RoundError::Winner {
        winner: 2,
        candidates: 2,
    };
    assert_eq!(query.exit(2), Err(beyond));
    let three = vec![vec![0.2, 0.3, 0.5]; 3];
    assert!(query.select(&three).is_err());
    query.stop(&candidate(" a", false));
    assert_eq!(query.select(&three).unwrap().winner, 2, "all draft again");
    // Also after a member leaves, in the restarted round.
    query.drafted(&[0], &[]).unwrap();
    query.leave(&[1]).unwrap();
    assert_eq!(query.select(&[row(0.4, 0.6), vec![]]).unwrap().winner, 1);
}

#[test]
fn the_writer_of_the_winner_leads_by_member_not_by_column() {
    let mut query = Query::new(4, Settings::preset(Rule::Leader)).unwrap();
    query.leave(&[0]).unwrap();
    query.drafted(&[0, 2], &[]).unwrap();
    let row = vec![surprising(9.0), surprising(2.0)];
    let shares = query
        .normalise(&[row.clone(), vec![], row.clone()])
        .unwrap();
    query.select(&shares).unwrap();
    query.exit(1).unwrap();
    query.stop(&candidate(" a", false));
    assert_eq!(query.leader(), Some(2), "member 3, the second that drafted");
}

#[test]
fn rows_of_different_kinds_meet_as_shares() {
    let mut query = query(3); // uses logits
    let logits = [2.0, 6.0].map(|number| Score {
        mean_logit: Some(number),
        ..Score::default()
    });
    let told = [-1.0, -2.0].map(|number| Score::of_logprobs(&[number]));
    let prefers = [3.0, 1.0].map(|number| Score {
        preference: Some(number),
        ..Score::default()
    });
    query.drafted(&[0, 1], &[]).unwrap();
    let rows = [logits.to_vec(), told.to_vec(), prefers.to_vec()];
    let shares = query.normalise(&rows).unwrap();
    assert_eq!(shares[0], [0.25, 0.75]);
    assert!((shares[1][0] - 1.0 / (1.0 + (-1_f64).exp())).abs() < 1e-12);
    assert_eq!(shares[2], [0.75, 0.25]);
    // Under the harmonic rule a server's numbers are as good as a member's own, and logits are
    // ignored.
    let mut harmonic = Query::new(3, Settings::default()).unwrap();
    harmonic.drafted(&[0, 1], &[]).unwrap();
    let refused = |verifier, candidate| {
        Err(RoundError::Kind {
            verifier,
            candidate,
        })
    };
    assert_eq!(harmonic.normalise(&rows), refused(0, 0));
    let mixed = [told[0], prefers[1]].to_vec();
    let rows = |row: &[Score]| [told.to_vec(), told.to_vec(), row.to_vec()];
    assert_eq!(harmonic.normalise(&rows(&mixed)), refused(2, 1));
    let none = [prefers[0], Score::default()];
    assert_eq!(harmonic.normalise(&rows(&none)), refused(2, 1));
    for preference in [0.0, -1.0, f64::NAN] {
        let preference = Some(preference);
        let wrong = Score {
            preference,
            ..Score::default()
        };
        assert_eq!(
            harmonic.normalise(&rows(&[prefers[0], wrong])),
            refused(2, 1)
        );
    }
    let shares = harmonic.normalise(&rows(&told)).unwrap();
    let scores = [1_f64, 2.0].map(|nats| 1.0 / (0.5 + nats));
    assert!((shares[0][0] - scores[0] / (scores[0] + scores[1])).abs() < 1e-12);
}

#[test]
fn an_answer_without_words_is_put_to_the_vote() {
    let mut query = Query::new(2, Settings::default()).unwrap();
    query.trust(&[1.0, 3.0], &[true, true]).unwrap();
    query.ask(["Why?"]);
    assert_eq!(query.strongest(), Some(1));
    let ended = |text: &str| Candidate {
        text: text.to_owned(),
        ended: true,
    };
    for (text, may) in [("", false), ("why", false), ("Because.", true)] {
        assert_eq!(query.may_end(&ended(text)), may, "{text}");
    }
}
