//! The judge by letters, tested with rows computed by another implementation
//! (`tests/judging/letters.json`).

use conclave_ensemble::Candidate;
use conclave_remote::ChatMessage;
use conclave_remote::judge::{Judge, ballot, letter_in, orders};
use serde::Deserialize;

#[derive(Deserialize)]
struct Vectors {
    orders: Vec<Orders>,
    judges: Vec<Judged>,
    letters: Vec<Letter>,
    ballots: Vec<Ballot>,
}

#[derive(Deserialize)]
struct Orders {
    n: usize,
    seed: u64,
    orders: Vec<Vec<usize>>,
}

#[derive(Deserialize)]
struct Judged {
    n: usize,
    rounds: Vec<Round>,
    reliability: f64,
    bias: Vec<f64>,
}

#[derive(Deserialize)]
struct Round {
    orders: Vec<Vec<usize>>,
    named: Vec<Option<usize>>,
    row: Option<Vec<f64>>,
}

#[derive(Deserialize)]
struct Letter {
    said: String,
    n: usize,
    letter: Option<usize>,
}

#[derive(Deserialize)]
struct Ballot {
    messages: Vec<Message>,
    answer: String,
    candidates: Vec<Candidate>,
    order: Vec<usize>,
    text: String,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    content: String,
}

fn alike(found: &[f64], wanted: &[f64]) -> bool {
    let near = |(found, wanted): (&f64, &f64)| (found - wanted).abs() < 1e-12;
    found.len() == wanted.len() && found.iter().zip(wanted).all(near)
}

#[test]
fn it_shuffles_asks_reads_and_believes_as_in_the_file() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/judging/letters.json"
    );
    let vectors: Vectors = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    for wanted in &vectors.orders {
        let Orders {
            n,
            seed,
            orders: wanted,
        } = wanted;
        assert_eq!(&orders(*n, *seed), wanted, "{n} by {seed}");
    }
    for Judged {
        n,
        rounds,
        reliability,
        bias,
    } in &vectors.judges
    {
        let mut judge = Judge::default();
        for Round { orders, named, row } in rounds {
            match (judge.hear(orders, named), row) {
                (Some(found), Some(row)) => assert!(alike(&found, row), "{found:?} {row:?}"),
                (found, row) => assert_eq!(&found, row),
            }
        }
        assert!(alike(&[judge.reliability()], &[*reliability]));
        assert!(alike(&judge.bias(*n), bias));
    }
    for Letter { said, n, letter } in &vectors.letters {
        assert_eq!(letter_in(said, *n), *letter, "{said:?}");
    }
    for one in &vectors.ballots {
        let said = |message: &Message| ChatMessage {
            role: message.role.clone(),
            content: message.content.clone(),
        };
        let messages: Vec<ChatMessage> = one.messages.iter().map(said).collect();
        let candidates: Vec<&Candidate> = one.candidates.iter().collect();
        assert_eq!(
            ballot(&messages, &one.answer, &candidates, &one.order),
            one.text
        );
    }
}

/// Reproducible numbers from 0 to 1 (mulberry32).
fn random(seed: u32) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x6d2b_79f5);
        let mut mixed = (state ^ (state >> 15)).wrapping_mul(state | 1);
        mixed ^= mixed.wrapping_add((mixed ^ (mixed >> 7)).wrapping_mul(mixed | 61));
        f64::from(mixed ^ (mixed >> 14)) / f64::from(2).powi(32)
    }
}

fn below(count: usize, random: &mut impl FnMut() -> f64) -> usize {
    (random() * count as f64) as usize
}

fn place_of(order: &[usize], candidate: usize) -> usize {
    order.iter().position(|&one| one == candidate).unwrap()
}

/// Rounds of a judge whose favourite is drawn anew each time, with each round's row; `names` picks
/// the letter by the favourite, the order and a random number.
fn play(
    rounds: u32,
    count: usize,
    seed: u32,
    names: impl Fn(usize, &[usize], f64) -> usize,
) -> (Judge, Vec<(usize, Vec<f64>)>) {
    let (mut judge, mut random) = (Judge::default(), random(seed + 1));
    let mut rows = Vec::new();
    for round in 0..rounds {
        let best = below(count, &mut random);
        let shown = orders(count, (seed + round).into());
        let named = shown.iter().map(|order| Some(names(best, order, random())));
        let named: Vec<_> = named.collect();
        rows.push((best, judge.hear(&shown, &named).unwrap()));
    }
    (judge, rows)
}

fn largest(row: &[f64]) -> f64 {
    row.iter().copied().fold(0.0, f64::max)
}

#[test]
fn every_candidate_is_as_often_at_each_letter() {
    for count in 2..=8 {
        let mut places = vec![vec![0_u32; count]; count];
        for round in 0..1000 {
            for (place, &candidate) in orders(count, round)[0].iter().enumerate() {
                places[candidate][place] += 1;
            }
        }
        let mean = 1000.0 / count as f64;
        let far = |&found: &u32| (f64::from(found) - mean).abs() >= 6.0 * mean.sqrt();
        assert!(!places.iter().flatten().any(far), "{places:?}");
    }
}

#[test]
fn preferences_are_positive_and_sum_to_one_whatever_is_named() {
    for count in 2..=8 {
        let (_, rows) = play(200, count, 9, |_, order, drawn| {
            (drawn * order.len() as f64) as usize
        });
        for (_, row) in rows {
            assert!(row.len() == count && row.iter().all(|&share| share > 0.0));
            assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{row:?}");
        }
    }
}

#[test]
fn a_permutation_of_the_candidates_permutes_the_row() {
    for count in 2..=8 {
        let mut random = random(7);
        let mut judges = [Judge::default(), Judge::default()];
        for round in 0..50 {
            let shown = orders(count, round);
            let renamed = &orders(count, 1000 + round)[0];
            let named: Vec<_> = shown
                .iter()
                .map(|_| Some(below(count, &mut random)))
                .collect();
            let row = judges[0].hear(&shown, &named).unwrap();
            let other = shown
                .iter()
                .map(|order| order.iter().map(|&one| renamed[one]).collect());
            let other: Vec<Vec<usize>> = other.collect();
            let permuted = judges[1].hear(&other, &named).unwrap();
            for (candidate, share) in row.iter().enumerate() {
                assert!((permuted[renamed[candidate]] - share).abs() < 1e-12);
            }
        }
    }
}

#[test]
fn a_judge_that_always_names_one_letter_comes_to_say_nothing() {
    for count in [2, 3, 5] {
        let (judge, rows) = play(80, count, 5, |_, _, _| 0);
        assert!(judge.bias(count)[0] > 0.8);
        let (_, row) = rows.last().unwrap();
        assert!(largest(row) < 1.35 / count as f64, "{row:?}");
    }
    let (_, rows) = play(12, 3, 23, |_, _, _| 0);
    let first: Vec<String> = rows[..4]
        .iter()
        .map(|(_, row)| format!("{:.2}", largest(row)))
        .collect();
    assert_eq!(first, ["0.41", "0.38", "0.35", "0.35"]);
}

#[test]
fn a_letter_named_out_of_habit_says_less_than_another() {
    // Three times of four it names its favourite, else A.
    let (mut judge, _) = play(400, 3, 11, |best, order, drawn| {
        if drawn < 0.75 {
            place_of(order, best)
        } else {
            0
        }
    });
    assert!((judge.reliability() - 0.75).abs() < 0.08);
    let bias = judge.bias(3);
    assert!(
        bias[0] > 0.7 && bias[1] < 0.25 && bias[2] < 0.25,
        "{bias:?}"
    );
    let mut after = |letter| largest(&judge.hear(&[vec![0, 1, 2]], &[Some(letter)]).unwrap());
    let (by_habit, not_by_habit) = (after(0), after(1));
    assert!(not_by_habit > by_habit + 0.1, "{not_by_habit} {by_habit}");
}

#[test]
fn corrected_a_biased_judge_is_right_more_often_than_its_letters() {
    let (_, rows) = play(600, 3, 17, |best, order, drawn| {
        if drawn < 0.5 {
            place_of(order, best)
        } else {
            0
        }
    });
    let right = rows[100..]
        .iter()
        .filter(|(best, row)| row[*best] == largest(row))
        .count();
    // By the letter of one answer alone: a half, and a third of the rest.
    assert!(right as f64 / 500.0 > 0.5 + 0.5 / 3.0 + 0.03, "{right}");
}

#[test]
fn one_answer_of_two_is_a_vote() {
    let shown = orders(3, 1);
    let row = Judge::default().hear(&shown, &[None, Some(1)]).unwrap();
    assert_eq!(row[shown[1][1]], largest(&row));
}
