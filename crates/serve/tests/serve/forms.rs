//! Answers in a form: documents of a schema, whichever member drafts them, and unsupported schemas.

use std::time::{Duration, Instant};

use crate::stage::{NAMES, SUM, Stage, asked, bundled, file, text_of};
use conclave_ensemble::Settings;
use conclave_member::Message;
use conclave_model::Sampling;
use conclave_remote::{Abilities, Address, Options, Remote, Server, Template};
use conclave_rounds::{
    Answer, AnswerError, AnyMember, Ask, Form, Lexicon, Limits, Question, Shape, Watch, answer,
};
use conclave_weights::{Checkpoint, Description, Memory};
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";

/// A document of bounded length.
fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "sum": { "type": "integer", "minimum": 0, "maximum": 9999 },
            "sure": { "type": "boolean" },
            "words": {
                "type": "array", "items": { "type": "string", "maxLength": 8 }, "maxItems": 2,
            },
        },
        "required": ["sum", "sure", "words"],
        "additionalProperties": false,
    })
}

fn format(schema: &Value) -> Value {
    json!({
        "type": "json_schema",
        "json_schema": { "name": "sum", "strict": true, "schema": schema },
    })
}

/// Panics if a text is not a document of [`schema`].
fn assert_document(text: &str) {
    let document: Value = serde_json::from_str(text).unwrap_or_else(|error| {
        panic!("{text}: {error}");
    });
    let fields: Vec<_> = document.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["sum", "sure", "words"], "{text}");
    assert!(document["sum"].as_u64().unwrap() <= 9999, "{text}");
    assert!(document["sure"].is_boolean(), "{text}");
    let words = document["words"].as_array().unwrap();
    let short = |word: &Value| word.as_str().unwrap().chars().count() <= 8;
    assert!(words.len() <= 2 && words.iter().all(short), "{text}");
}

fn content(answer: &Value) -> &str {
    answer["choices"][0]["message"]["content"].as_str().unwrap()
}

#[test]
fn an_answer_is_a_document_of_its_schema() {
    let stage = Stage::new();
    let words = stage.chat(SUM, json!({}));
    for model in ["conclave", NAMES[1]] {
        let options = json!({ "model": model, "response_format": format(&schema()) });
        let whole = stage.chat(SUM, options.clone());
        assert_document(content(&whole));
        let choice = &whole["choices"][0];
        assert_eq!(
            (&choice["finish_reason"], &whole["conclave"]["stop"]),
            (&json!("stop"), &json!("ended"))
        );
        let chunks = stage.stream(CHAT, &asked(SUM, options));
        assert_eq!(text_of(&chunks), content(&whole));
    }
    // The constraint is gone.
    assert_eq!(content(&stage.chat(SUM, json!({}))), content(&words));
    for words in [json!({ "type": "text" }), Value::Null] {
        let answer = stage.chat(SUM, json!({ "response_format": words }));
        assert!(content(&answer).contains("432"), "{answer}");
    }
}

#[test]
fn any_object_is_one_as_far_as_it_goes() {
    let stage = Stage::new();
    for format in [
        json!({ "type": "json_object" }),
        json!({ "type": "json_schema", "json_schema": { "name": "any" } }),
    ] {
        let answer = stage.chat(SUM, json!({ "response_format": format, "max_tokens": 12 }));
        let text = content(&answer);
        assert!(text.starts_with('{'), "{text}");
        match serde_json::from_str::<Value>(text) {
            Ok(_) => assert_eq!(answer["choices"][0]["finish_reason"], "stop"),
            Err(error) => {
                assert!(error.is_eof(), "{text}: {error}");
                assert_eq!(answer["choices"][0]["finish_reason"], "length", "{text}");
            }
        }
    }
}

#[test]
fn a_schema_that_can_not_be_kept_to_is_refused_with_its_part_and_why() {
    let stage = Stage::new();
    let deep = (0..100).fold(json!(true), |inner, _| json!({ "items": inner }));
    let wide: serde_json::Map<String, Value> =
        (0..20_000).map(|n| (format!("p{n}"), json!({}))).collect();
    for (schema, word) in [
        (
            json!({ "properties": { "a": { "uniqueItems": true } } }),
            "#/properties/a",
        ),
        (json!({ "type": "strange" }), "strange"),
        (json!(false), "false"),
        (deep, "deep"),
        (json!({ "properties": wide }), "fields"),
        (json!({ "$ref": "#" }), "no document"),
        (json!({ "$ref": "https://example.org/schema" }), "#"),
        (json!({ "type": "string", "pattern": "(" }), "#"),
    ] {
        for stream in [false, true] {
            let shown: String = schema.to_string().chars().take(80).collect();
            let begun = Instant::now();
            let options = json!({ "response_format": format(&schema), "stream": stream });
            let (status, told) = stage.post(CHAT, &asked(SUM, options));
            assert!(begun.elapsed() < Duration::from_secs(20), "{shown}");
            assert_eq!(
                (status, &told["error"]["param"]),
                (400, &json!("response_format")),
                "{shown}: {told}"
            );
            let message = told["error"]["message"].as_str().unwrap();
            assert!(message.contains(word), "{shown}: {message}");
        }
    }
    let body = json!({ "prompt": "One", "response_format": format(&schema()) });
    let (status, told) = stage.post("/v1/completions", &body);
    assert_eq!(
        (status, &told["error"]["param"]),
        (400, &json!("response_format")),
        "{told}"
    );
    // The request's limit also ends what the grammar leaves unbounded.
    let pattern = "((((a{1,1000}){1,1000}){1,1000}){1,1000}){1,1000}";
    for endless in [
        json!({ "type": "string", "pattern": pattern }),
        json!({ "type": "string", "minLength": 1_000_000_000 }),
    ] {
        let options = json!({ "response_format": format(&endless), "max_tokens": 8 });
        let answer = stage.chat(SUM, options);
        assert_eq!(answer["choices"][0]["finish_reason"], "length", "{answer}");
    }
    // The next request is unaffected.
    let options = json!({ "response_format": format(&schema()) });
    assert_document(content(&stage.chat(SUM, options)));
}

/// A remote member that drafts and scores: another one of these servers.
fn far(stage: &Stage) -> AnyMember {
    let source = Memory::file("quill.gguf", file("Quill"));
    let checkpoint = pollster::block_on(Checkpoint::open(&source)).unwrap();
    let Description::Gguf(metadata) = checkpoint.description() else {
        panic!("it is a GGUF file");
    };
    let template = metadata.str("tokenizer.chat_template").unwrap();
    let options = Options {
        template: Some(Template::new(template).unwrap()),
        patience: Duration::from_secs(60),
        ..Options::default()
    };
    let address = Address::read(&format!("{}#Quill", stage.url("/v1"))).unwrap();
    let server = Server::connect(address, options).unwrap();
    assert_eq!(server.abilities(), Abilities::DraftsAndScores);
    Remote::new("Far", server).into()
}

struct Silent;

impl Watch for Silent {}

fn ask(members: &mut [AnyMember], schema: Option<&str>) -> Result<Answer, AnswerError> {
    let lexicons: Vec<Lexicon> = members.iter().map(|_| Lexicon::default()).collect();
    let messages = [Message::new("user", SUM)];
    let settings = Settings::default();
    let ask = Ask {
        question: Question::Conversation(&messages),
        settings: &settings,
        sampling: Sampling::greedy(),
        limits: Limits::default(),
        form: schema.map(|schema| Form {
            shape: Shape::Document(schema),
            lexicons: &lexicons,
        }),
    };
    pollster::block_on(answer(members, &ask, &mut Silent))
}

#[test]
fn a_member_behind_a_server_judges_documents_and_drafts_none() {
    let stage = Stage::new();
    let mut members = vec![AnyMember::from(bundled().remove(0)), far(&stage)];
    let schema = schema().to_string();
    let said = ask(&mut members, Some(&schema)).unwrap();
    assert_document(&said.text);
    assert_eq!(said.stopped, "ended");
    assert!(said.left.is_empty() && said.rounds.len() > 1, "{said:?}");
    for round in &said.rounds {
        assert_eq!(
            (&round.active[..], &round.drafters[..]),
            (&[0, 1][..], &[0][..])
        );
        assert!(round.abstained.is_empty(), "{round:?}");
        if round.verified {
            assert_eq!(round.scores[1].len(), 1, "it scores what the other drafts");
        }
    }
    // Without a form it drafts again.
    let said = ask(&mut members, None).unwrap();
    assert_eq!(said.rounds[0].drafters, [0, 1]);
    // Alone it can't be constrained.
    let refused = ask(&mut members[1..], Some(&schema)).unwrap_err();
    assert!(matches!(refused, AnswerError::NoForm), "{refused}");
    assert!(refused.to_string().contains("behind servers"), "{refused}");
}
