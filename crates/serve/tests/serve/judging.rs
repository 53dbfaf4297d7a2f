//! Log-probabilities over HTTP, as when one server is a scoring member of another: against the
//! logits of the same file, run token by token by the model alone.

use crate::stage;

use crate::stage::{Stage, file};
use conclave_model::{Cpu, LoadOptions, Model, Session};
use conclave_text::{Prompt, Tokenizer};
use conclave_weights::{Checkpoint, Memory};
use serde_json::{Value, json};

/// ln p of each token of `text` but the first, by the whole rows of logits; and its number of
/// tokens.
fn expected(name: &str, text: &str) -> Vec<f64> {
    pollster::block_on(async {
        let source = Memory::file("model.gguf", file(name));
        let checkpoint = Checkpoint::open(&source).await.unwrap();
        let tokenizer = Tokenizer::from_checkpoint(checkpoint.description()).unwrap();
        let ids = tokenizer.encode_prompt(&Prompt::trusted(text)).unwrap();
        let options = LoadOptions::with_context(1024);
        let model = Model::load(&checkpoint, &source, &Cpu::ALONE, options, &mut |_| ()).await;
        let rows = Session::new(model.unwrap()).all_logits(&ids).await.unwrap();
        let next = rows.iter().zip(&ids[1..]);
        next.map(|(row, &id)| {
            let sum: f64 = row.iter().map(|&logit| f64::from(logit).exp()).sum();
            f64::from(row[id as usize]) - sum.ln()
        })
        .collect()
    })
}

fn judged(stage: &Stage, prompt: Value, model: &str) -> Vec<Value> {
    let answer = stage.complete(&json!({
        "model": model, "prompt": prompt, "echo": true, "max_tokens": 0, "logprobs": 1,
    }));
    let choices = answer["choices"].as_array().unwrap().clone();
    for choice in &choices {
        assert_eq!(choice["finish_reason"], "length");
    }
    assert_eq!(answer["usage"]["completion_tokens"], 0);
    choices
}

/// Log-probabilities of a choice, after a first token without context.
fn logprobs(choice: &Value) -> Vec<f64> {
    let logprobs = choice["logprobs"]["token_logprobs"].as_array().unwrap();
    logprobs.iter().filter_map(Value::as_f64).collect()
}

/// The same logits: only their sums of powers are rounded differently, here in f64.
fn assert_close(found: &[f64], wanted: &[f64]) {
    assert_eq!(found.len(), wanted.len());
    for (found, wanted) in found.iter().zip(wanted) {
        assert!((found - wanted).abs() < 1e-5, "{found} for {wanted}");
    }
}

#[test]
fn the_tokens_of_a_text_are_as_probable_as_its_model_says() {
    let stage = Stage::new();
    let text = "What is 3 + 4? The sum is 7, naïve as it is.";
    for (model, name) in [("Quill", "Quill"), ("Juno", "Juno"), ("conclave", "Ada")] {
        let choice = &judged(&stage, json!(text), model)[0];
        assert_close(&logprobs(choice), &expected(name, text));
        assert_eq!(choice["text"], text);
        // The tokens join to the text, each at its offset.
        let tokens = choice["logprobs"]["tokens"].as_array().unwrap();
        let offsets = choice["logprobs"]["text_offset"].as_array().unwrap();
        let characters: Vec<char> = text.chars().collect();
        let mut joined = String::new();
        for (token, offset) in tokens.iter().zip(offsets) {
            let token = token.as_str().unwrap();
            let offset = usize::try_from(offset.as_u64().unwrap()).unwrap();
            let there: String = characters[offset..]
                .iter()
                .take(token.chars().count())
                .collect();
            assert_eq!(there, token);
            joined.push_str(token);
        }
        assert_eq!(joined, text);
    }
}

#[test]
fn candidates_behind_one_text_are_judged_as_each_alone() {
    let stage = Stage::new();
    let prefix = "What is 12 + 30? Let me add: ";
    let candidates = ["12 + 30 = 42", "the sum is 43", "", "12 + 30 = 41, or so"];
    let texts: Vec<String> = candidates
        .iter()
        .map(|one| format!("{prefix}{one}"))
        .collect();
    let all = judged(&stage, json!(texts), "Ada");
    assert_eq!(all.len(), 4);
    for (choice, text) in all.iter().zip(&texts) {
        assert_close(&logprobs(choice), &expected("Ada", text));
    }
    // Again, from cached results; and after a conversation that has overwritten the members' KV
    // cache.
    let again = &judged(&stage, json!(texts[3]), "Ada")[0];
    for field in ["text", "logprobs", "finish_reason"] {
        assert_eq!(again[field], all[3][field]);
    }
    stage.chat("What is 5 + 5?", json!({}));
    let longer = format!("{} indeed", texts[3]);
    assert_close(
        &logprobs(&judged(&stage, json!(longer), "Ada")[0]),
        &expected("Ada", &longer),
    );
}

/// To the bit: alone; after a text that begins alike, so that a part of it is there; after an
/// answer in rounds, whose candidates were verified in line; and after its own beginning was
/// continued.
#[test]
fn a_text_is_as_probable_whatever_was_asked_before() {
    let text = "What is 12 + 30? Let me add: first 12 + 8 = 20, then 20 + 22 = 42. The sum is 42.";
    for model in ["conclave", "Juno", "Quill"] {
        let echoed = |stage: &Stage| judged(stage, json!(text), model)[0]["logprobs"].clone();
        let alone = echoed(&Stage::new());
        let stage = Stage::new();
        judged(&stage, json!(format!("{} is it 9?", &text[..30])), model);
        assert_eq!(
            echoed(&stage),
            alone,
            "{model}, after a text that begins alike"
        );
        let begun = Stage::new();
        for length in [17, 29, 55] {
            let body = json!({ "model": model, "prompt": &text[..length], "max_tokens": 20,
                "temperature": 0 });
            begun.complete(&body);
            begun.chat("What is 5 + 5?", json!({}));
            begun.complete(&body);
            // Another text, so that no result is cached.
            judged(&begun, json!("Another."), model);
            begun.complete(&body);
            assert_eq!(echoed(&begun), alone, "{model}, after {length} letters");
            judged(&begun, json!("Another."), model);
        }
    }
}

#[test]
fn what_was_continued_is_judged_too() {
    let stage = Stage::new();
    let text = "What is 3 + 4? ";
    let body =
        json!({ "model": "Ada", "prompt": text, "max_tokens": 6, "logprobs": 0, "temperature": 0 });
    let choice = &stage.complete(&body)["choices"][0];
    let said = choice["text"].as_str().unwrap();
    let tokens = choice["logprobs"]["tokens"].as_array().unwrap();
    let joined: String = tokens.iter().map(|token| token.as_str().unwrap()).collect();
    assert!(
        joined.ends_with(said) && !said.is_empty(),
        "{joined:?} {said:?}"
    );
    let wanted = expected("Ada", &format!("{text}{said}"));
    assert_close(&logprobs(choice), &wanted[wanted.len() - tokens.len()..]);
}

/// A text of several writers has no tokens of one model.
#[test]
fn log_probabilities_name_their_member_and_are_of_its_own_text() {
    let stage = Stage::new();
    let judged = json!({ "prompt": "Well?", "echo": true, "max_tokens": 0, "logprobs": 1 });
    assert_eq!(stage.complete(&judged)["conclave"]["logprobs"], "Ada");
    for echo in [false, true] {
        let mut body = json!({ "prompt": "Well?", "echo": echo, "max_tokens": 3, "logprobs": 1 });
        let (status, told) = stage.post("/v1/completions", &body);
        let error = &told["error"];
        assert_eq!(
            (status, &error["param"]),
            (400, &json!("logprobs")),
            "{told}"
        );
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains("Ada, Quill, Juno") && message.contains("max_tokens"),
            "{message}"
        );
        body["model"] = json!("Juno");
        assert_eq!(stage.complete(&body)["conclave"]["logprobs"], "Juno");
        body["stream"] = json!(true);
        let chunks = stage.stream("/v1/completions", &body);
        let told = chunks
            .iter()
            .filter_map(|chunk| chunk["conclave"].get("logprobs"));
        assert_eq!(told.collect::<Vec<_>>(), [&json!("Juno")]);
    }
}

#[test]
fn a_text_beyond_the_context_is_refused() {
    let stage = Stage::new();
    let body =
        json!({ "prompt": "word ".repeat(2000), "echo": true, "max_tokens": 0, "logprobs": 1 });
    let (status, told) = stage.post("/v1/completions", &body);
    assert_eq!(
        (status, &told["error"]["code"]),
        (400, &json!("context_length_exceeded")),
        "{told}"
    );
}

#[test]
fn a_conversation_is_written_as_its_template_has_it_and_goes_on_as_a_chat_does() {
    let stage = Stage::new();
    let messages = json!([{ "role": "user", "content": stage::SUM }]);
    for model in ["conclave", "Ada", "Quill"] {
        let body = json!({ "model": model, "messages": messages,
            "chat_template_kwargs": { "enable_thinking": false } });
        let (status, told) = stage.post("/apply-template", &body);
        assert_eq!(status, 200, "{told}");
        let prompt = told["prompt"].as_str().unwrap();
        assert!(prompt.contains(stage::SUM) && prompt.len() > stage::SUM.len());
        let options = json!({ "model": model, "temperature": 0 });
        let answer = stage.chat(stage::SUM, options);
        let body = json!({ "model": model, "prompt": prompt, "temperature": 0, "max_tokens": 200 });
        let went_on = stage.complete(&body);
        assert_eq!(
            went_on["choices"][0]["text"].as_str().unwrap().trim_start(),
            answer["choices"][0]["message"]["content"]
        );
    }
    // A client renders what it sends to be answered, whatever it asks of the answer.
    let bare = json!({ "messages": messages });
    let mut whole = json!({ "messages": messages, "max_tokens": 5, "max_completion_tokens": 0,
        "n_predict": -1, "temperature": 9, "top_p": 0.5, "top_k": 40, "min_p": 0.05, "seed": 1,
        "stop": ["\n"], "n": 2, "stream": true, "stream_options": { "include_usage": true },
        "logprobs": true, "top_logprobs": 5, "frequency_penalty": 0.5, "repeat_penalty": 1.1,
        "response_format": { "type": "json_object" }, "grammar": "root ::= \"a\"",
        "logit_bias": { "5": 1 }, "ignore_eos": true, "user": "me", "cache_prompt": true,
        "return_progress": true, "mirostat": 2, "best_of": 3, "add_generation_prompt": true });
    let rendered = |body: &Value| stage.post("/apply-template", body);
    assert_eq!(rendered(&whole), rendered(&bare));
    assert_eq!(rendered(&whole).0, 200);
    for (name, value) in [
        ("documents", json!([{ "text": "x" }])),
        ("add_generation_prompt", json!(false)),
        ("chat_template", json!("{{ messages }}")),
        ("made_up", json!(5)),
    ] {
        let before = whole[name].take();
        whole[name] = value;
        let (status, told) = rendered(&whole);
        assert_eq!(
            (status, &told["error"]["param"]),
            (400, &json!(name)),
            "{told}"
        );
        whole[name] = before;
    }
    for (body, name) in [
        (json!({}), "messages"),
        (json!({ "messages": messages, "model": "nobody" }), "model"),
        (json!({ "messages": messages, "tools": [1] }), "tools"),
    ] {
        let (status, told) = stage.post("/apply-template", &body);
        assert!((400..=404).contains(&status), "{status}");
        assert_eq!(told["error"]["param"], name, "{told}");
    }
}
