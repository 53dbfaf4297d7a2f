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
