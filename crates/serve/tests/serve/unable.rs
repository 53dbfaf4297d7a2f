//! A member's limits cost the others no answer: templates that refuse a conversation, and too short
//! a context. The reply names the missing members.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use crate::stage::{Gate, Moody, SUM, Stage, bundled, config, file};
use conclave_ensemble::Settings;
use conclave_member::Member;
use conclave_model::{Cpu, LoadOptions};
use conclave_rounds::AnyMember;
use conclave_weights::Memory;
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";

/// Gemma 2's: no system message, and turns that alternate.
const STRICT: &str = "{% if messages[0].role == 'system' %}\
    {{ raise_exception('System role not supported') }}{% endif %}\
    {% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}\
    {{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}\
    {% endif %}\
    <start_of_turn>{{ m.role }}\n{{ m.content | trim }}<end_of_turn>\n{% endfor %}\
    {% if add_generation_prompt %}<start_of_turn>model\n{% endif %}";

/// Refuses every conversation but a single message of at most six characters.
const REFUSES: &str = "{% if messages|length != 1 or messages[0].content|length > 6 %}\
    {{ raise_exception('Too much for me.') }}{% endif %}{{ messages[0].content }}";

/// Members with these contexts, and with these templates instead of their own.
fn served(members: &'static [(&str, usize, Option<&str>)]) -> Stage {
    let load = |&(name, context, template): &(&str, usize, Option<&str>)| {
        let source = Memory::file(format!("{name}.gguf"), file(name));
        let options = LoadOptions::with_context(context);
        let mut silent = |_| ();
        let load = Member::load_with(template, name, &source, &Cpu::ALONE, options, &mut silent);
        AnyMember::from(pollster::block_on(load).unwrap())
    };
    Stage::with_members(config(), Settings::default(), move || {
        members.iter().map(load).collect()
    })
}

fn said(roles: &[(&str, &str)]) -> Value {
    let said = |(role, content): &(&str, &str)| json!({ "role": role, "content": content });
    let messages: Vec<_> = roles.iter().map(said).collect();
    json!({ "messages": messages, "temperature": 0, "max_tokens": 12 })
}

#[test]
fn a_template_that_refuses_a_conversation_is_given_one_that_it_takes() {
    let stage = served(&[("Ada", 1024, None), ("Quill", 1024, Some(STRICT))]);
    for roles in [
        &[("system", "Be brief."), ("user", SUM)][..],
        &[("user", "Listen."), ("user", SUM)],
        &[("assistant", "Hello!"), ("user", SUM)],
    ] {
        for model in ["conclave", "Quill"] {
            let mut body = said(roles);
            body["model"] = json!(model);
            let (status, answer) = stage.post(CHAT, &body);
            assert_eq!(status, 200, "{model}: {answer}");
            assert_eq!(answer["conclave"].get("left"), None, "{answer}");
        }
    }
    let mut body = json!({ "model": "Quill" });
    body["messages"] = said(&[("system", "Be brief."), ("user", SUM)])["messages"].clone();
    let (_, rendered) = stage.post("/apply-template", &body);
    let wanted =
        format!("<start_of_turn>user\nBe brief.\n\n{SUM}<end_of_turn>\n<start_of_turn>model\n");
    assert_eq!(rendered["prompt"], wanted);
}

#[test]
fn a_member_that_cannot_read_a_conversation_leaves_it_to_the_others() {
    let stage = served(&[
        ("Ada", 1024, None),
        ("Quill", 1024, Some(REFUSES)),
        ("Juno", 64, None),
    ]);
    let long = "The fox sleeps. ".repeat(20) + SUM;
    let mut body = said(&[("user", &long)]);
    let (status, answer) = stage.post(CHAT, &body);
    assert_eq!(status, 200, "{answer}");
    let left = &answer["conclave"]["left"];
    assert_eq!(
        (&left[0]["member"], &left[1]["member"]),
        (&json!("Quill"), &json!("Juno"))
    );
    assert!(
        left[0]["error"]
            .as_str()
            .unwrap()
            .contains("Too much for me."),
        "{left}"
    );
    assert!(
        left[1]["error"].as_str().unwrap().contains("context of 64"),
        "{left}"
    );
    for segment in answer["conclave"]["segments"].as_array().unwrap() {
        assert_eq!(segment["writers"], json!(["Ada"]));
    }
    let chunks = stage.stream(CHAT, &body);
    assert_eq!(&chunks[chunks.len() - 1]["conclave"]["left"], left);
    // Alone, its text is the answer.
    for (model, word) in [("Quill", "Too much for me."), ("Juno", "context of 64")] {
        body["model"] = json!(model);
        let (status, told) = stage.post(CHAT, &body);
        let told = told["error"]["message"].as_str().unwrap();
        assert!(status == 400 && told.contains(word), "{told}");
    }
    // The failure does not affect a request that the member can read.
    let (_, next) = stage.post(CHAT, &said(&[("user", "Well?")]));
    assert_eq!(next["conclave"].get("left"), None, "{next}");
}

#[test]
fn a_member_that_cannot_read_a_text_leaves_it_to_the_others() {
    let stage = served(&[("Ada", 1024, None), ("Juno", 64, None)]);
    let long = "The fox sleeps. ".repeat(20);
    let body = |model: &str| json!({ "model": model, "prompt": long, "max_tokens": 5 });
    let (status, answer) = stage.post(TEXT, &body("conclave"));
    assert_eq!(status, 200, "{answer}");
    let left = answer["conclave"]["left"].as_array().unwrap();
    assert_eq!((left.len(), &left[0]["member"]), (1, &json!("Juno")));
    let error = left[0]["error"].as_str().unwrap();
    assert!(error.contains("context of 64"), "{error}");
    let (status, told) = stage.post(TEXT, &body("Juno"));
    let told = told["error"]["message"].as_str().unwrap();
    assert!(status == 400 && told.contains("context of 64"), "{told}");
}

#[test]
fn a_question_too_long_for_all_names_the_most_room() {
    let stage = served(&[
        ("Juno", 64, None),
        ("Ada", 128, None),
        ("Quill", 96, Some(REFUSES)),
    ]);
    let long = "The fox sleeps. ".repeat(60) + SUM;
    for (address, body) in [
        (CHAT, said(&[("user", &long)])),
        (TEXT, json!({ "prompt": long, "max_tokens": 5 })),
    ] {
        let (status, told) = stage.post(address, &body);
        let error = &told["error"];
        assert_eq!(
            (status, &error["code"]),
            (400, &json!("context_length_exceeded"))
        );
        let message = error["message"].as_str().unwrap();
        let tokens = message
            .strip_prefix("Ada: ")
            .and_then(|rest| rest.split(' ').next());
        let tokens: usize = tokens
            .and_then(|tokens| tokens.parse().ok())
            .expect(message);
        assert!(
            tokens > 128 && message.contains("the context of 128 tokens"),
            "{message}"
        );
    }
    // Where room would not help, the first member's reason is told.
    let stage = served(&[("Quill", 1024, Some(REFUSES)), ("Ada", 1024, Some(REFUSES))]);
    let (_, told) = stage.post(CHAT, &said(&[("user", SUM)]));
    let message = told["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("Quill: "), "{message}");
}

#[test]
fn a_member_that_only_judges_is_not_asked_to_draft() {
    let stage = Stage::with_members(config(), Settings::default(), move || {
        let drafts = Arc::new(AtomicUsize::new(0));
        let moody = |member| Moody::new(member, Duration::ZERO, Gate::new().way(), &drafts);
        let mut members: Vec<_> = bundled().into_iter().map(moody).collect();
        members[1].judges = true;
        members
    });
    let mut body = said(&[("user", SUM)]);
    body["model"] = json!("Quill");
    for (address, body) in [
        (CHAT, body),
        ("/v1/responses", json!({ "model": "Quill", "input": SUM })),
        (TEXT, json!({ "model": "Quill", "prompt": SUM })),
    ] {
        let (status, told) = stage.post(address, &body);
        assert_eq!(status, 400, "{told}");
        let told = told["error"]["message"].as_str().unwrap();
        assert!(told.contains("ask another"), "{told}");
    }
    let (status, answer) = stage.post(TEXT, &json!({ "prompt": SUM, "max_tokens": 2 }));
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["conclave"]["left"][0]["member"], "Quill");
}

#[test]
fn a_member_whose_server_does_not_answer_is_named() {
    let gate = Gate::new();
    let way = gate.way();
    let stage = Stage::with_members(config(), Settings::default(), move || {
        let drafts = Arc::new(AtomicUsize::new(0));
        let moody = |member| Moody::new(member, Duration::ZERO, way.clone(), &drafts);
        let mut members: Vec<_> = bundled().into_iter().map(moody).collect();
        members[1].late = true;
        members
    });
    let body = said(&[("user", SUM)]);
    let (status, answer) = stage.post(CHAT, &body);
    assert_eq!(status, 200, "{answer}");
    let abstained = answer["conclave"]["abstained"].as_array().unwrap();
    assert_eq!(
        (abstained.len(), &abstained[0]["member"]),
        (1, &json!("Quill"))
    );
    let error = abstained[0]["error"].as_str().unwrap();
    assert!(error.contains("far.example has not answered"), "{error}");
    let chunks = stage.stream(CHAT, &body);
    let last = &chunks[chunks.len() - 1];
    assert_eq!(
        last["conclave"]["abstained"],
        answer["conclave"]["abstained"]
    );
}

/// The prompt that a model renders of these messages.
fn rendered(stage: &Stage, model: &str, messages: &[(&str, &str)]) -> String {
    let mut body = json!({ "model": model });
    body["messages"] = said(messages)["messages"].clone();
    let (status, told) = stage.post("/apply-template", &body);
    assert_eq!(status, 200, "{told}");
    told["prompt"].as_str().unwrap().to_owned()
}

/// The status of judging a text by the ensemble; and who judged it, or else the error.
fn judge_of(stage: &Stage, text: &str) -> (u16, Value) {
    let body = json!({ "prompt": text, "echo": true, "max_tokens": 0, "logprobs": 1 });
    let (status, told) = stage.post(TEXT, &body);
    let by = match status {
        200 => &told["conclave"]["logprobs"],
        _ => &told["error"]["message"],
    };
    (status, by.clone())
}

#[test]
fn a_conversation_is_rendered_and_judged_by_the_first_that_can_do_both() {
    let stage = served(&[
        ("Quill", 1024, Some(REFUSES)),
        ("Ada", 64, None),
        ("Juno", 1024, None),
    ]);
    let long = "The fox sleeps. ".repeat(20) + SUM;
    for (question, member) in [(&long[..], "Juno"), (SUM, "Ada"), ("Well?", "Quill")] {
        let asked = [("user", question)];
        let prompt = rendered(&stage, "conclave", &asked);
        assert_eq!(prompt, rendered(&stage, member, &asked), "{member}");
        // Others before it have room for the text, but it has another's marks.
        let judge = judge_of(&stage, &format!("{prompt}It is 432."));
        assert_eq!(judge, (200, json!(member)));
    }
    // A text that has grown too long for its member is no other's.
    let prompt = rendered(&stage, "conclave", &[("user", SUM)]);
    let (status, told) = judge_of(&stage, &format!("{prompt}{long}"));
    let told = told.as_str().unwrap();
    let names = told.starts_with("Ada: ") && told.contains("context of 64");
    assert!(status == 400 && names, "{told}");
}

#[test]
fn a_text_is_judged_by_the_first_with_room_for_it() {
    let stage = served(&[("Ada", 64, None), ("Juno", 256, None), ("Quill", 128, None)]);
    let fox = |times: usize| "The fox sleeps. ".repeat(times);
    assert_eq!(judge_of(&stage, "Well?"), (200, json!("Ada")));
    assert_eq!(judge_of(&stage, &fox(20)), (200, json!("Juno")));
    // If none has, the one with the most room says how much that is.
    let (status, told) = judge_of(&stage, &fox(200));
    let told = told.as_str().unwrap();
    let names = told.starts_with("Juno: ") && told.contains("context of 256");
    assert!(status == 400 && names, "{told}");
    let mut body = said(&[("user", &fox(200))]);
    body["model"] = json!("conclave");
    let (status, told) = stage.post("/apply-template", &body);
    let error = &told["error"];
    assert_eq!(
        (status, &error["code"]),
        (400, &json!("context_length_exceeded")),
        "{told}"
    );
    let told = error["message"].as_str().unwrap();
    assert!(told.starts_with("Juno: "), "{told}");
}
