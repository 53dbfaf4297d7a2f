//! A server as another's member: its scores, streams and clients.

use super::*;

/// Answer of `conclave chat` with these members, as JSON.
fn chat(members: &str, question: &str) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_conclave"))
        .args(["chat", question, "--members", members, "--json"])
        .args(["--device", "cpu", "--greedy", "--patience", "60"])
        .output()
        .expect("the tool starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn an_ensemble_is_a_member_of_another_that_drafts_and_scores() {
    let inner = Served::new(&[], &[]);
    for name in ["#conclave", ""] {
        let members = format!("{},http://{}/v1{name}", bundled("juno"), inner.address);
        let said = chat(&members, "What is 347 + 85?");
        assert_eq!(said["members"], json!(["juno", "conclave"]));
        assert_eq!(said["servers"][1]["can"], "drafts and scores");
        assert!(said["left"].as_array().unwrap().is_empty(), "{said}");
        // The only member that can add is one of the remote server's.
        let answer = said["answer"].as_str().unwrap();
        assert!(answer.contains("432"), "{answer}");
        for round in said["rounds"].as_array().unwrap() {
            assert_eq!(round["drafters"], json!([0, 1]));
            assert!(round.get("abstained").is_none(), "{round}");
            let row = round["scores"][1].as_array().unwrap();
            assert_eq!(row.len(), 2);
            assert!(
                row.iter()
                    .all(|score| score["harmonic"].as_f64().unwrap() < 0.0)
            );
        }
    }
}

#[test]
fn the_same_member_here_and_in_a_served_ensemble_scores_and_answers_the_same() {
    let inner = Served::new(&[], &[]);
    for (name, question) in [
        ("Ada", "What is 347 + 85?"),
        ("Quill", "Sort these words: pear, apple, fig."),
    ] {
        let here = bundled(&name.to_lowercase());
        let there = format!("http://{}/v1#{name}", inner.address);
        let alone = chat(&here, question);
        assert_eq!(chat(&there, question)["answer"], alone["answer"]);
        let both = chat(&format!("{here},{there}"), question);
        assert_eq!(both["answer"], alone["answer"]);
        for round in both["rounds"].as_array().unwrap() {
            for place in 0..2 {
                let score = |member: usize, name: &str| {
                    round["scores"][member][place][name].as_f64().unwrap()
                };
                for kind in ["meanLogprob", "harmonic"] {
                    let (near, far) = (score(0, kind), score(1, kind));
                    assert!((near - far).abs() < 2e-3, "{kind}: {near} {far} in {round}");
                }
            }
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_served_ensemble_with_another_in_it_streams_and_tells_who_wrote_what() {
    let inner = Served::new(&[], &[]);
    let members = format!("{},http://{}/v1#conclave", bundled("juno"), inner.address);
    let outer = Served::new(&["--members", &members, "--patience", "60"], &[]);
    let (status, models) = outer.send("GET /v1/models", "");
    assert_eq!(status, 200);
    assert!(models.contains("juno"), "{models}");
    let body = json!({
        "messages": [{ "role": "user", "content": "What is 347 + 85?" }],
        "temperature": 0, "stream": true, "stream_options": { "include_usage": true },
    });
    let (status, streamed) = outer.send("POST /v1/chat/completions", &body.to_string());
    assert_eq!(status, 200, "{streamed}");
    assert!(joined(&streamed).contains("432"), "{streamed}");
    let chunks: Vec<Value> = streamed
        .lines()
        .filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok())
        .collect();
    let written: Vec<&Value> = chunks
        .iter()
        .map(|chunk| &chunk["conclave"])
        .filter(|segment| segment.is_object())
        .collect();
    let wrote = |name: &str| {
        let by = |segment: &&&Value| {
            segment["writers"]
                .as_array()
                .unwrap()
                .contains(&json!(name))
        };
        written.iter().filter(by).count()
    };
    // `conclave` is the outer one.
    assert!(wrote("conclave-2") > 0, "{written:?}");
    assert!(written.iter().all(|segment| {
        let votes = segment["votes"].as_object().unwrap();
        votes.is_empty() || votes.contains_key("juno") && votes.contains_key("conclave-2")
    }));
    let usage = &chunks.last().unwrap()["usage"];
    assert!(usage["completion_tokens"].as_u64().unwrap() > 0, "{usage}");
    assert!(usage["prompt_tokens"].as_u64().unwrap() > 0, "{usage}");
    // The same without streaming.
    let (status, whole) = outer.ask(false);
    assert_eq!(status, 200);
    assert_eq!(content(&whole), joined(&streamed));
}

#[test]
#[cfg(target_os = "linux")]
fn a_chain_answers_all_who_stay_and_holds_no_place_for_those_who_go() {
    let inner = Served::new(&[], &[]);
    let members = format!("http://{}/v1#conclave", inner.address);
    let outer = Served::new(&["--members", &members, "--patience", "60"], &[]);
    let wanted = content(&inner.ask(false).1);
    assert!(wanted.contains("432"), "{wanted}");
    std::thread::scope(|scope| {
        for client in 0..12 {
            let (outer, wanted) = (&outer, &wanted);
            scope.spawn(move || match client % 3 {
                // In the head, and at various places of the stream.
                0 => outer.leave(100 * client),
                1 => assert_eq!(joined(&outer.ask(true).1), *wanted),
                _ => assert_eq!(content(&outer.ask(false).1), *wanted),
            });
        }
    });
    outer.idle();
    inner.idle();
    assert_eq!(content(&outer.ask(false).1), wanted);
}
