//! Members on llama.cpp's own server, which the tests start, and the same models here: they give
//! equal scores and answers, and failures on the way lose no answer.
//!
//! `cargo xtask test --only remote` installs the server, sets the path of its Python, and runs
//! these.

mod proxy;
mod server;

use std::path::Path;
use std::time::{Duration, Instant};

use conclave_ensemble::{Candidate, Settings};
use conclave_member::{Member, Message, VerifiedScore};
use conclave_model::{Cpu, LoadOptions, Sampling};
use conclave_remote::{Abilities, Address, Key, Options, Remote, RemoteError, Server};
use conclave_rounds::{
    Answer, AnswerError, AnyMember, Ask, Left, Limits, Question, Round, TakePart, Watch, answer,
};
use conclave_weights::Memory;

use crate::proxy::{Mode, Proxy};
use crate::server::{GEMMA, Llama, SMOLLM2, bundled, plain, published};

/// A bundled member, on the CPU.
fn local(name: &str) -> Member {
    local_of(name, &bundled(name))
}

fn local_of(name: &str, file: &Path) -> Member {
    let file = std::fs::read(file).unwrap();
    let source = Memory::file(format!("{name}.gguf"), file);
    let options = LoadOptions::with_context(1024);
    let mut silent = |_| ();
    let load = Member::load(name, &source, &Cpu::ALONE, options, &mut silent);
    pollster::block_on(load).unwrap()
}

fn connect(url: &str, key: Option<&str>, patience: Duration) -> Result<Server, RemoteError> {
    let options = Options {
        key: key.map(|key| Key::new(key).unwrap()),
        patience,
        ..Options::default()
    };
    Server::connect(Address::read(url).unwrap(), options)
}

fn remote(name: &str, url: &str, patience: Duration) -> AnyMember {
    Remote::new(name, connect(url, None, patience).unwrap()).into()
}

const LONG: Duration = Duration::from_secs(60);

fn candidate(text: &str, ended: bool) -> Candidate {
    Candidate {
        text: text.to_owned(),
        ended,
    }
}

/// Records an answer's rounds.
#[derive(Default)]
struct Heard {
    abstained: Vec<Left>,
    left: Vec<Left>,
    /// Called after each round.
    then: Option<Box<dyn FnMut(usize)>>,
    rounds: usize,
}

impl Watch for Heard {
    fn round(&mut self, round: &Round, _text: &str) {
        self.abstained.extend(round.abstained.iter().cloned());
        self.rounds += 1;
        if let Some(then) = &mut self.then {
            then(self.rounds);
        }
    }

    fn left(&mut self, _member: &str, left: &Left) {
        self.left.push(left.clone());
    }
}

fn ask(
    members: &mut [AnyMember],
    question: &str,
    settings: &Settings,
    heard: &mut Heard,
) -> Result<Answer, AnswerError> {
    let messages = [Message::new("user", question)];
    let ask = Ask {
        question: Question::Conversation(&messages),
        settings,
        sampling: Sampling::greedy(),
        limits: Limits::default(),
        form: None,
    };
    pollster::block_on(answer(members, &ask, heard))
}

/// Rounds of few tokens, so that an answer has several.
fn short() -> Settings {
    Settings {
        segment_tokens: 4,
        max_rounds: 8,
        ..Settings::default()
    }
}

const SUM: &str = "What is 347 + 85?";

/// Differences between a model here and the same on llama.cpp's server over three rounds.
#[derive(Debug, Default)]
struct Apart {
    /// Largest difference of scores of the same candidates, in nats.
    scores: f64,
    /// Number of drafts that differ.
    drafts: usize,
    /// Largest difference, in nats, between the first words in which drafts differ.
    words: f64,
}

/// The common beginning of two different drafts with the first word of each that differs.
fn parting(drafts: [&str; 2]) -> [String; 2] {
    let words = drafts.map(|draft| draft.split_inclusive(' ').collect::<Vec<_>>());
    let alike = words[0].iter().zip(&words[1]).take_while(|(a, b)| a == b);
    let alike = alike.count();
    let word = |draft: &[&str]| draft[..draft.len().min(alike + 1)].concat();
    words.map(|draft| word(&draft).trim_end().to_owned())
}

fn apart(here: &Path, served: &Llama, question: &str) -> Apart {
    let mut here = local_of("here", here);
    let mut there = Remote::new("there", connect(&served.url, None, LONG).unwrap());
    assert_eq!(there.server().abilities(), Abilities::DraftsAndScores);
    let messages = [Message::new("user", question)];
    let settings = Settings::default();
    let mut apart = Apart::default();
    pollster::block_on(async {
        let begun = here.begin(&messages, Sampling::greedy(), 0).await;
        begun.unwrap();
        let go_on = async |_, _| true;
        let begun = TakePart::begin_while(&mut there, &messages, Sampling::greedy(), 0, go_on);
        begun.await.unwrap();
        for _ in 0..3 {
            let drafts = (here.draft(8).await.unwrap(), there.draft(8).await.unwrap());
            if drafts.0.text != drafts.1.text {
                apart.drafts += 1;
                let parted = parting([&drafts.0.text, &drafts.1.text]);
                let parted = parted.map(|text| candidate(&text, false));
                let scores = here.verify(&parted, &settings).await.unwrap();
                let nats =
                    |one: &VerifiedScore| one.score.mean_logprob.unwrap() * one.tokens as f64;
                let margin = (nats(&scores[0]) - nats(&scores[1])).abs();
                apart.words = apart.words.max(margin);
            }
            let candidates = [
                candidate(&drafts.0.text, drafts.0.ended),
                candidate(" The answer is 432.", true),
                candidate(" é 🙂 unheard of", false),
                candidate("", true),
            ];
            let wanted = here.verify(&candidates, &settings).await.unwrap();
            let row = TakePart::verify(&mut there, &candidates, &settings).await;
            for ((found, wanted), candidate) in row.unwrap().iter().zip(&wanted).zip(&candidates) {
                // The tokens that close a turn are not part of the text.
                let ends = usize::from(candidate.ended);
                assert_eq!(found.tokens, wanted.tokens - ends, "{candidate:?}");
                assert_eq!(found.score.mean_logit, None);
                for (found, wanted) in [
                    (found.score.mean_logprob, wanted.score.mean_logprob),
                    (found.score.harmonic, wanted.score.harmonic),
                ] {
                    apart.scores = apart.scores.max((found.unwrap() - wanted.unwrap()).abs());
                }
            }
            here.keep(0).await.unwrap();
            there.keep(0);
        }
    });
    apart
}

#[test]
#[ignore = "llama.cpp's server is needed: cargo xtask test --only remote"]
fn the_same_model_here_and_there_scores_the_same() {
    let file = plain(&bundled("Ada"));
    let apart = apart(&file, &Llama::start(&file, None), SUM);
    assert!(apart.scores < 2e-3 && apart.drafts == 0, "{apart:?}");
}

/// Questions for the published model.
const ASKED: [&str; 5] = [
    SUM,
    "What is the capital of France?",
    "What do bees make, and why?",
    "Name three fruits that are red.",
    "Write a sentence about the sea.",
];

#[test]
#[ignore = "llama.cpp's server and the published models are needed: cargo xtask test --only remote"]
fn the_published_model_here_and_there_scores_and_drafts_the_same() {
    let published = published(SMOLLM2);
    let plain = plain(&published);
    // With the file as published, its server multiplies by activations rounded to 8 bits, as no
    // other engine does: the resulting difference is printed.
    for (name, here, there, held) in [
        ("F32 here and there", &plain, &plain, Some(2e-3)),
        ("Q4_1 here, F32 there", &published, &plain, Some(5e-3)),
        ("Q4_1 here and there", &published, &published, None),
    ] {
        let served = Llama::start(there, None);
        let all = ASKED.map(|question| apart(here, &served, question));
        let furthest = all.iter().fold(0.0_f64, |most, one| most.max(one.scores));
        let drafts: usize = all.iter().map(|one| one.drafts).sum();
        println!("{name}: scores {furthest:.1e} nats apart at most, {drafts} of 15 drafts differ");
        if let Some(held) = held {
            // Where two words are nearer than that, either may be the likelier one.
            let tied = all.iter().all(|one| one.words < held);
            assert!(furthest < held && tied && drafts <= 1, "{name}: {all:?}");
        }
    }
}

#[test]
#[ignore = "llama.cpp's server is needed: cargo xtask test --only remote"]
fn the_same_model_here_and_there_answers_the_same() {
    for (name, question) in [
        ("Ada", SUM),
        ("Quill", "Sort these words: pear, apple, fig."),
    ] {
        let served = Llama::start(&bundled(name), None);
        let mut here = [AnyMember::from(local(name))];
        let mut there = [remote(name, &served.url, LONG)];
        let settings = short();
        let mut heard = Heard::default();
        let wanted = ask(&mut here, question, &settings, &mut heard).unwrap();
        let found = ask(&mut there, question, &settings, &mut heard).unwrap();
        assert_eq!((&found.text, found.stopped), (&wanted.text, wanted.stopped));
        assert!(!found.text.is_empty() && heard.abstained.is_empty());
        assert_eq!(found.prompt_tokens, wanted.prompt_tokens);
        // Together they give the same answer as here alone.
        let [here] = here;
        let [there] = there;
        let both = ask(&mut [here, there], question, &settings, &mut heard).unwrap();
        assert_eq!(both.text, wanted.text);
        for round in &both.rounds {
            for row in &round.normalised {
                assert!(
                    (row[0] - 0.5).abs() < 1e-3,
                    "the two drafted the same: {row:?}"
                );
            }
        }
    }
}

#[test]
#[ignore = "llama.cpp's server is needed: cargo xtask test --only remote"]
fn a_key_is_asked_for_and_never_told() {
    let served = Llama::start(&bundled("Ada"), Some("sesame-7"));
    connect(&served.url, Some("sesame-7"), LONG).unwrap();
    for key in [None, Some("wrong-secret")] {
        let error = connect(&served.url, key, LONG).unwrap_err();
        assert!(
            matches!(error, RemoteError::Denied { status: 401, .. }),
            "{error}"
        );
        let told = format!("{error} {error:?}");
        assert!(
            told.contains("CONCLAVE_KEY_127_0_0_1_") && !told.contains("secret"),
            "{told}"
        );
        let what = key.map_or("asks for a key", |_| "refuses the key");
        assert!(told.contains(what), "{told}");
    }
    let elsewhere = "http://192.0.2.1/v1#m";
    let error = connect(elsewhere, Some("sesame-7"), LONG).unwrap_err();
    assert!(
        matches!(error, RemoteError::Key(_)),
        "in the clear: {error}"
    );
}

#[test]
#[ignore = "llama.cpp's server is needed: cargo xtask test --only remote"]
fn a_late_member_abstains_and_leaves_after_three_rounds() {
    let served = Llama::start(&bundled("Ada"), None);
    let proxy = Proxy::before(&served.url);
    let patience = Duration::from_secs(4);
    let mut members = [
        AnyMember::from(local("Ada")),
        remote("far", &proxy.url, patience),
    ];
    let slow = proxy.mode.clone();
    let mut heard = Heard {
        then: Some(Box::new(move |round| {
            // In time for the first round, and late from then on.
            let late = Mode::Wait(Duration::from_secs(12));
            if round == 1 {
                *slow.lock().unwrap() = late;
            }
        })),
        ..Heard::default()
    };
    let began = Instant::now();
    let said = ask(&mut members, SUM, &short(), &mut heard).unwrap();
    assert!(began.elapsed() < Duration::from_secs(40));
    let wanted = ask(&mut members[..1], SUM, &short(), &mut Heard::default()).unwrap();
    assert_eq!(said.text, wanted.text, "nothing is lost");
    let rounds: Vec<usize> = heard.abstained.iter().map(|late| late.round).collect();
    assert_eq!(rounds, [2, 3], "{:?}", heard.abstained);
    assert!(heard.abstained[0].error.contains("has not answered within"));
    assert_eq!(heard.left.len(), 1);
    assert!(
        heard.left[0].error.contains("3 rounds in a row"),
        "{:?}",
        heard.left
    );
    let late = &said.rounds[1];
    assert_eq!(
        (&late.active[..], &late.drafters[..]),
        (&[0, 1][..], &[0][..])
    );
    assert!(late.scores[1].is_empty() && late.scores[0].len() == 1);
    assert_eq!(late.weights.len(), 2);
}

#[test]
#[ignore = "llama.cpp's server is needed: cargo xtask test --only remote"]
fn a_round_that_all_are_late_in_is_begun_anew() {
    let served = Llama::start(&bundled("Ada"), None);
    let proxy = Proxy::before(&served.url);
    let mut members = [remote("far", &proxy.url, Duration::from_secs(4))];
    let wanted = ask(&mut members, SUM, &short(), &mut Heard::default()).unwrap();
    let slow = proxy.mode.clone();
    let late_in_the_second = || {
        let slow = slow.clone();
        Heard {
            then: Some(Box::new(move |round| {
                if round == 1 {
                    *slow.lock().unwrap() = Mode::Wait(Duration::from_secs(12));
                    let slow = slow.clone();
                    std::thread::spawn(move || {
                        std::thread::sleep(Duration::from_secs(3));
                        *slow.lock().unwrap() = Mode::Pass;
                    });
                }
            })),
            ..Heard::default()
        }
    };
    let said = ask(&mut members, SUM, &short(), &mut late_in_the_second()).unwrap();
    assert_eq!(said.text, wanted.text, "nothing is lost");
    // Late again and again, it leaves, and it was the last.
    proxy.set(Mode::Wait(Duration::from_secs(12)));
    let error = ask(&mut members, SUM, &short(), &mut Heard::default()).unwrap_err();
    assert!(error.to_string().contains("3 rounds in a row"), "{error}");
}

#[test]
#[ignore = "llama.cpp's server is needed: cargo xtask test --only remote"]
fn what_passes_is_waited_for_and_what_does_not_leaves_at_once() {
    let served = Llama::start(&bundled("Ada"), None);
    let proxy = Proxy::before(&served.url);
    let alone = ask(
        &mut [local("Ada").into()],
        SUM,
        &short(),
        &mut Heard::default(),
    )
    .unwrap();
    for (status, times, leaves) in [
        (429, 2, false),
        (503, 2, false),
        (401, usize::MAX, true),
        (404, usize::MAX, true),
    ] {
        proxy.set(Mode::Pass);
        let mut members = [
            AnyMember::from(local("Ada")),
            remote("far", &proxy.url, LONG),
        ];
        proxy.set(Mode::Status(status, times));
        let mut heard = Heard::default();
        let said = ask(&mut members, SUM, &short(), &mut heard).unwrap();
        assert_eq!(said.text, alone.text, "HTTP {status}");
        assert!(
            heard.abstained.is_empty(),
            "HTTP {status}: {:?}",
            heard.abstained
        );
        assert_eq!(
            heard.left.len(),
            usize::from(leaves),
            "HTTP {status}: {:?}",
            heard.left
        );
        if leaves {
            assert!(heard.left[0].error.contains(&format!("HTTP {status}")));
        }
    }
}

#[test]
#[ignore = "llama.cpp's server is needed: cargo xtask test --only remote"]
fn a_server_that_restarts_in_mid_answer_is_back_in_it() {
    let mut served = Llama::start(&bundled("Ada"), None);
    let patience = Duration::from_secs(15);
    let mut members = [
        AnyMember::from(local("Ada")),
        remote("far", &served.url, patience),
    ];
    let (port, file) = (served.port(), bundled("Ada"));
    let mut heard = Heard {
        then: Some(Box::new(move |round| match round {
            1 => served.stop(),
            2 => served = Llama::start_on(&file, None, port),
            _ => {}
        })),
        ..Heard::default()
    };
    let said = ask(&mut members, SUM, &short(), &mut heard).unwrap();
    assert!(heard.left.is_empty(), "{:?}", heard.left);
    let missed: Vec<usize> = heard.abstained.iter().map(|late| late.round).collect();
    assert_eq!(missed, [2]);
    let both = said.rounds.iter().filter(|round| round.drafters.len() == 2);
    assert_eq!(both.count(), said.rounds.len() - 1);
}

#[test]
#[ignore = "llama.cpp's server is needed: cargo xtask test --only remote"]
fn one_that_only_chats_judges_by_letters() {
    let served = Llama::start(&bundled("Quill"), None);
    let proxy = Proxy::before(&served.url);
    proxy.deny("/v1/completions");
    let judge = Remote::new("judge", connect(&proxy.url, None, LONG).unwrap());
    assert_eq!(judge.server().abilities(), Abilities::JudgesOnly);
    let mut members = [local("Ada").into(), local("Juno").into(), judge.into()];
    let mut heard = Heard::default();
    let said = ask(&mut members, SUM, &short(), &mut heard).unwrap();
    assert!(
        heard.left.is_empty() && heard.abstained.is_empty(),
        "{:?}",
        heard.left
    );
    for round in &said.rounds {
        assert_eq!(
            (&round.active[..], &round.drafters[..]),
            (&[0, 1, 2][..], &[0, 1][..])
        );
        let row = &round.scores[2];
        let shares: Vec<f64> = row
            .iter()
            .filter_map(|score| score.score.preference)
            .collect();
        // Candidates with the same words are shown as one, each with its share.
        let alike = shares == [1.0, 1.0];
        let sum: f64 = shares.iter().sum();
        assert!(
            shares.len() == 2 && (alike || (sum - 1.0).abs() < 1e-9),
            "{row:?}"
        );
        assert!(row.iter().all(|score| score.score.harmonic.is_none()));
    }
    // Alone it cannot answer.
    let [_, _, judge] = members;
    let error = ask(&mut [judge], SUM, &short(), &mut Heard::default()).unwrap_err();
    assert!(matches!(error, AnswerError::NoDrafter), "{error}");
}

/// Questions, each with its answer.
fn facts() -> Vec<(String, String)> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/tasks/facts.jsonl");
    let lines = std::fs::read_to_string(file).unwrap();
    let read = |line: &str| {
        let fact: serde_json::Value = serde_json::from_str(line).unwrap();
        let question = fact["question"].as_str()?.to_owned();
        let answer = fact["answer"].as_str().or(fact["answer"][0].as_str())?;
        Some((question, answer.to_owned()))
    };
    lines.lines().filter_map(read).collect()
}

/// Mean scores of the right candidate, and of the favourite, over some rounds.
#[derive(Debug, Default)]
struct Said {
    right: f64,
    most: f64,
}

#[test]
#[ignore = "llama.cpp's server and the published models are needed: cargo xtask test --only remote"]
fn the_published_models_liking_of_a_letter_is_measured_and_corrected() {
    const ROUNDS: usize = 36;
    const LAST: usize = 12;
    let facts = facts();
    for file in [SMOLLM2, GEMMA] {
        let served = Llama::start(&published(file), None);
        let proxy = Proxy::before(&served.url);
        proxy.deny("/v1/completions");
        let mut judge = Remote::new("judge", connect(&proxy.url, None, LONG).unwrap());
        let (mut first, mut last) = (Said::default(), Said::default());
        for round in 0..ROUNDS {
            // Its answer, and those to two other questions.
            let texts = [0, 7, 13].map(|on| facts[round + on].1.as_str());
            let candidates = texts.map(|text| candidate(text, true));
            let messages = [Message::new("user", &facts[round].0)];
            let row = pollster::block_on(async {
                let sampling = Sampling {
                    seed: round as u64,
                    ..Sampling::greedy()
                };
                let go_on = async |_, _| true;
                let begun = TakePart::begin_while(&mut judge, &messages, sampling, 0, go_on);
                begun.await.unwrap();
                TakePart::verify(&mut judge, &candidates, &Settings::default()).await
            });
            let row = row.unwrap();
            let row: Vec<f64> = row.iter().filter_map(|one| one.score.preference).collect();
            let most = row.iter().copied().fold(0.0, f64::max);
            for (said, within) in [
                (&mut first, round < LAST),
                (&mut last, round >= ROUNDS - LAST),
            ] {
                if within {
                    said.right += row[0] / LAST as f64;
                    said.most += most / LAST as f64;
                }
            }
        }
        let known = judge.judge();
        let (named, sure) = (known.named(3), known.reliability());
        println!(
            "{file}: letters named {named:?}, reliability {sure:.2}, bias {:.2?}",
            known.bias(3)
        );
        println!("    rounds 1 to {LAST}: {first:.2?}; the last {LAST}: {last:.2?}");
        // A judge that always names the same letter gives a third each. One with knowledge may give
        // more.
        let answers = 2.0 * ROUNDS as f64;
        let liking = (named.iter().copied().fold(0.0, f64::max) - 1.0) / answers;
        assert!(liking < 0.9 || last.most < 0.4, "{liking} {last:?}");
    }
}
