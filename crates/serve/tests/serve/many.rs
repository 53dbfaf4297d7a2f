//! Many clients: turns, the queue's limit, clients that disconnect, failing requests, shutdown.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

use crate::stage::{
    BREAKS, Gate, Moody, SUM, Stage, Streaming, agent, asked, bundled, config, post, read, text_of,
};
use conclave_ensemble::Settings;
use conclave_serve::Config;
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";

/// A server whose members are slow, and wait before each draft while the gate is shut; and the
/// number of their drafts.
fn slow(config: Config, pause: u64) -> (Stage, Gate, Arc<AtomicUsize>) {
    let (gate, drafts) = (Gate::new(), Arc::new(AtomicUsize::new(0)));
    let (way, counted) = (gate.way(), Arc::clone(&drafts));
    let members = move || {
        let pause = Duration::from_millis(pause);
        let moody = |member| Moody::new(member, pause, way.clone(), &counted);
        bundled().into_iter().map(moody).collect()
    };
    // Short segments, so that an answer has several.
    let settings = Settings {
        segment_tokens: 3,
        ..Settings::default()
    };
    (Stage::with_members(config, settings, members), gate, drafts)
}

/// Asks in a thread of its own: the status, whether it has `Retry-After`, and the answer.
fn asking(stage: &Stage, options: Value) -> JoinHandle<(u16, Option<u64>, Value)> {
    let url = stage.url(CHAT);
    spawn(move || {
        let response = post(&agent(), &url, &asked(SUM, options)).unwrap();
        let after = response.headers().get("retry-after");
        let after = after.map(|after| after.to_str().unwrap().parse().unwrap());
        let (status, body) = read(response);
        (status, after, body)
    })
}

#[test]
fn one_too_many_is_told_when_to_come_again() {
    let (stage, gate, _) = slow(
        Config {
            waiting: 4,
            ..config()
        },
        0,
    );
    gate.shut();
    let first = asking(&stage, json!({}));
    stage.until("the first is answered", |(busy, _)| busy);
    let waiting = [asking(&stage, json!({})), asking(&stage, json!({}))];
    stage.until("two wait", |(_, waiting)| waiting == 2);
    // One address may have half of the places.
    let (status, after, told) = asking(&stage, json!({ "stream": true })).join().unwrap();
    assert_eq!(
        (status, &told["error"]["code"]),
        (429, &json!("rate_limit_exceeded")),
        "{told}"
    );
    assert!((1..=60).contains(&after.unwrap()));
    gate.open();
    for asked in std::iter::once(first).chain(waiting) {
        assert_eq!(asked.join().unwrap().0, 200);
    }
}

#[test]
fn who_hangs_up_while_it_waits_has_no_place() {
    let (stage, gate, _) = slow(
        Config {
            waiting: 4,
            ..config()
        },
        0,
    );
    gate.shut();
    let first = asking(&stage, json!({}));
    stage.until("the first is answered", |(busy, _)| busy);
    for stream in [true, false, true, false, true] {
        let impatient =
            ureq::Agent::config_builder().timeout_global(Some(Duration::from_millis(100)));
        let body = asked(SUM, json!({ "stream": stream }));
        assert!(post(&impatient.build().into(), &stage.url(CHAT), &body).is_err());
    }
    stage.until("nobody waits", |(_, waiting)| waiting == 0);
    let next = asking(&stage, json!({}));
    stage.until("one waits", |(_, waiting)| waiting == 1);
    gate.open();
    assert_eq!(
        (first.join().unwrap().0, next.join().unwrap().0),
        (200, 200)
    );
}

#[test]
fn a_stream_begins_long_before_the_members_do() {
    let (stage, gate, _) = slow(config(), 0);
    gate.shut();
    let begun = Instant::now();
    let body = asked(SUM, json!({ "stream": true }));
    let response = post(&agent(), &stage.url(CHAT), &body).unwrap();
    assert_eq!(response.status(), 200);
    let mut reader = std::io::BufReader::new(response.into_body().into_reader());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut reader, &mut line).unwrap();
    assert!(line.starts_with(':'), "{line}");
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    // A later failure is reported in the stream.
    let url = stage.url(CHAT);
    let breaks = spawn(move || Streaming::begin(&agent(), &url, &asked(BREAKS, json!({}))).next());
    stage.until("one waits", |(_, waiting)| waiting == 1);
    std::thread::sleep(Duration::from_secs(1));
    gate.open();
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut reader, &mut rest).unwrap();
    assert!(rest.ends_with("data: [DONE]\n\n"), "{rest}");
    let told = breaks.join().unwrap().unwrap();
    assert_eq!(told["error"]["type"], "server_error", "{told}");
}

#[test]
fn who_asks_once_does_not_wait_for_all_of_who_asks_often() {
    let (stage, gate, _) = slow(config(), 20);
    gate.shut();
    let often: Vec<_> = (0..6)
        .map(|_| asking(&stage, json!({ "user": "often" })))
        .collect();
    stage.until("they wait", |(_, waiting)| waiting == 5);
    let url = stage.url(CHAT);
    let once = spawn(move || {
        let body = asked(SUM, json!({ "user": "once" }));
        assert_eq!(post(&agent(), &url, &body).unwrap().status(), 200);
        Instant::now()
    });
    stage.until("all wait", |(_, waiting)| waiting == 6);
    let begun = Instant::now();
    gate.open();
    let once = once.join().unwrap() - begun;
    let ends = often.into_iter().map(|asked| {
        assert_eq!(asked.join().unwrap().0, 200);
        begun.elapsed()
    });
    let last = ends.max().unwrap();
    assert!(once < last.mul_f64(0.8), "{once:?} of {last:?}");
}

#[test]
fn a_client_that_goes_away_frees_the_members_within_a_segment() {
    let (stage, gate, drafts) = slow(config(), 40);
    // Number of drafts of the complete answer.
    stage.chat(SUM, json!({}));
    let whole = drafts.swap(0, Ordering::SeqCst);
    assert!(whole >= 9, "three rounds at least: {whole}");

    for streamed in [true, false] {
        // A stream begins with the first round.
        gate.shut_behind(if streamed { 3 } else { 0 });
        if streamed {
            let mut stream = Streaming::begin(&agent(), &stage.url(CHAT), &asked(SUM, json!({})));
            stream.next().unwrap();
            drop(stream);
        } else {
            let mut impatient = ureq::Agent::config_builder().http_status_as_error(false);
            impatient = impatient.timeout_global(Some(Duration::from_millis(100)));
            let gone = post(
                &impatient.build().into(),
                &stage.url(CHAT),
                &asked(SUM, json!({})),
            );
            assert!(matches!(gone, Err(ureq::Error::Timeout(_))));
        }
        gate.open();
        stage.until("the members are free", |(busy, _)| !busy);
        let made = drafts.swap(0, Ordering::SeqCst);
        assert!(made <= 6, "{made} drafts of {whole}, streamed: {streamed}");
    }
    // A client that disconnects while it waits is never served.
    gate.shut();
    let first = asking(&stage, json!({}));
    stage.until("one is answered", |(busy, _)| busy);
    let impatient = ureq::Agent::config_builder().timeout_global(Some(Duration::from_millis(50)));
    assert!(
        post(
            &impatient.build().into(),
            &stage.url(CHAT),
            &asked("Well?", json!({}))
        )
        .is_err()
    );
    gate.open();
    assert_eq!(first.join().unwrap().0, 200);
    stage.until("nobody waits", |load| load == (false, 0));
    assert_eq!(drafts.load(Ordering::SeqCst), whole);
}

#[test]
fn a_client_that_goes_away_is_told_no_more_probabilities() {
    let (stage, gate, passed) = slow(config(), 20);
    stage.chat(SUM, json!({ "model": "Ada" }));
    let drafts = passed.swap(0, Ordering::SeqCst);
    let options = json!({ "model": "Ada", "logprobs": true });
    stage.chat(SUM, options.clone());
    let tokens = passed.swap(0, Ordering::SeqCst) - drafts;
    assert!(tokens >= 10, "{tokens}");

    // It hangs up after the first token.
    gate.shut_behind(drafts + 1);
    let stream = Streaming::begin(&agent(), &stage.url(CHAT), &asked(SUM, options));
    stage.until("the answer is drafted", |_| {
        passed.load(Ordering::SeqCst) > drafts
    });
    drop(stream);
    gate.open();
    stage.until("the member is free", |(busy, _)| !busy);
    let told = passed.load(Ordering::SeqCst) - drafts;
    assert!(told <= tokens / 2, "{told} of {tokens}");
}

#[test]
fn a_request_that_breaks_down_does_so_alone() {
    let (stage, _gate, _) = slow(config(), 0);
    let before = stage.chat(SUM, json!({}));
    for stream in [false, true] {
        // A stream that has waited for long is begun, and ends with the same error.
        let waiting = asking(&stage, json!({}));
        if stream {
            stage.until("it is over", |load| load == (false, 0));
        }
        let (status, told) = stage.post(CHAT, &asked(BREAKS, json!({ "stream": stream })));
        assert_eq!(
            (status, &told["error"]["type"]),
            (500, &json!("server_error")),
            "{told}"
        );
        let (status, _, beside) = waiting.join().unwrap();
        assert_eq!((status, &beside["choices"]), (200, &before["choices"]));
        assert_eq!(stage.chat(SUM, json!({}))["choices"], before["choices"]);
    }
}

#[test]
fn the_answer_on_its_way_ends_before_the_server_does() {
    let (mut stage, gate, _) = slow(config(), 0);
    gate.shut_behind(3);
    let mut stream = Streaming::begin(&agent(), &stage.url(CHAT), &asked(SUM, json!({})));
    stream.next().unwrap();
    let waiting = asking(&stage, json!({}));
    stage.until("one waits", |(_, waiting)| waiting == 1);
    stage.stop();
    let (status, _, told) = waiting.join().unwrap();
    assert_eq!(
        (status, &told["error"]["code"]),
        (503, &json!("shutting_down")),
        "{told}"
    );
    gate.open();
    assert!(text_of(&stream.rest()).contains("432"));
    stage.ended();
    assert!(post(&agent(), &stage.url(CHAT), &asked(SUM, json!({}))).is_err());
}

#[test]
fn sixty_four_clients_lose_nothing() {
    let stage = Stage::new();
    let whole = stage.chat(SUM, json!({}));
    let whole = whole["choices"][0]["message"]["content"]
        .as_str()
        .unwrap()
        .to_owned();
    let until = Instant::now() + Duration::from_secs(4);
    let clients = (0..64).map(|number| {
        let (url, whole) = (stage.url(CHAT), whole.clone());
        spawn(move || {
            let (agent, mut answers) = (agent(), 0);
            // Each has at least one answer.
            loop {
                let body = asked(SUM, json!({ "user": format!("client {number}") }));
                if number % 2 == 0 {
                    let chunks = Streaming::begin(&agent, &url, &body).rest();
                    assert_eq!(text_of(&chunks), whole);
                } else {
                    let (status, answer) = read(post(&agent, &url, &body).unwrap());
                    assert_eq!(
                        (status, &answer["choices"][0]["message"]["content"]),
                        (200, &json!(whole))
                    );
                }
                answers += 1;
                if Instant::now() > until {
                    return answers;
                }
            }
        })
    });
    let clients: Vec<JoinHandle<u32>> = clients.collect();
    let answers: Vec<u32> = clients
        .into_iter()
        .map(|client| client.join().unwrap())
        .collect();
    let (least, most) = (answers.iter().min().unwrap(), answers.iter().max().unwrap());
    // Turns rotate: no client has had many more than another.
    assert!(*least >= 1 && most - least <= 3, "{answers:?}");
    // The last client may get its answer before the members know that it is over.
    stage.until("nobody is left", |load| load == (false, 0));
}
