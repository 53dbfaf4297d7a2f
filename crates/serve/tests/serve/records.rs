//! A log line and the counts of each request: what was asked, how it ended, and who left.

use std::io::Write;
use std::sync::{Arc, Mutex};

use crate::stage::{SUM, Stage, Streaming, agent, asked, bundled, config};
use conclave_ensemble::Settings;
use conclave_rounds::AnyMember;
use conclave_serve::Config;
use serde_json::{Value, json};

use crate::speaker::Speaker;

/// Lines logged so far.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn all(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

/// Ada, and a model whose context is full soon.
fn members() -> Vec<AnyMember> {
    let short = Speaker {
        words: &["<|end|>", "<|user|>", "<|answer|>", " la"],
        says: &[&["<|answer|>", " la", "<|end|>"]],
        template: Some(
            "{% for m in messages %}<|user|>{{ m.content }}<|end|>{% endfor %}<|answer|>",
        ),
        context: 64,
        broken: None,
        beyond: 0,
        letters_beyond: 0,
    };
    let ada = bundled().remove(0);
    vec![ada.into(), short.load(64).unwrap().into()]
}

/// The value of a count by its name and labels.
fn count(metrics: &str, name: &str) -> Option<f64> {
    let line = metrics.lines().find(|line| line.starts_with(name))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[test]
fn each_request_is_a_line_and_is_counted_once_it_is_over() {
    let stage = Stage::alone(config(), Settings::default(), members);
    let lines = Lines::default();
    let writer = lines.clone();
    tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .init();
    let question = "What is 347 + 85? ".repeat(8);
    let options = json!({ "max_tokens": 8 });
    let answer = stage.chat(&question, options.clone());
    assert!(answer["conclave"]["left"].is_array(), "{answer}");
    stage.stream("/v1/chat/completions", &asked(SUM, options));
    stage.post("/v1/chat/completions", &json!({ "messages": 5 }));
    stage.get("/v1/models");
    stage.get("/v1/models/Ada");
    stage.get("/nowhere?secret=1");
    let (status, metrics) = stage.get("/metrics");
    let metrics = metrics.as_str().unwrap().to_owned();
    assert_eq!(status, 200, "{metrics}");
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
    for (name, wanted) in [
        (
            r#"conclave_requests_total{route="/v1/chat/completions",status="200"}"#,
            2.0,
        ),
        (
            r#"conclave_requests_total{route="/v1/chat/completions",status="400"}"#,
            1.0,
        ),
        (
            r#"conclave_requests_total{route="/v1/models",status="200"}"#,
            1.0,
        ),
        (
            r#"conclave_requests_total{route="/v1/models/{name}",status="200"}"#,
            1.0,
        ),
        (
            r#"conclave_requests_total{route="other",status="404"}"#,
            1.0,
        ),
        (
            r#"conclave_request_seconds_count{route="/v1/chat/completions"}"#,
            3.0,
        ),
        (
            r#"conclave_members_lost_total{member="speaker",how="left"}"#,
            1.0,
        ),
        ("conclave_waiting", 0.0),
        ("conclave_busy", 0.0),
    ] {
        assert_eq!(count(&metrics, name), Some(wanted), "{name}: {metrics}");
    }
    let prompt = count(&metrics, r#"conclave_tokens_total{kind="prompt"}"#).unwrap();
    let said = answer["usage"]["prompt_tokens"].as_f64().unwrap();
    assert!(prompt > said, "{metrics}");
    let logged = lines.all();
    assert_eq!(logged.len(), 6, "{logged:#?}");
    let line = &logged[0];
    for part in [
        "INFO",
        "request method=POST path=/v1/chat/completions status=200 seconds=",
        &format!("prompt_tokens={said} answer_tokens="),
        "missing=\"speaker left: ",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(
        logged[1].contains("answer_tokens=") && !logged[1].contains("left"),
        "{logged:#?}"
    );
    assert!(
        logged[2].contains("status=400") && !logged[2].contains("tokens"),
        "{logged:#?}"
    );
    let reason = "error=\"`messages` have to be a list of at least one message.\"";
    assert!(logged[2].contains(reason), "{logged:#?}");
    assert!(
        logged[5].contains("path=/nowhere status=404"),
        "{logged:#?}"
    );
    for more in 1..=100 {
        stage.stream(
            "/v1/chat/completions",
            &asked(SUM, json!({ "max_tokens": 1 })),
        );
        assert_eq!(stage.health(), (false, 0));
        assert_eq!(lines.all().len(), 6 + more);
    }
    let said = |role: &str, content: Value| json!({ "role": role, "content": content });
    for (options, reason) in [
        (json!({ "made_up": "hidden" }), "can't honour `made_up`"),
        (json!({ "model": "hidden" }), "There is no model `…`"),
        (
            json!({ "temperature": "hidden" }),
            "`temperature` has to be",
        ),
        (
            json!({ "messages": [said("hidden", json!("x"))] }),
            "no role `…` as of `messages[0]`",
        ),
        (
            json!({ "messages": [said("user", json!([{ "type": "hidden" }]))] }),
            "`messages[0].content[0]` is of type `…`",
        ),
        (
            json!({ "tools": [{ "type": "hidden" }] }),
            "`tools[0]` is of type `…`",
        ),
        (
            json!({ "tools": [{ "type": "function", "name": "hidden", "parameters": 5 }] }),
            "The `parameters` of `…` have to be a schema",
        ),
        (
            json!({ "tools": [{ "type": "function", "name": "add" }],
                "tool_choice": { "type": "function", "name": "hidden" } }),
            "`tool_choice` names `…`",
        ),
        (
            json!({ "tools": [{ "type": "function", "name": "hidden", "strict": true,
                "parameters": { "type": "object", "not": {} } }] }),
            "the parameters of `…`",
        ),
    ] {
        let (status, told) = stage.post("/v1/chat/completions", &asked(SUM, options.clone()));
        assert!(status == 400 || status == 404, "{told}");
        let logged = lines.all();
        let line = logged.last().unwrap();
        assert!(line.contains(reason), "{options}: {line}");
        // The line's time of day may hold any digits.
        let secret = line.contains("hidden") || line.contains("347 + 85");
        assert!(!secret, "{line}");
    }
    // An answer may be over before its client is gone.
    let hung_up = |_| {
        let body = asked("Tell me a short story about a fox.", json!({}));
        let mut stream = Streaming::begin(&agent(), &stage.url("/v1/chat/completions"), &body);
        stream.next().unwrap();
        drop(stream);
        stage.until("the members are free", |(busy, _)| !busy);
        lines
            .all()
            .last()
            .unwrap()
            .contains("error=\"The client hung up.\"")
    };
    assert!((0..20).any(hung_up), "{:#?}", lines.all().last());
}

#[test]
fn counts_are_for_those_with_the_key() {
    let keyed = Config {
        key: Some("the-key-of-the-tests".to_owned()),
        ..config()
    };
    let stage = Stage::with_members(keyed, Settings::default(), members);
    assert_eq!(stage.get("/metrics").0, 401);
    assert_eq!(stage.get("/health").0, 200);
}
