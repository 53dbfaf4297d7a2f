//! Clients that send no more and still read, requests with many headers, and ones too large.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::stage::{Gate, Moody, SUM, Stage, asked, bundled, config};
use conclave_ensemble::Settings;
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";

const INTERIM: &str = "HTTP/1.1 100 Continue\r\n\r\n";

/// Sends a request with further header lines.
fn send(stage: &Stage, version: &str, lines: &str, body: &Value) -> TcpStream {
    let mut client = TcpStream::connect(stage.address).unwrap();
    let timeout = Some(Duration::from_secs(20));
    client.set_read_timeout(timeout).unwrap();
    let body = body.to_string();
    let length = body.len();
    let head = format!(
        "POST {CHAT} HTTP/{version}\r\nhost: x\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n{lines}\r\n"
    );
    client.write_all((head + &body).as_bytes()).unwrap();
    client
}

/// The rest that a server sends until it closes the connection.
fn rest(mut client: TcpStream) -> String {
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    text
}

/// A server whose members wait at a gate, and the number of their drafts.
fn gated() -> (Stage, Gate, Arc<AtomicUsize>) {
    let (gate, drafts) = (Gate::new(), Arc::new(AtomicUsize::new(0)));
    let (way, counted) = (gate.way(), Arc::clone(&drafts));
    let members = move || {
        let pause = Duration::from_millis(40);
        let moody = |member| Moody::new(member, pause, way.clone(), &counted);
        bundled().into_iter().map(moody).collect()
    };
    let settings = Settings {
        segment_tokens: 3,
        ..Settings::default()
    };
    (
        Stage::with_members(config(), settings, members),
        gate,
        drafts,
    )
}

#[test]
fn a_client_that_sends_no_more_gets_its_answer() {
    let (stage, gate, _) = gated();
    for version in ["1.0", "1.1"] {
        for stream in [false, true] {
            gate.shut();
            let body = asked(SUM, json!({ "stream": stream }));
            let mut client = send(&stage, version, "", &body);
            client.shutdown(Shutdown::Write).unwrap();
            stage.until("it is answered", |(busy, _)| busy);
            if version == "1.1" && !stream {
                // The answer takes long enough for the server to look whether the client is there.
                let mut interim = [0; INTERIM.len()];
                client.read_exact(&mut interim).unwrap();
                assert_eq!(interim, INTERIM.as_bytes());
            }
            gate.open();
            let text = rest(client);
            let mut answer = text.as_str();
            if version == "1.1" {
                answer = answer.trim_start_matches(INTERIM);
            }
            let begins = format!("HTTP/{version} 200 OK");
            assert!(answer.starts_with(&begins), "{text}");
            assert!(!answer.contains(INTERIM), "{text}");
            let end = if stream { "data: [DONE]" } else { "432" };
            assert!(text.contains(end), "{version}, {stream}: {text}");
        }
    }
}

#[test]
fn a_client_that_closes_after_it_sends_no_more_is_not_answered() {
    let (stage, gate, drafts) = gated();
    stage.chat(SUM, json!({}));
    let whole = drafts.swap(0, Ordering::SeqCst);
    assert!(whole >= 9, "three rounds at least: {whole}");
    gate.shut();
    let client = send(&stage, "1.1", "", &asked(SUM, json!({})));
    client.shutdown(Shutdown::Write).unwrap();
    stage.until("it is answered", |(busy, _)| busy);
    let waits = send(&stage, "1.1", "", &asked(SUM, json!({})));
    waits.shutdown(Shutdown::Write).unwrap();
    stage.until("another waits", |(_, waiting)| waiting == 1);
    drop(waits);
    stage.until("nobody waits", |(_, waiting)| waiting == 0);
    drop(client);
    std::thread::sleep(Duration::from_secs(3));
    gate.open();
    stage.until("the members are free", |(busy, _)| !busy);
    let made = drafts.load(Ordering::SeqCst);
    assert!(made <= 6, "{made} drafts of {whole}");
}

#[test]
fn a_body_that_breaks_off_is_refused() {
    let stage = Stage::new();
    let mut client = TcpStream::connect(stage.address).unwrap();
    let head = "POST /v1/completions HTTP/1.1\r\ncontent-type: application/json\r\n\
         content-length: 100\r\n\r\n{";
    client.write_all(head.as_bytes()).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let text = rest(client);
    assert!(text.starts_with("HTTP/1.1 400 "), "{text}");
    assert!(text.contains("unreadable_body"), "{text}");
}

#[test]
fn a_request_may_have_many_headers() {
    let stage = Stage::new();
    let lines = |count: usize| {
        let lines = (0..count).map(|number| format!("x-header-{number}: {number}\r\n"));
        lines.collect::<String>() + "connection: close\r\n"
    };
    let body = asked(SUM, json!({}));
    for count in [101, 900] {
        let text = rest(send(&stage, "1.1", &lines(count), &body));
        assert!(text.starts_with("HTTP/1.1 200 OK"), "{count}: {text}");
    }
    let text = rest(send(&stage, "1.1", &lines(1001), &body));
    assert!(text.starts_with("HTTP/1.1 431 "), "{text}");
}

#[test]
fn a_request_that_is_too_large_is_told_so_once_it_is_sent() {
    let stage = Stage::new();
    let body = asked(&"x".repeat(8 << 20), json!({}));
    let text = rest(send(&stage, "1.1", "", &body));
    assert!(text.starts_with("HTTP/1.1 413 "), "{text}");
    assert!(text.contains("request_too_large"), "{text}");
}
