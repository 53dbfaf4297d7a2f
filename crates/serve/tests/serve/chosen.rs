//! Log-probabilities of a chat's answer: of each token, with the likeliest at its place.

use crate::speaker::Speaker;
use crate::stage::{NAMES, SUM, Stage, asked, config, text_of};
use conclave_ensemble::Settings;
use conclave_rounds::AnyMember;
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";

/// The tokens of a choice: text and ln p.
fn tokens(choice: &Value) -> Vec<(String, f64)> {
    let content = choice["logprobs"]["content"].as_array().unwrap();
    let tokens = content.iter().map(|one| {
        let text = one["token"].as_str().unwrap().to_owned();
        let bytes: Vec<u8> = serde_json::from_value(one["bytes"].clone()).unwrap();
        assert_eq!(text.as_bytes(), bytes);
        (text, one["logprob"].as_f64().unwrap())
    });
    tokens.collect()
}

#[test]
fn each_token_of_an_answer_has_its_probability_and_the_likeliest() {
    let stage = Stage::new();
    for name in NAMES {
        let options =
            json!({ "model": name, "logprobs": true, "top_logprobs": 3, "max_tokens": 24 });
        let answer = stage.chat(SUM, options.clone());
        let choice = &answer["choices"][0];
        let content = choice["message"]["content"].as_str().unwrap();
        let told = tokens(choice);
        let joined: String = told.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(joined, content, "{name}");
        for (token, one) in told
            .iter()
            .zip(choice["logprobs"]["content"].as_array().unwrap())
        {
            let likeliest = one["top_logprobs"].as_array().unwrap();
            let all: Vec<f64> = likeliest
                .iter()
                .map(|one| one["logprob"].as_f64().unwrap())
                .collect();
            assert!(all.len() == 3 && all.is_sorted_by(|a, b| a >= b), "{one}");
            assert!(
                all.iter().map(|one| one.exp()).sum::<f64>() <= 1.0 + 1e-6,
                "{one}"
            );
            // A greedy answer takes the likeliest token.
            assert!((all[0] - token.1).abs() < 1e-6, "{name}: {one}");
        }
        // They are those of the same text as the server judges texts.
        let (_, rendered) = stage.post(
            "/apply-template",
            &json!({
                "model": name, "messages": [{ "role": "user", "content": SUM }],
            }),
        );
        let prompt = format!("{}{joined}", rendered["prompt"].as_str().unwrap());
        let judged = stage.complete(&json!({
            "model": name, "prompt": prompt, "echo": true, "max_tokens": 0, "logprobs": 1,
        }));
        let judged = judged["choices"][0]["logprobs"]["token_logprobs"]
            .as_array()
            .unwrap();
        let last = &judged[judged.len() - told.len()..];
        for (one, (text, logprob)) in last.iter().zip(&told) {
            let judged = one.as_f64().unwrap();
            assert!(
                (judged - logprob).abs() < 1e-3,
                "{name} {text:?}: {judged} {logprob}"
            );
        }
        // A stream has them in its last chunk, and says the same.
        let chunks = stage.stream(CHAT, &asked(SUM, options.clone()));
        assert_eq!(text_of(&chunks), content);
        let streamed = tokens(&chunks.last().unwrap()["choices"][0]);
        assert_eq!(streamed.len(), told.len());
        for (one, other) in streamed.iter().zip(&told) {
            // The last digits depend on how many tokens run at once.
            assert!(
                one.0 == other.0 && (one.1 - other.1).abs() < 1e-6,
                "{one:?} {other:?}"
            );
        }
        // The next answer is not affected.
        let again = stage.chat(SUM, json!({ "model": name, "max_tokens": 24 }));
        assert_eq!(again["choices"][0]["message"]["content"], content);
    }
}

/// A base model's answers follow `Answer:` and a space.
#[test]
fn the_tokens_of_an_answer_after_white_space_are_its_text() {
    let speaker = Speaker {
        words: &["<|end|>", " Yes", " it", " is", "\n\n", "Question"],
        says: &[&[":", " Yes", " it", " is", ".", "\n\n", "Question", ":"]],
        template: None,
        context: 2048,
        broken: None,
        beyond: 0,
        letters_beyond: 0,
    };
    let stage = Stage::with_members(config(), Settings::default(), move || {
        vec![AnyMember::from(speaker.load(2048).unwrap())]
    });
    let options = json!({ "model": "speaker", "logprobs": true, "top_logprobs": 1 });
    let choice = &stage.chat("Is it so?", options)["choices"][0];
    assert_eq!(choice["message"]["content"], "Yes it is.");
    let told = tokens(choice);
    let texts: Vec<&str> = told.iter().map(|(text, _)| text.as_str()).collect();
    assert_eq!(texts, ["Yes", " it", " is", "."]);
    let first = &choice["logprobs"]["content"][0];
    assert_eq!(first["top_logprobs"][0]["token"], "Yes", "{first}");
}

#[test]
fn a_text_that_stops_an_answer_has_no_tokens() {
    let stage = Stage::new();
    let options = json!({ "model": "Ada", "logprobs": true, "stop": "3" });
    let answer = stage.chat(SUM, options);
    let choice = &answer["choices"][0];
    let told = tokens(choice);
    let content = choice["message"]["content"].as_str().unwrap();
    let before: usize = told.iter().map(|(text, _)| text.len()).sum();
    let last = told.last().map_or(0, |(text, _)| text.len());
    assert!(before - last < content.len().max(1), "{choice}");
    assert!(
        choice["logprobs"]["content"][0]["top_logprobs"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

#[test]
fn the_ensemble_says_whom_to_ask_instead() {
    let stage = Stage::new();
    let (status, told) = stage.post(CHAT, &asked(SUM, json!({ "logprobs": true })));
    assert_eq!((status, &told["error"]["param"]), (400, &json!("logprobs")));
    assert!(
        told["error"]["message"]
            .as_str()
            .unwrap()
            .contains("Ada, Quill, Juno"),
        "{told}"
    );
    for (options, name) in [
        (json!({ "model": "Ada", "top_logprobs": 2 }), "top_logprobs"),
        (
            json!({ "model": "Ada", "logprobs": true, "top_logprobs": 21 }),
            "top_logprobs",
        ),
        (json!({ "model": "Ada", "logprobs": 5 }), "logprobs"),
    ] {
        let (status, told) = stage.post(CHAT, &asked(SUM, options));
        assert_eq!(
            (status, &told["error"]["param"]),
            (400, &json!(name)),
            "{told}"
        );
    }
}
