//! Requests in clients' own dialects: options without effect are accepted, supported ones are
//! applied.

use crate::stage::{SUM, Stage, agent, asked, read};
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";

fn content(answer: &Value) -> &str {
    answer["choices"][0]["message"]["content"].as_str().unwrap()
}

#[test]
fn what_changes_nothing_passes() {
    let stage = Stage::new();
    let plain = stage.chat(SUM, json!({}));
    for options in [
        json!({ "tools": [], "functions": [], "tool_choice": "none" }),
        json!({ "tool_choice": "auto", "response_format": {}, "stop": "", "best_of": 1 }),
        json!({ "min_p": 0, "repetition_penalty": 1.0, "repeat_penalty": 1, "cache_prompt": true }),
        json!({ "chat_template_kwargs": { "enable_thinking": false }, "reasoning_effort": "low" }),
        json!({ "verbosity": "low", "keep_alive": "5m", "store": true, "top_k": -1 }),
        json!({ "max_tokens": -1, "n": 1.0, "seed": 1 }),
        json!({ "max_tokens": 1e9, "seed": u64::MAX }),
    ] {
        let answer = stage.chat(SUM, options.clone());
        assert_eq!(answer["choices"], plain["choices"], "{options}");
    }
    assert_eq!(
        stage.chat(SUM, json!({ "max_tokens": 4.0 }))["conclave"]["stop"],
        "tokens"
    );
}

#[test]
fn the_number_of_tokens_to_draw_from_is_honoured() {
    let stage = Stage::new();
    let question = "Tell me a story about a fox.";
    let say = |options: Value| {
        let mut options = options;
        options["max_tokens"] = json!(24);
        content(&stage.chat(question, options)).to_owned()
    };
    let hot = json!({ "temperature": 2, "top_p": 1, "seed": 1 });
    let greedy = say(json!({ "temperature": 0 }));
    assert_ne!(say(hot.clone()), greedy);
    let mut one = hot;
    one["top_k"] = json!(1);
    assert_eq!(say(one), greedy);
}

#[test]
fn an_answer_may_be_given_back_with_all_its_fields() {
    let stage = Stage::new();
    let first = stage.chat(SUM, json!({}));
    let mut said = first["choices"][0]["message"].clone();
    for (name, value) in [
        ("reasoning_content", json!("")),
        ("refusal", json!("")),
        ("name", json!("x")),
        ("parsed", json!({})),
        ("id", json!("chatcmpl-1")),
        ("tool_calls", json!([])),
        ("conclave", first["conclave"].clone()),
    ] {
        said[name] = value;
    }
    let ask = |said: &Value| {
        let next = json!({ "role": "user", "content": "What is 2 + 2?", "name": "Ann" });
        let messages = json!([{ "role": "user", "content": SUM }, said, next]);
        stage.post(CHAT, &json!({ "messages": messages, "temperature": 0 }))
    };
    let (status, answer) = ask(&said);
    assert_eq!(status, 200, "{answer}");
    let bare = json!({ "role": "assistant", "content": content(&first) });
    assert_eq!(answer["choices"], ask(&bare).1["choices"]);
    said["tool_calls"] = json!([{ "id": "1" }]);
    let (status, told) = ask(&said);
    let told = told["error"]["message"].as_str().unwrap().to_owned();
    assert!(
        status == 400 && told.contains("messages[1].tool_calls"),
        "{told}"
    );
}

#[test]
fn bodies_are_read_as_editors_and_clients_write_them() {
    let stage = Stage::new();
    let send = |kind: &str, body: &[u8]| {
        let request = agent().post(stage.url(CHAT)).header("content-type", kind);
        read(request.send(body).unwrap())
    };
    let body = asked(SUM, json!({})).to_string();
    let marked = format!("\u{feff}{body}");
    let (_, plain) = send("application/json", body.as_bytes());
    for (kind, body) in [
        ("Application/JSON; Charset=UTF-8", body.clone()),
        ("application/json", marked),
    ] {
        let (status, answer) = send(kind, body.as_bytes());
        assert_eq!((status, &answer["choices"]), (200, &plain["choices"]));
    }
    let half = body.replace("What", r"hi \ud83d What");
    assert_eq!(send("application/json", half.as_bytes()).0, 200);
    let (status, told) = send("application/json", b"{\"messages\": \"\xe9\"}");
    let told = told["error"]["message"].as_str().unwrap();
    assert!(status == 400 && told.contains("UTF-8"), "{told}");
}

#[test]
fn whoever_spoke_last_is_answered() {
    let stage = Stage::new();
    let user = json!({ "role": "user", "content": SUM });
    for role in ["system", "developer", "assistant"] {
        let last = json!({ "role": role, "content": "Say only the number." });
        for messages in [json!([last]), json!([user, last])] {
            let body = json!({ "messages": messages, "temperature": 0, "max_tokens": 16 });
            let (status, answer) = stage.post(CHAT, &body);
            assert_eq!(status, 200, "{role}: {answer}");
        }
    }
}

#[test]
fn segments_are_the_text_though_its_end_was_held_back() {
    let stage = Stage::new();
    let whole = content(&stage.chat(SUM, json!({}))).to_owned();
    // It begins at the end of the answer, and is never completed.
    let stop = format!("{}never", &whole[whole.len() - 3..]);
    let answer = stage.chat(SUM, json!({ "stop": stop }));
    let segments = answer["conclave"]["segments"].as_array().unwrap();
    let joined = segments.iter().map(|one| one["text"].as_str().unwrap());
    assert_eq!(joined.collect::<String>(), whole);
    let chunks = stage.stream(CHAT, &asked(SUM, json!({ "stop": stop })));
    let joined = chunks
        .iter()
        .filter_map(|one| one["conclave"]["text"].as_str());
    assert_eq!(joined.collect::<String>(), whole);
}

#[test]
fn an_answer_goes_on_from_what_the_client_has_of_it() {
    let stage = Stage::new();
    let whole = content(&stage.chat(SUM, json!({}))).to_owned();
    let (begun, rest) = whole.split_at(whole.find("432").unwrap());
    let ask = |model: &str, last: Value| {
        let messages = json!([{ "role": "user", "content": SUM }, last]);
        let body = json!({ "model": model, "messages": messages, "temperature": 0,
            "continue_final_message": true, "add_generation_prompt": false });
        let (status, answer) = stage.post(CHAT, &body);
        assert_eq!(status, 200, "{answer}");
        content(&answer).to_owned()
    };
    // For a single member the ends of segments do not matter.
    let alone = stage.chat(SUM, json!({ "model": "Ada" }));
    let (first, second) = content(&alone).split_at(content(&alone).find("432").unwrap());
    assert_eq!(
        ask("Ada", json!({ "role": "assistant", "content": first })),
        second
    );
    assert!(rest.starts_with("432"));
    let last = json!({ "role": "assistant", "content": begun });
    assert!(ask("conclave", last).starts_with("432"));
    // Rendered, it continues as well.
    let render = |options: Value| {
        let mut body = options;
        let last = json!({ "role": "assistant", "content": first });
        body["model"] = json!("Ada");
        body["messages"] = json!([{ "role": "user", "content": SUM }, last]);
        let (status, rendered) = stage.post("/apply-template", &body);
        (
            status,
            rendered["prompt"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let asks = json!({ "continue_final_message": true, "add_generation_prompt": false });
    let (status, prompt) = render(asks);
    assert!(status == 200 && prompt.ends_with(first), "{prompt}");
    let body = json!({ "model": "Ada", "prompt": prompt, "temperature": 0, "max_tokens": 64 });
    let rest = stage.complete(&body)["choices"][0]["text"].clone();
    assert_eq!(rest, second);
    assert!(!render(json!({})).1.ends_with(first));
    // The next request starts afresh.
    assert_eq!(content(&stage.chat(SUM, json!({}))), whole);
}
