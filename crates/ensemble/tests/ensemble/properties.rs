//! Properties that hold for any scores.

use conclave_ensemble::{
    Candidate, Exit, Query, Rate, Reward, Rule, Score, Scoring, Settings, Stop, Update, cut,
    feedback, score, select,
};
use proptest::{collection::vec, prelude::*};

fn settings() -> impl Strategy<Value = Settings> {
    let exit = prop::option::of((0_usize..5, 0.0..10.0, 0.0..=1.0).prop_map(
        |(warmup, temperature, threshold)| Exit {
            warmup,
            temperature,
            threshold,
        },
    ));
    (
        (
            prop::sample::select(Scoring::ALL),
            prop::sample::select(Reward::ALL),
        ),
        prop::sample::select(Rate::ALL),
        prop::sample::select(Update::ALL),
        (
            any::<[bool; 5]>(),
            0.0..=4.0,
            0.0..=1.0,
            0.0..=9.0,
            0.0..=8.0,
        ),
        exit,
        (0.0..=100.0, 0.0..=1.0, 1_usize..40, 1_usize..400),
    )
        .prop_map(
            |(
                (scoring, reward),
                rate,
                update,
                ([self_votes, level, fast, score_end, agree], trust, discount, sure, confidence),
                exit,
                (alpha, mixed, rounds, length),
            )| {
                Settings {
                    segment_tokens: 10,
                    scoring,
                    score_end,
                    trust,
                    reward,
                    alpha,
                    rate,
                    fixed_share: mixed,
                    update,
                    self_votes,
                    level,
                    confidence,
                    agree,
                    discount,
                    sure,
                    exit,
                    fast,
                    max_rounds: rounds,
                    max_characters: length,
                    ..Settings::preset(Rule::Paper)
                }
            },
        )
}

/// A score as models give them, with ties, zeros and extremes now and then.
fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => -30.0..30.0,
        2 => (-3_i32..=3).prop_map(f64::from),
        1 => prop::num::f64::NORMAL | prop::num::f64::ZERO,
    ]
}

fn square(n: usize) -> impl Strategy<Value = Vec<Vec<f64>>> {
    vec(vec(number(), n), n)
}

fn scores(raw: &[Vec<f64>]) -> Vec<Vec<Score>> {
    let score = |&number: &f64| Score {
        mean_logit: Some(number),
        mean_logprob: Some(number),
        harmonic: Some(number),
        preference: None,
    };
    raw.iter()
        .map(|row| row.iter().map(score).collect())
        .collect()
}

/// The rows and columns of `members`.
fn among(matrix: &[Vec<f64>], members: &[usize]) -> Vec<Vec<f64>> {
    let row = |&i: &usize| members.iter().map(|&j| matrix[i][j]).collect();
    members.iter().map(row).collect()
}

fn sums_to_one(values: &[f64]) -> Result<(), TestCaseError> {
    let sum: f64 = values.iter().sum();
    prop_assert!((sum - 1.0).abs() < 1e-9, "{values:?}");
    // If nearly all the weight is with one member, rounding may put the sum slightly above 1.
    let within = 0.0..=1.0 + 1e-12;
    prop_assert!(
        values.iter().all(|value| within.contains(value)),
        "{values:?}"
    );
    Ok(())
}

fn close(a: &[f64], b: &[f64]) -> Result<(), TestCaseError> {
    prop_assert_eq!(a.len(), b.len());
    for (x, y) in a.iter().zip(b) {
        prop_assert!((x - y).abs() < 1e-9, "{:?} against {:?}", a, b);
    }
    Ok(())
}

/// The method for rounds in which all draft and judge, in its order of operations: the results of
/// [`feedback`] and [`select`] must equal it bit for bit.
mod square {
    use conclave_ensemble::{Rate, Reward, Settings};

    pub fn weights(s: &Settings, k: usize, shares: &[Vec<f64>], weights: &[f64]) -> Vec<f64> {
        let n = shares.len();
        let others = |j: usize| (0..n).filter(move |&i| i != j);
        let rewards: Vec<f64> = (0..n)
            .map(|j| match s.reward {
                Reward::Shares => {
                    others(j).map(|i| shares[i][j]).sum::<f64>() / (n - 1).max(1) as f64
                }
                Reward::Counts => {
                    let prefers =
                        |i: usize| others(j).filter(move |&m| shares[i][j] >= shares[i][m]);
                    let count: usize = others(j).map(|i| prefers(i).count()).sum();
                    count.max(1) as f64 / (n - 1).pow(2) as f64
                }
            })
            .collect();
        let (size, k) = (n as f64, k as f64);
        let (rate, mixed) = match s.rate {
            Rate::Code => (s.alpha / (k * size.sqrt()), 0.0),
            Rate::FixedShare => (s.alpha / (k * size.sqrt()), s.fixed_share),
            Rate::Printed => (s.alpha / (size * k.sqrt()), 0.0),
        };
        let best = rewards.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let raised: Vec<f64> = (0..n)
            .map(|j| weights[j] * (rate * (rewards[j] - best)).exp())
            .collect();
        let sum: f64 = raised.iter().sum();
        let even = mixed / n as f64;
        raised
            .iter()
            .map(|w| (1.0 - mixed) * w / sum + even)
            .collect()
    }

    pub fn totals(s: &Settings, shares: &[Vec<f64>], weights: &[f64]) -> Vec<f64> {
        let n = shares.len();
        let own = s.self_votes || n <= 2;
        let heard = |i: usize, j: usize| own || i != j;
        let vote = |i: usize, j: usize| {
            let row = || (0..n).filter(|&j| heard(i, j)).map(|j| shares[i][j]);
            let whole: f64 = match (s.level, own) {
                (true, _) => row().fold(0.0, f64::max),
                (false, true) => 1.0,
                (false, false) => row().sum(),
            };
            if whole > 0.0 {
                shares[i][j] / whole
            } else {
                1.0 / row().count() as f64
            }
        };
        let totals: Vec<f64> = (0..n)
            .map(|j| {
                let voters = || (0..n).filter(move |&i| heard(i, j));
                let total: f64 = voters().map(|i| weights[i] * vote(i, j)).sum();
                let heard: f64 = voters().map(|i| weights[i]).sum();
                match own {
                    true => total,
                    false if heard > 0.0 => total / heard,
                    false => voters().map(|i| vote(i, j)).sum::<f64>() / (n - 1) as f64,
                }
            })
            .collect();
        if own && !s.level {
            return totals;
        }
        let sum: f64 = totals.iter().sum();
        totals.iter().map(|total| total / sum).collect()
    }
}

/// The best total leads by more than rounding.
fn clear(totals: &[f64]) -> bool {
    let best = totals[select::winner(totals)];
    totals.iter().filter(|&&total| total > best - 1e-9).count() == 1
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn rows_totals_and_weights_sum_to_one_through_a_whole_query(
        settings in settings(),
        (members, rounds) in (1_usize..=8)
            .prop_flat_map(|n| (Just(n), vec(square(n), 1..12))),
    ) {
        let mut query = Query::new(members, settings).unwrap();
        for raw in &rounds {
            let raw = among(raw, query.active());
            let shares = query.normalise(&scores(&raw)).unwrap();
            for (row, raw) in shares.iter().zip(&raw) {
                sums_to_one(row)?;
                prop_assert!(row.iter().all(|&share| share > 0.0), "{row:?}");
                // Order is kept.
                for (a, x) in row.iter().zip(raw) {
                    for (b, y) in row.iter().zip(raw) {
                        prop_assert!(x > y || a <= b, "{raw:?} became {row:?}");
                        prop_assert!(x != y || a == b);
                    }
                }
            }
            let feedback = query.feedback(&shares).unwrap();
            sums_to_one(&feedback.weights)?;
            let pairs = (shares.len() - 1).pow(2).max(1);
            prop_assert!(feedback.counts.iter().all(|count| (1..=pairs).contains(count)));
            let selection = query.select(&shares).unwrap();
            sums_to_one(&selection.totals)?;
            let before = query.active().to_vec();
            let gone = query.exit(selection.winner).unwrap();
            prop_assert!(!gone.contains(&before[selection.winner]));
            prop_assert!(gone.is_empty() || query.active().len() >= 2);
            prop_assert_eq!(query.active().len() + gone.len(), before.len());
            sums_to_one(query.weights())?;
            prop_assert_eq!(query.weights().len(), query.active().len());
            query.stop(&Candidate { text: " a".into(), ended: false });
        }
    }

    #[test]
    fn with_all_drafting_and_judging_every_number_is_the_methods_bit_for_bit(
        settings in settings(),
        rounds in (2_usize..=8).prop_flat_map(|n| vec(square(n), 1..8)),
    ) {
        let settings = Settings { exit: None, update: Update::Before, ..settings };
        let members = rounds[0].len();
        let mut query = Query::new(members, settings.clone()).unwrap();
        let mut weights = query.weights().to_vec();
        for (round, raw) in rounds.iter().enumerate() {
            let scores = scores(raw);
            let shares = query.normalise(&scores).unwrap();
            for (i, (row, raw)) in shares.iter().zip(raw).enumerate() {
                prop_assert_eq!(row, &score::normalise(settings.scoring, i, raw).unwrap());
            }
            // An explicit list of all drafters changes nothing.
            if round % 2 == 1 {
                query.drafted(&(0..members).collect::<Vec<_>>(), &[]).unwrap();
            }
            weights = square::weights(&settings, round + 1, &shares, &weights);
            prop_assert_eq!(&query.feedback(&shares).unwrap().weights, &weights);
            let totals = query.select(&shares).unwrap().totals;
            prop_assert_eq!(totals, square::totals(&settings, &shares, &weights));
            query.stop(&Candidate { text: " a".into(), ended: false });
        }
    }

    #[test]
    fn whoever_drafts_and_judges_rows_totals_and_weights_sum_to_one(
        settings in settings(),
        (members, rounds) in (1_usize..=8).prop_flat_map(|n| {
            let some = vec(any::<[bool; 2]>(), n);
            (Just(n), vec((square(n), some), 1..16))
        }),
    ) {
        let mut query = Query::new(members, settings).unwrap();
        for (raw, some) in &rounds {
            let active = query.active().to_vec();
            let mut drafters: Vec<usize> =
                (0..active.len()).filter(|&p| some[active[p]][0]).collect();
            if drafters.is_empty() {
                drafters.push(active.len() - 1);
            }
            query.drafted(&drafters, &[]).unwrap();
            let raw = among(raw, &active);
            let judges: Vec<bool> = active.iter().map(|&i| some[i][1]).collect();
            let scores: Vec<Vec<Score>> = scores(&raw)
                .into_iter()
                .zip(&judges)
                .map(|(row, &judges)| match judges {
                    true => drafters.iter().map(|&j| row[j]).collect(),
                    false => Vec::new(),
                })
                .collect();
            let shares = query.normalise(&scores).unwrap();
            for row in shares.iter().filter(|row| !row.is_empty()) {
                sums_to_one(row)?;
            }
            let before = query.weights().to_vec();
            let feedback = query.feedback(&shares).unwrap();
            sums_to_one(&feedback.weights)?;
            prop_assert_eq!(feedback.counts.len(), drafters.len());
            // Members without a draft keep their weights relative to each other.
            let idle: Vec<usize> = (0..active.len()).filter(|p| !drafters.contains(p)).collect();
            if query.settings().rate != Rate::FixedShare {
                for (&a, &b) in idle.iter().zip(idle.iter().skip(1)) {
                    let (x, y) = (before[a] * feedback.weights[b], before[b] * feedback.weights[a]);
                    prop_assert!((x - y).abs() < 1e-9, "{before:?} became {feedback:?}");
                }
            }
            let selection = query.select(&shares).unwrap();
            sums_to_one(&selection.totals)?;
            prop_assert_eq!(selection.totals.len(), drafters.len());
            let gone = query.exit(selection.winner).unwrap();
            for left in &gone {
                let place = active.iter().position(|member| member == left).unwrap();
                prop_assert!(drafters.contains(&place) && place != drafters[selection.winner]);
            }
            prop_assert!(gone.is_empty() || drafters.len() - gone.len() >= 2);
            sums_to_one(query.weights())?;
            query.stop(&Candidate { text: " a".into(), ended: false });
        }
    }

    #[test]
    fn permuting_the_members_permutes_the_result(
        settings in settings(),
        (order, rounds) in (1_usize..=8).prop_flat_map(|n| (
            Just((0..n).collect::<Vec<usize>>()).prop_shuffle(),
            vec(vec(vec(-30.0..30.0, n), n), 1..8),
        )),
    ) {
        // Member order[p] of one is member p of the other.
        let settings = Settings { exit: None, ..settings };
        let mut one = Query::new(order.len(), settings.clone()).unwrap();
        let mut other = Query::new(order.len(), settings).unwrap();
        let permuted = |values: &[f64]| order.iter().map(|&i| values[i]).collect::<Vec<f64>>();
        for raw in &rounds {
            let shares = one.normalise(&scores(raw)).unwrap();
            let moved = other.normalise(&scores(&among(raw, &order))).unwrap();
            for (row, moved) in among(&shares, &order).iter().zip(&moved) {
                close(row, moved)?;
            }
            let (a, b) = (one.feedback(&shares).unwrap(), other.feedback(&moved).unwrap());
            let counts: Vec<usize> = order.iter().map(|&i| a.counts[i]).collect();
            prop_assert_eq!(counts, b.counts);
            close(&permuted(&a.weights), &b.weights)?;
            let (a, b) = (one.select(&shares).unwrap(), other.select(&moved).unwrap());
            close(&permuted(&a.totals), &b.totals)?;
            if clear(&a.totals) {
                prop_assert_eq!(a.winner, order[b.winner]);
            }
            for query in [&mut one, &mut other] {
                query.stop(&Candidate { text: " a".into(), ended: false });
            }
        }
    }

    #[test]
    fn permuting_the_members_permutes_who_exits(
        order in Just((0..5_usize).collect::<Vec<_>>()).prop_shuffle(),
        rounds in vec(vec(vec(1.0..2.0, 5), 5), 3..10),
        handicap in 0.0..0.9,
    ) {
        let settings = Settings { exit: Some(Exit::default()), ..Settings::preset(Rule::Paper) };
        let mut one = Query::new(5, settings.clone()).unwrap();
        let mut other = Query::new(5, settings).unwrap();
        for raw in &rounds {
            let mut raw: Vec<Vec<f64>> = raw.clone();
            for row in &mut raw {
                row[3] -= handicap;
            }
            let mut gone = Vec::new();
            for (query, raw) in [(&mut one, raw.clone()), (&mut other, among(&raw, &order))] {
                let shares = query.normalise(&scores(&among(&raw, query.active()))).unwrap();
                query.feedback(&shares).unwrap();
                let winner = query.select(&shares).unwrap().winner;
                gone.push(query.exit(winner).unwrap());
                query.stop(&Candidate { text: " a".into(), ended: false });
            }
            let mut moved: Vec<usize> = gone[1].iter().map(|&p| order[p]).collect();
            moved.sort_unstable();
            prop_assert_eq!(&gone[0], &moved);
        }
    }

    #[test]
    fn a_constant_on_all_rewards_changes_nothing(
        (weights, rewards) in (1_usize..=8).prop_flat_map(|n| (vec(0.01..1.0, n), vec(0.0..1.0, n))),
        constant in -50.0..50.0,
        rate in 0.0..10.0,
        mixed in 0.0..=1.0,
    ) {
        let more: Vec<f64> = rewards.iter().map(|reward| reward + constant).collect();
        close(
            &feedback::update(&weights, &rewards, rate, mixed),
            &feedback::update(&weights, &more, rate, mixed),
        )?;
    }

    #[test]
    fn a_verifiers_scale_changes_nothing(
        (raw, scales) in (1_usize..=8).prop_flat_map(|n| (
            vec(vec(prop_oneof![4 => -30.0..30.0, 1 => Just(0.0)], n), n),
            vec(1e-6..1e6, n),
        )),
    ) {
        let scaled: Vec<Vec<f64>> = raw.iter().zip(&scales)
            .map(|(row, scale): (&Vec<f64>, &f64)| row.iter().map(|score| score * scale).collect())
            .collect();
        let mut one = Query::new(raw.len(), Settings::preset(Rule::Paper)).unwrap();
        let mut other = one.clone();
        let a = one.normalise(&scores(&raw)).unwrap();
        let b = other.normalise(&scores(&scaled)).unwrap();
        for (a, b) in a.iter().zip(&b) {
            close(a, b)?;
        }
        let (a, b) = (one.select(&a).unwrap(), other.select(&b).unwrap());
        close(&a.totals, &b.totals)?;
        prop_assert_eq!(a.winner, b.winner);
    }

    #[test]
    fn positive_rows_are_eq_3(row in vec(0.01..30.0, 1..=8)) {
        let sum: f64 = row.iter().sum();
        let plain: Vec<f64> = row.iter().map(|score: &f64| score / sum).collect();
        close(&score::normalise(Scoring::Logit, 0, &row).unwrap(), &plain)?;
    }

    #[test]
    fn a_cut_is_a_prefix_that_does_not_stop_inside_a_word(text in "\\PC{0,40}|[a-c .,\n]{0,20}") {
        let segment = cut(&text, false);
        prop_assert!(text.starts_with(segment));
        prop_assert_eq!(segment.is_empty(), text.is_empty());
        prop_assert_eq!(cut(&text, true), &text);
        let (last, next) = (segment.chars().next_back(), text[segment.len()..].chars().next());
        if let (Some(last), Some(next)) = (last, next) {
            let inside = last.is_ascii_alphanumeric() && next.is_ascii_alphanumeric();
            prop_assert!(!inside, "{text:?} cut to {segment:?}");
        }
        // A cut removes at most the last word and the spaces around it.
        let rest = text[segment.len()..].trim();
        prop_assert!(!rest.contains(char::is_whitespace), "{text:?} cut to {segment:?}");
    }

    #[test]
    fn accepted_segments_joined_are_the_text_shown(
        script in "(\\PC|[ \n]|[a-z]{1,7} |[\u{e00}-\u{e4f}]|[\u{4e00}-\u{4eff}]\
            |👩\u{200d}👧|e\u{301}){0,60}",
        lengths in vec(1_usize..14, 1..8),
    ) {
        // A drafter that knows the answer and continues after the accepted text, by so many
        // characters.
        let mut shown = String::new();
        let mut rounds = 0;
        while shown.len() < script.len() {
            let rest = &script[shown.len()..];
            let length = lengths[rounds % lengths.len()];
            let end = rest.char_indices().nth(length).map_or(rest.len(), |(at, _)| at);
            let segment = cut(&rest[..end], end == rest.len());
            prop_assert!(!segment.is_empty());
            shown += segment;
            prop_assert_eq!(shown.as_bytes(), &script.as_bytes()[..shown.len()]);
            rounds += 1;
            prop_assert!(rounds <= script.chars().count());
        }
        prop_assert_eq!(shown, script);
    }

    #[test]
    fn every_run_ends_and_shows_the_accepted_segments(
        settings in settings(),
        members in 1_usize..=8,
        drafts in vec(("\\PC{0,12}", prop::bool::weighted(0.05)), 1..40),
        raw in square(8),
    ) {
        let mut query = Query::new(members, settings.clone()).unwrap();
        let mut shown = String::new();
        let mut segments = Vec::new();
        let mut drafts = drafts.iter().cycle();
        let stop = loop {
            prop_assert!(segments.len() < settings.max_rounds, "one round too many");
            let active = query.active().to_vec();
            let candidates: Vec<Candidate> = active.iter().map(|_| {
                let (text, ended) = drafts.next().unwrap();
                Candidate { text: cut(text, *ended).to_owned(), ended: *ended }
            }).collect();
            let winner = match query.fast_winner(&candidates) {
                Some(winner) => winner,
                None => {
                    let shares = query.normalise(&scores(&among(&raw, &active))).unwrap();
                    query.feedback(&shares).unwrap();
                    let winner = query.select(&shares).unwrap().winner;
                    query.exit(winner).unwrap();
                    winner
                }
            };
            let winner = &candidates[winner];
            shown += &winner.text;
            segments.push(winner.text.clone());
            if let Some(stop) = query.stop(winner) {
                break (stop, winner.clone());
            }
        };
        prop_assert_eq!(segments.concat(), shown.clone());
        match stop {
            (Stop::Ended, last) => prop_assert!(last.ended),
            (Stop::Silence, last) => prop_assert!(last.text.is_empty()),
            (Stop::Length, _) => prop_assert!(shown.chars().count() >= settings.max_characters),
            (Stop::Rounds, _) => prop_assert_eq!(segments.len(), settings.max_rounds),
            (other, _) => prop_assert!(false, "{:?} is no rule of the query", other),
        }
    }
}
