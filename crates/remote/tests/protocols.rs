//! Protocols of servers that the tests don't start: replayed exchanges, written from the
//! documentation and source of vLLM (`tests/remote/vllm.json`) and llama-cpp-python
//! (`tests/remote/echo.json`). They check requests and parsing; no such server was run.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use conclave_ensemble::Candidate;
use conclave_remote::{
    Abilities, Address, ChatMessage, Drawing, Options, Remote, Server, Template,
};
use serde_json::Value;

/// Received requests: path and body.
type Asked = Arc<Mutex<Vec<(String, Value)>>>;

/// Answers with a file's exchanges, 404 for others. Returns the address.
fn replay(exchanges: &str) -> (String, Asked) {
    let exchanges: Vec<Value> = serde_json::from_str(exchanges).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let asked = Asked::default();
    let heard = Arc::clone(&asked);
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            // The client may have disconnected.
            let _ = serve(connection, &exchanges, &heard);
        }
    });
    (url, asked)
}

fn serve(mut connection: TcpStream, exchanges: &[Value], asked: &Asked) -> std::io::Result<()> {
    let mut reader = BufReader::new(connection.try_clone()?);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let path = first
        .split_whitespace()
        .nth(1)
        .unwrap_or_default()
        .to_owned();
    let fits = |exchange: &&Value| {
        let wanted = exchange.get("body").and_then(Value::as_object);
        let mut wanted = wanted.into_iter().flatten();
        exchange["path"] == path.as_str()
            && wanted.all(|(name, value)| body.get(name) == Some(value))
    };
    let (status, answer) = match exchanges.iter().find(fits) {
        Some(exchange) => (
            exchange["status"].as_u64().unwrap_or(200),
            exchange["answer"].to_string(),
        ),
        None => (404, r#"{"detail": "Not Found"}"#.to_owned()),
    };
    asked.lock().unwrap().push((path, body));
    let length = answer.len();
    write!(
        connection,
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{answer}"
    )
}

fn connect(url: &str, template: Option<&str>) -> Server {
    let options = Options {
        template: template.map(|source| Template::new(source).unwrap()),
        patience: Duration::from_secs(30),
        ..Options::default()
    };
    Server::connect(Address::read(url).unwrap(), options).unwrap()
}

fn asks(content: &str) -> Vec<ChatMessage> {
    vec![ChatMessage {
        role: "user".to_owned(),
        content: content.to_owned(),
    }]
}

fn candidate(text: &str, ended: bool) -> Candidate {
    Candidate {
        text: text.to_owned(),
        ended,
    }
}

#[test]
fn vllm_drafts_and_scores_all_candidates_in_one_request() {
    let (url, asked) = replay(include_str!("../../../tests/remote/vllm.json"));
    let server = connect(&format!("{url}#org/model"), None);
    assert_eq!(server.abilities(), Abilities::DraftsAndScores);
    let mut member = Remote::new("far", server);
    member.begin(asks("What is 2 + 2?"), Drawing::greedy());
    let drafted = futures(member.draft(8)).unwrap();
    assert_eq!(
        (drafted.text.as_str(), drafted.ended, drafted.tokens),
        // The server counts the token that ends the answer.
        ("It is four.", true, 3)
    );
    asked.lock().unwrap().clear();
    let candidates = [candidate("It is four.", true), candidate("Five", false)];
    let row = futures(member.verify(&candidates, true)).unwrap();
    // Its three tokens and the end of the turn, in any order of choices.
    assert_eq!(row[0].score.mean_logprob, Some(-0.5));
    assert_eq!(row[1].score.mean_logprob, Some(-4.5));
    assert_eq!((row[0].tokens, row[1].tokens), (3, 1));
    assert_eq!(row[0].score.mean_logit, None);
    let asked = asked.lock().unwrap();
    let passes = asked.iter().filter(|(path, _)| path == "/v1/completions");
    assert_eq!(passes.count(), 1, "{asked:?}");
}

#[test]
fn a_server_that_takes_no_lists_is_asked_a_candidate_at_a_time() {
    let template = "{% for m in messages %}Q: {{ m.content }}\n\
        {% endfor %}{% if add_generation_prompt %}A:{% endif %}";
    let (url, _) = replay(include_str!("../../../tests/remote/echo.json"));
    let server = connect(&url, Some(template));
    assert_eq!(server.abilities(), Abilities::DraftsAndScores);
    let mut member = Remote::new("far", server);
    member.begin(asks("Größe?"), Drawing::greedy());
    let drafted = futures(member.draft(8)).unwrap();
    // The last character was incomplete.
    assert_eq!((drafted.text.as_str(), drafted.ended), (" 42 m² ", false));
    let row = futures(member.verify(&[candidate(" 42 m²", false)], true)).unwrap();
    // Offsets count characters, not bytes.
    assert_eq!(row[0].score.mean_logprob, Some(-0.75));
}

/// llama.cpp's server with a base model: without a template it uses ChatML, whose end of turn is no
/// token of the model. As observed, it is tokenised into six.
const LLAMA: &str = r#"[
    {"path": "/v1/models", "answer": {"data": [{"id": "base", "owned_by": "llamacpp"}]}},
    {"path": "/apply-template", "answer": {"prompt": "<|im_start|>user\nWell?<|im_end|>\n<|im_start|>assistant\nYes.<|im_end|>\n<|im_start|>user\nThen?<|im_end|>\n<|im_start|>assistant\n"}},
    {"path": "/tokenize", "body": {"content": "<|im_end|>"}, "answer": {"tokens": [60, 124, 105, 109, 95, 62]}},
    {"path": "/tokenize", "body": {"with_pieces": true}, "answer": {"tokens": [{"id": 9, "piece": "No"}]}},
    {"path": "/tokenize", "answer": {"tokens": [5, 6]}},
    {"path": "/v1/completions", "body": {"grammar": "root ::= <[9]>", "max_tokens": 1},
     "answer": {"choices": [{"text": "No", "logprobs": {"content": [{"id": 9, "logprob": -1.5}]}}]}},
    {"path": "/v1/completions", "body": {"max_tokens": 1}, "answer": {"choices": [{"text": " W"}]}},
    {"path": "/v1/completions", "body": {"max_tokens": 2}, "answer": {"choices": [{"text": "LONG"}]}},
    {"path": "/v1/completions", "body": {"max_tokens": 3}, "status": 307, "answer": {}}
]"#;

#[test]
fn what_closes_no_turn_of_a_model_is_not_scored() {
    let (url, _) = replay(LLAMA);
    let mut member = Remote::new("far", connect(&url, None));
    assert_eq!(member.server().abilities(), Abilities::DraftsAndScores);
    member.begin(asks("Well?"), Drawing::greedy());
    let row = futures(member.verify(&[candidate("No", true)], true)).unwrap();
    assert_eq!(row[0].score.mean_logprob, Some(-1.5));
}

#[test]
fn a_draft_longer_than_was_asked_for_is_none() {
    let (url, _) = replay(&LLAMA.replace("LONG", &" word".repeat(1000)));
    let mut member = Remote::new("far", connect(&url, None));
    member.begin(asks("Well?"), Drawing::greedy());
    let error = futures(member.draft(2)).unwrap_err();
    assert!(!error.passes() && error.to_string().contains("more tokens"));
}

#[test]
fn who_is_sent_elsewhere_is_told_so() {
    let (url, asked) = replay(LLAMA);
    let mut member = Remote::new("far", connect(&url, None));
    member.begin(asks("Well?"), Drawing::greedy());
    asked.lock().unwrap().clear();
    let error = futures(member.draft(3)).unwrap_err();
    assert!(error.to_string().contains("sends elsewhere"), "{error}");
}

#[test]
fn one_that_names_no_letter_can_not_judge() {
    let chats = |said: &str| {
        let exchanges = r#"[
            {"path": "/v1/models", "answer": {"data": [{"id": "m"}]}},
            {"path": "/v1/chat/completions", "answer": {"choices": [{"message": {"content": "SAID"}}]}}
        ]"#;
        let (url, _) = replay(&exchanges.replace("SAID", said));
        Server::connect(Address::read(&url).unwrap(), Options::default())
    };
    assert_eq!(chats("A.").unwrap().abilities(), Abilities::JudgesOnly);
    let error = chats("I like neither.").unwrap_err().to_string();
    assert!(error.contains("names no letter"), "{error}");
}

/// Bodies of the requests by which a server of these exchanges, which only judges, judges two
/// candidates, without those of connecting to it.
fn judging(exchanges: &str) -> Vec<Value> {
    let (url, asked) = replay(exchanges);
    let mut member = Remote::new("far", connect(&url, None));
    assert_eq!(member.server().abilities(), Abilities::JudgesOnly);
    member.begin(asks("Well?"), Drawing::greedy());
    asked.lock().unwrap().clear();
    let both = [candidate("Yes", true), candidate("No", true)];
    assert_eq!(futures(member.verify(&both, true)).unwrap().len(), 2);
    let bodies = std::mem::take(&mut *asked.lock().unwrap());
    assert!(!bodies.is_empty());
    bodies.into_iter().map(|(_, body)| body).collect()
}

#[test]
fn the_limit_has_the_name_that_a_server_knows() {
    let bodies = judging(
        r#"[
            {"path": "/v1/models", "answer": {"data": [{"id": "m"}]}},
            {"path": "/v1/chat/completions", "body": {"max_completion_tokens": 4096},
             "answer": {"choices": [{"message": {"content": "A"}}]}},
            {"path": "/v1/chat/completions", "status": 400,
             "answer": {"error": {"message": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'."}}}
        ]"#,
    );
    // The parameter found at connection is not tried again.
    assert!(bodies.iter().all(|body| body.get("max_tokens").is_none()));
}

#[test]
fn a_server_with_one_temperature_judges_at_it() {
    let bodies = judging(
        r#"[
            {"path": "/v1/models", "answer": {"data": [{"id": "m"}]}},
            {"path": "/v1/chat/completions", "body": {"max_completion_tokens": 4096, "temperature": 0}, "status": 400,
             "answer": {"error": {"message": "Unsupported value: 'temperature' does not support 0 with this model."}}},
            {"path": "/v1/chat/completions", "body": {"max_completion_tokens": 4096},
             "answer": {"choices": [{"message": {"content": "A"}}]}},
            {"path": "/v1/chat/completions", "status": 400,
             "answer": {"error": {"message": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'."}}}
        ]"#,
    );
    assert!(bodies.iter().all(|body| body.get("temperature").is_none()));
}

/// A judge that thinks: within 16 tokens it comes to no letter.
const THINKS: &str = r#"[
    {"path": "/v1/models", "answer": {"data": [{"id": "m"}]}},
    {"path": "/v1/chat/completions", "body": {"max_tokens": 16},
     "answer": {"choices": [{"message": {"content": "<think>\nWell, A", "reasoning": "A"},
                             "finish_reason": "length"}]}},
    {"path": "/v1/chat/completions", "body": {"max_tokens": 4096},
     "answer": {"choices": [{"message": {"content": "SAID"}, "finish_reason": "REASON"}]}}
]"#;

#[test]
fn a_judge_that_thinks_first_has_room_to_do_so() {
    let bodies = judging(&THINKS.replace("SAID", "<think>Well, A?</think>B"));
    // Found at connection.
    assert_eq!(bodies.len(), 2);
    assert!(bodies.iter().all(|body| body["max_tokens"] == 4096));
    let rambles = r#"[
        {"path": "/v1/models", "answer": {"data": [{"id": "m"}]}},
        {"path": "/v1/chat/completions",
         "answer": {"choices": [{"message": {"content": "Well, this"}, "finish_reason": "length"}]}}
    ]"#;
    let (url, asked) = replay(rambles);
    let refused = Server::connect(Address::read(&url).unwrap(), Options::default());
    assert!(refused.unwrap_err().to_string().contains("names no letter"));
    let asked = asked.lock().unwrap();
    let mut limits = asked.iter().map(|(_, body)| &body["max_tokens"]);
    assert!(
        limits.all(|limit| limit.as_u64().unwrap_or(0) <= 16),
        "one that does not think is asked for no more"
    );
}

#[test]
fn a_judge_without_a_verdict_abstains_with_the_reason_and_then_leaves() {
    for (said, ends, word) in [
        ("<think>Well,", "length", "thoughts took its whole reply"),
        ("", "stop", "its reply is empty"),
        ("Neither of them.", "stop", "names no letter"),
    ] {
        // Asked for a fruit it thinks of a letter, but of none for these candidates.
        let exchanges = THINKS.replace("SAID", said).replace("REASON", ends);
        let fruit = r#"[
            {"path": "/v1/chat/completions", "body": {"messages": [{"role": "user",
             "content": "Which is a fruit?\n\nA: an apple\nB: a stone\n\nReply with A or B and nothing else."}]},
             "answer": {"choices": [{"message": {"content": "A"}}]}},"#;
        let (url, _) = replay(&exchanges.replacen('[', fruit, 1));
        let mut member = Remote::new("far", connect(&url, None));
        member.begin(asks("Well?"), Drawing::greedy());
        let both = [candidate("Yes", true), candidate("No", true)];
        for round in 1..=3 {
            let error = futures(member.verify(&both, true)).unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
            assert!(error.to_string().contains("127.0.0.1"), "{error}");
            assert_eq!(error.passes(), round < 3, "{error}");
            member.keep(0);
        }
    }
}

/// Waits for a move, which runs on its own thread.
fn futures<T>(work: impl Future<Output = T>) -> T {
    use std::task::{Context, Poll, Waker};
    let mut work = std::pin::pin!(work);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(outcome) = work.as_mut().poll(&mut context) {
            return outcome;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
