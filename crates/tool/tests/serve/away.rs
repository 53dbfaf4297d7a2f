//! Members that can't do what is asked when the server starts, or are not there yet: each costs
//! itself alone, and is named.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{KEY, Served, bundled, refused};

/// An answer of the ensemble.
fn answer(served: &Served) -> Value {
    let (status, told) = served.ask(false);
    assert_eq!(status, 200, "{told}");
    serde_json::from_str(&told).unwrap()
}

/// The members that left an answer, as `name: error`.
fn left(answer: &Value) -> Vec<String> {
    let left = answer["conclave"]["left"].as_array().into_iter().flatten();
    left.map(|one| {
        let text = |field: &str| one[field].as_str().unwrap().to_owned();
        format!("{}: {}", text("member"), text("error"))
    })
    .collect()
}

/// A port where no server listens.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[test]
fn a_server_that_is_down_costs_its_member_alone_until_it_is_up() {
    let port = free_port().to_string();
    let away = format!("http://127.0.0.1:{port}/v1#quill");
    let members = format!("{away},{}", bundled("ada"));
    let served = Served::new(&["--members", &members], &[]);
    let without = left(&answer(&served));
    assert_eq!(without.len(), 1, "{without:?}");
    assert!(
        without[0].starts_with("quill: ") && without[0].contains("can't be asked just now"),
        "{without:?}"
    );
    assert!(served.send("GET /v1/models", "").1.contains("quill"));
    // Asked alone it is the reason of the refusal.
    let body = json!({ "model": "quill", "messages": [{ "role": "user", "content": "Well?" }] });
    let (status, told) = served.send("POST /v1/chat/completions", &body.to_string());
    assert!(
        status == 503 && told.contains("can't be asked just now"),
        "{status} {told}"
    );
    let _late = Served::new(&["--port", &port, "--members", &bundled("quill")], &[]);
    let begun = Instant::now();
    let with = loop {
        let answer = answer(&served);
        if left(&answer).is_empty() {
            break answer;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{answer}");
        std::thread::sleep(Duration::from_millis(100));
    };
    let votes = &with["conclave"]["segments"][0]["votes"];
    assert!(votes.get("quill").is_some(), "{with}");
    let (status, told) = served.send("POST /v1/chat/completions", &body.to_string());
    assert_eq!(status, 200, "{told}");
    // Alone it ends the tool, which names it.
    let port = free_port();
    let told = refused(&["--members", &format!("http://127.0.0.1:{port}/v1#away")]);
    assert!(told.contains("can't be asked just now"), "{told}");
}

#[test]
fn a_server_that_refuses_or_cannot_judge_costs_its_member_alone() {
    let keyed = Served::new(&["--key", KEY], &[]);
    let judge = chatty();
    let members = format!(
        "{},http://{}/v1#Ada,http://{judge}/v1#critic",
        bundled("ada"),
        keyed.address
    );
    let served = Served::new(&["--members", &members], &[]);
    let told = left(&answer(&served));
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[0].starts_with("Ada: ") && told[0].contains("asks for a key"),
        "{told:?}"
    );
    assert!(
        told[1].starts_with("critic: ") && told[1].contains("names no letter"),
        "{told:?}"
    );
    let told = refused(&["--members", &format!("http://{judge}/v1#critic")]);
    assert!(told.contains("names no letter"), "{told}");
}

#[test]
fn a_model_that_cannot_be_loaded_costs_its_member_alone() {
    let folder = std::env::temp_dir();
    let file = folder.join(format!("conclave-{}-broken.gguf", std::process::id()));
    std::fs::write(&file, b"GGUF of another age, it seems").unwrap();
    let log = file.with_extension("log");
    let members = format!("{},{}", file.display(), bundled("ada"));
    let lines = std::fs::File::create(&log).unwrap();
    let served = Served::logging(&["--members", &members], &[], Stdio::from(lines));
    answer(&served);
    let told = std::fs::read_to_string(&log).unwrap();
    let name = file.display().to_string();
    assert!(
        told.contains(&name) && told.contains("take part without it"),
        "{told}"
    );
    assert!(refused(&["--members", &name]).contains(&name));
    std::fs::remove_file(file).unwrap();
    std::fs::remove_file(log).unwrap();
}

/// Asks one model with status 400; returns the reason.
fn refusal(served: &Served, path: &str, body: &Value) -> String {
    let (status, told) = served.send(&format!("POST {path}"), &body.to_string());
    assert_eq!(status, 400, "{told}");
    told
}

#[test]
fn a_member_that_cannot_take_part_says_why_when_it_is_asked_alone() {
    let keyed = Served::new(&["--key", KEY], &[]);
    let judge = chatty();
    let members = format!(
        "{},http://{}/v1#keyed,http://{judge}/v1#critic,http://{judge}/v1#another",
        bundled("ada"),
        keyed.address
    );
    let served = Served::new(&["--members", &members], &[]);
    for (model, why) in [
        ("keyed", "asks for a key"),
        ("critic", "names no letter"),
        ("another", "has other models"),
    ] {
        let chat = json!({ "model": model,
            "messages": [{ "role": "user", "content": "Well?" }] });
        let text = json!({ "model": model, "prompt": "Well?" });
        for (path, body) in [
            ("/v1/chat/completions", &chat),
            (
                "/apply-template",
                &json!({ "model": model, "messages": chat["messages"] }),
            ),
            ("/v1/completions", &text),
        ] {
            let told = refusal(&served, path, body);
            assert!(told.contains(why), "{path}: {told}");
        }
    }
}

#[test]
fn embeddings_are_of_models_that_run_here() {
    let port = free_port();
    let inner = Served::new(&["--members", &bundled("quill")], &[]);
    let members = format!(
        "{},http://{}/v1#quill,http://127.0.0.1:{port}/v1#away",
        bundled("ada"),
        inner.address
    );
    let served = Served::new(&["--members", &members], &[]);
    let told = refusal(
        &served,
        "/v1/embeddings",
        &json!({ "model": "quill", "input": "Well?" }),
    );
    assert!(
        told.contains("a model that runs here") && !told.contains("the ensemble"),
        "{told}"
    );
    let body = json!({ "model": "away", "input": "Well?" }).to_string();
    let (status, told) = served.send("POST /v1/embeddings", &body);
    assert!(
        status == 503 && told.contains("can't be asked just now"),
        "{status} {told}"
    );
}

#[test]
fn members_have_one_name_at_the_start_and_in_requests() {
    let port = free_port();
    let log = std::env::temp_dir().join(format!("conclave-{}-names.log", std::process::id()));
    let lines = std::fs::File::create(&log).unwrap();
    let members = format!(
        "{0},{0},http://127.0.0.1:{port}/v1#conclave",
        bundled("ada")
    );
    let served = Served::logging(&["--members", &members], &[], Stdio::from(lines));
    let (_, models) = served.send("GET /v1/models", "");
    let models: Value = serde_json::from_str(&models).unwrap();
    let named: Vec<&str> = models["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].as_str().unwrap())
        .collect();
    assert_eq!(named, ["conclave", "ada", "ada-2", "conclave-2"]);
    let told = left(&answer(&served));
    assert!(told[0].starts_with("conclave-2: "), "{told:?}");
    let body = json!({ "model": "conclave-2",
        "messages": [{ "role": "user", "content": "Well?" }] });
    let (status, told) = served.send("POST /v1/chat/completions", &body.to_string());
    assert!(
        status == 503 && told.contains("\"conclave-2: "),
        "{status} {told}"
    );
    let long = json!({ "model": "ada-2", "prompt": "The fox. ".repeat(1000) });
    let told = refusal(&served, "/v1/completions", &long);
    assert!(told.contains("\"ada-2: "), "{told}");
    let told = std::fs::read_to_string(&log).unwrap();
    assert!(told.contains("ada, ada-2, conclave-2 on "), "{told}");
    assert!(!told.contains("conclave: "), "{told}");
    std::fs::remove_file(log).unwrap();
}

#[test]
fn half_a_surrogate_in_a_members_answer_costs_one_character() {
    let template = std::env::temp_dir().join(format!("conclave-{}.jinja", std::process::id()));
    std::fs::write(&template, "{{ messages[0].content }}").unwrap();
    let far = stand_in(&[
        ("/v1/models", r#"{"data": [{"id": "writer"}]}"#),
        (
            "/v1/completions",
            r#"{"choices": [{"text": "I \ud83d see.", "finish_reason": "stop"}]}"#,
        ),
    ]);
    let members = format!("{},http://{far}/v1#writer", bundled("ada"));
    let file = template.display().to_string();
    let served = Served::new(&["--members", &members, "--template", &file], &[]);
    for stream in [false, true] {
        let body = json!({ "model": "writer", "stream": stream,
            "messages": [{ "role": "user", "content": "Well?" }] });
        let (status, told) = served.send("POST /v1/chat/completions", &body.to_string());
        assert_eq!(status, 200, "{told}");
        assert!(told.contains("I \u{fffd} see."), "{told}");
    }
    // And among others, whose members read it.
    answer(&served);
    std::fs::remove_file(template).unwrap();
}

/// Address of a server whose model chats, and names no letter.
fn chatty() -> String {
    stand_in(&[
        ("/v1/models", r#"{"data": [{"id": "critic"}]}"#),
        (
            "/v1/chat/completions",
            r#"{"choices": [{"message": {"content": "I like neither."}}]}"#,
        ),
    ])
}

/// Address of a server with these answers, by path.
fn stand_in(answers: &'static [(&str, &str)]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            let mut reader = BufReader::new(connection.try_clone().unwrap());
            let (mut first, mut line, mut length) = (String::new(), String::new(), 0);
            // The client may have gone.
            let _ = reader.read_line(&mut first);
            while reader.read_line(&mut line).is_ok_and(|bytes| bytes > 2) {
                let lower = line.to_ascii_lowercase();
                if let Some(value) = lower.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let _ = reader.read_exact(&mut vec![0; length]);
            let path = first.split_whitespace().nth(1).unwrap_or_default();
            let known = answers.iter().find(|(one, _)| *one == path);
            let (status, body) = known.map_or((404, "{}"), |(_, body)| (200, *body));
            let _ = write!(
                connection,
                "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n\
                 Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    address
}
