//! The protocol over a transport that a test scripts: retries and limits, without a network.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::Duration;

use conclave_ensemble::Candidate;
use conclave_remote::{
    Address, ChatMessage, Drawing, Failure, Key, Options, Remote, RemoteError, Request, Response,
    Server, Template, Transport,
};
use serde_json::{Value, json};

/// Answers completions by a script, then each prompt by an echo with a word a token.
#[derive(Default)]
struct Scripted {
    script: RefCell<VecDeque<Result<Response, Failure>>>,
    /// Paths of the requests.
    asked: RefCell<Vec<String>>,
    /// Waits between them.
    paused: RefCell<Vec<Duration>>,
    /// Requests under way, and their largest number.
    under_way: Cell<(usize, usize)>,
    /// Whether each request waits for others.
    yields: bool,
    llama: bool,
}

fn answer(status: u16, body: &Value) -> Response {
    Response {
        status,
        retry_after: None,
        body: body.to_string().into_bytes(),
    }
}

impl Scripted {
    fn then(&self, outcome: Result<Response, Failure>) {
        self.script.borrow_mut().push_back(outcome);
    }

    fn busy(&self, status: u16, after: Option<u64>) {
        let retry_after = after.map(Duration::from_secs);
        self.then(Ok(Response {
            retry_after,
            ..answer(status, &json!({}))
        }));
    }

    fn usual(&self, path: &str, body: &Value) -> Response {
        match path {
            "models" if self.llama => {
                answer(200, &json!({"data": [{"id": "m", "owned_by": "llamacpp"}]}))
            }
            "models" => answer(200, &json!({"data": [{"id": "m"}]})),
            "apply-template" if self.llama => {
                answer(200, &json!({"prompt": "Well?<s>Yes.<e>Then?<s>"}))
            }
            // Each text is one token, except "é", which is two half characters.
            "tokenize" if self.llama => {
                let text = body["content"].as_str().unwrap_or_default();
                let pieces = body["with_pieces"] == true;
                let ids: &[u32] = if text == "é" { &[7, 8] } else { &[5] };
                let token = |id: &u32| match pieces {
                    true if text == "é" => json!({"id": id, "piece": [195]}),
                    true => json!({"id": id, "piece": text}),
                    false => json!(id),
                };
                let tokens: Vec<Value> = ids.iter().map(token).collect();
                answer(200, &json!({"tokens": tokens}))
            }
            "completions" if self.llama => {
                let biased = body["logit_bias"][0][0].as_u64();
                let grammar = body["grammar"].as_str().unwrap_or_default();
                let id = biased.filter(|_| grammar.is_empty()).unwrap_or(5);
                let told =
                    json!({"content": [{"id": id, "logprob": -1.5}, {"id": 5, "logprob": -9}]});
                answer(200, &json!({"choices": [{"text": "x", "logprobs": told}]}))
            }
            "completions" => {
                let list = body["prompt"].as_array().cloned();
                let prompts = list.unwrap_or_else(|| vec![body["prompt"].clone()]);
                let choice = |(index, prompt): (usize, &Value)| {
                    let text = prompt.as_str().unwrap_or_default();
                    let mut tokens: Vec<&str> = text.split_inclusive(' ').collect();
                    tokens.push(" end");
                    let logprobs = vec![-0.5; tokens.len()];
                    let top: Vec<Value> = tokens.iter().map(|&one| json!({one: -0.5})).collect();
                    json!({"index": index, "text": " word", "logprobs": {"tokens": tokens,
                        "token_logprobs": logprobs, "top_logprobs": top}})
                };
                let choices: Vec<Value> = prompts.iter().enumerate().map(choice).collect();
                answer(200, &json!({"choices": choices}))
            }
            _ => answer(404, &json!({})),
        }
    }
}

impl Transport for Scripted {
    async fn send(&self, request: Request<'_>) -> Result<Response, Failure> {
        assert!(!request.url.contains("secret"));
        let path = request.url.rsplit_once('/').unwrap().1;
        self.asked.borrow_mut().push(path.to_owned());
        let (now, most) = self.under_way.get();
        self.under_way.set((now + 1, most.max(now + 1)));
        if self.yields {
            let mut again = true;
            std::future::poll_fn(|context| {
                context.waker().wake_by_ref();
                match std::mem::take(&mut again) {
                    true => std::task::Poll::Pending,
                    false => std::task::Poll::Ready(()),
                }
            })
            .await;
        }
        let (now, most) = self.under_way.get();
        self.under_way.set((now - 1, most));
        let body = request
            .body
            .map_or(Value::Null, |body| serde_json::from_str(body).unwrap());
        let next = match path {
            "completions" => self.script.borrow_mut().pop_front(),
            _ => None,
        };
        next.unwrap_or_else(|| Ok(self.usual(path, &body)))
    }

    async fn pause(&self, time: Duration) -> Result<(), Failure> {
        self.paused.borrow_mut().push(time);
        Ok(())
    }
}

/// A member whose server continues texts and echoes them, or is llama.cpp's; it has begun.
fn begun(scripted: &Scripted) -> Remote {
    let options = Options {
        key: Some(Key::new("secret").unwrap()),
        template: (!scripted.llama).then(|| Template::turns("{content} </s> ").unwrap()),
        ..Options::default()
    };
    let address = Address::read("http://localhost/v1").unwrap();
    let server = pollster::block_on(Server::connect_by(scripted, address, options)).unwrap();
    let mut member = Remote::new("far", server);
    let (role, content) = ("user".to_owned(), "Well?".to_owned());
    member.begin(vec![ChatMessage { role, content }], Drawing::greedy());
    scripted.asked.borrow_mut().clear();
    scripted.under_way.set((0, 0));
    member
}

fn candidate(text: &str, ended: bool) -> Candidate {
    Candidate {
        text: text.to_owned(),
        ended,
    }
}

#[test]
fn a_busy_server_is_asked_again_and_not_before_it_wishes() {
    let scripted = Scripted::default();
    let mut member = begun(&scripted);
    scripted.busy(503, None);
    scripted.busy(429, Some(3));
    scripted.then(Err(Failure::Passing("it broke".to_owned())));
    let drafted = pollster::block_on(member.draft_by(&scripted, 4)).unwrap();
    assert_eq!(drafted.text, " word");
    let waits: Vec<u128> = scripted
        .paused
        .take()
        .iter()
        .map(Duration::as_millis)
        .collect();
    assert_eq!(waits, [200, 3000, 800]);
    // Longer than a round waits.
    scripted.busy(429, Some(100));
    let error = pollster::block_on(member.draft_by(&scripted, 4)).unwrap_err();
    assert!(
        error.passes() && error.to_string().contains("429"),
        "{error}"
    );
    assert!(scripted.paused.take().is_empty());
}

#[test]
fn a_failure_is_for_a_round_or_for_good() {
    let scripted = Scripted::default();
    let mut member = begun(&scripted);
    let mut draft = |outcome| {
        scripted.then(outcome);
        pollster::block_on(member.draft_by(&scripted, 4)).unwrap_err()
    };
    let long = json!({"error": {"message": "the maximum context length is 9"}});
    for (outcome, kind) in [
        (Err(Failure::Stopped), "it was stopped"),
        (Err(Failure::TooLarge), "64 MiB"),
        (Ok(answer(400, &long)), "longer than localhost has room for"),
        (Ok(answer(400, &json!({"message": "no secret"}))), "no …"),
        (Ok(answer(302, &json!({}))), "sends elsewhere"),
        (Ok(answer(401, &json!({}))), "refuses the key"),
        (Ok(answer(200, &json!({"choices": []}))), "not one choice"),
        (
            Ok(answer(200, &json!({"error": {"message": "upstream died"}}))),
            "upstream died",
        ),
    ] {
        let error = draft(outcome);
        assert!(
            !error.passes() && error.to_string().contains(kind),
            "{error}"
        );
    }
    // The third missed round in a row is for good; the same round counts once.
    for round in 1..=3 {
        let error = draft(Err(Failure::Late));
        assert_eq!(
            matches!(error, RemoteError::Gone { .. }),
            round == 3,
            "{error}"
        );
    }
}

#[test]
fn a_draft_of_an_unknown_number_of_tokens_counts_as_many_as_it_may_have() {
    let scripted = Scripted::default();
    let mut member = begun(&scripted);
    let mut counts = |text: &str, usage: &Value| {
        let choice = json!({"text": text, "finish_reason": "length"});
        let body = json!({"choices": [choice], "usage": usage});
        scripted.then(Ok(answer(200, &body)));
        let drafted = pollster::block_on(member.draft_by(&scripted, 4)).unwrap();
        (drafted.tokens, drafted.prefix_tokens)
    };
    for unknown in [
        json!({"completion_tokens": 0}),
        json!({"completion_tokens": null}),
        json!({"completion_tokens": -1}),
        json!({"completion_tokens": "2", "prompt_tokens": null}),
        json!({"prompt_tokens": -1}),
        json!({}),
        json!([]),
        Value::Null,
    ] {
        assert_eq!(counts(" word", &unknown), (4, 0), "{unknown}");
        assert_eq!(counts("\u{fffd}", &unknown), (4, 0), "{unknown}");
    }
    let usage = json!({"completion_tokens": 3.0, "prompt_tokens": 7.0});
    assert_eq!(counts(" word", &usage), (3, 7));
    let usage = json!({"completion_tokens": 9, "prompt_tokens": 7});
    assert_eq!(counts(" word", &usage), (4, 7));
    assert_eq!(counts("", &json!({"completion_tokens": 0})), (0, 0));
}

#[test]
fn an_answer_of_more_values_than_were_asked_for_is_not_built() {
    let scripted = Scripted::default();
    let mut member = begun(&scripted);
    let mut draft = |more: &str| {
        let body = format!(r#"{{"choices": [{{"text": " word"}}], "more": [{more}0]}}"#);
        scripted.then(Ok(Response {
            body: body.into_bytes(),
            ..answer(200, &Value::Null)
        }));
        pollster::block_on(member.draft_by(&scripted, 4))
    };
    for (value, count) in [("0,", 1 << 20), ("{\"\":0},", 1 << 17)] {
        let error = draft(&value.repeat(count)).unwrap_err();
        assert!(error.to_string().contains("far more values"), "{error}");
        assert_eq!(draft(&value.repeat(count / 4)).unwrap().text, " word");
    }
    // Marks in a text are no values.
    let text = format!("\"{}\",", "{[,".repeat(1 << 20));
    assert_eq!(draft(&text).unwrap().text, " word");
}

#[test]
fn log_probabilities_after_a_long_prompt_are_what_was_asked_for() {
    let scripted = Scripted::default();
    let mut member = begun(&scripted);
    let (role, content) = ("user".to_owned(), "word ".repeat(32_000));
    member.begin(vec![ChatMessage { role, content }], Drawing::greedy());
    let texts = ["one ", "two ", "three ", "four "];
    let candidates = texts.map(|text| candidate(text, true));
    let row = pollster::block_on(member.verify_by(&scripted, &candidates, true)).unwrap();
    assert_eq!(row[3].score.mean_logprob, Some(-0.5));
}

#[test]
fn a_conversation_is_rendered_once_and_ahead_of_the_first_move() {
    let scripted = Scripted {
        llama: true,
        ..Scripted::default()
    };
    let mut member = begun(&scripted);
    pollster::block_on(member.read_by(&scripted));
    assert_eq!(scripted.asked.take(), ["apply-template", "tokenize"]);
    pollster::block_on(member.draft_by(&scripted, 4)).unwrap();
    let candidates = [candidate("one", false), candidate("two", false)];
    pollster::block_on(member.verify_by(&scripted, &candidates, true)).unwrap();
    member.keep(1);
    pollster::block_on(member.draft_by(&scripted, 4)).unwrap();
    let again = scripted.asked.take();
    assert!(
        !again.iter().any(|path| path == "apply-template"),
        "{again:?}"
    );
}

#[test]
fn forced_candidates_are_scored_side_by_side_and_halves_of_characters_one_by_one() {
    let scripted = Scripted {
        llama: true,
        yields: true,
        ..Scripted::default()
    };
    let mut member = begun(&scripted);
    let whole = [
        candidate("one", false),
        candidate("two", true),
        candidate("", true),
    ];
    let row = pollster::block_on(member.verify_by(&scripted, &whole, true)).unwrap();
    assert_eq!(scripted.under_way.get().1, 3);
    let tokens: Vec<usize> = row.iter().map(|one| one.tokens).collect();
    assert_eq!(tokens, [1, 1, 0]);
    scripted.asked.take();
    let halves = [candidate("é", false)];
    let row = pollster::block_on(member.verify_by(&scripted, &halves, true)).unwrap();
    assert_eq!((row[0].tokens, row[0].score.mean_logprob), (2, Some(-1.5)));
    let completions = scripted.asked.take();
    let completions = completions.iter().filter(|path| *path == "completions");
    assert_eq!(completions.count(), 2, "a request for each");
}

#[test]
fn an_echo_scores_all_in_one_request_with_what_closes_a_turn() {
    let scripted = Scripted::default();
    let mut member = begun(&scripted);
    let candidates = [
        candidate("one two ", false),
        candidate("three ", true),
        candidate("", true),
    ];
    let row = pollster::block_on(member.verify_by(&scripted, &candidates, true)).unwrap();
    assert_eq!(scripted.asked.take(), ["completions"]);
    let tokens: Vec<usize> = row.iter().map(|one| one.tokens).collect();
    assert_eq!(tokens, [2, 1, 0]);
    assert!(
        row.iter().all(|one| one.score.mean_logprob == Some(-0.5)),
        "{row:?}"
    );
}
