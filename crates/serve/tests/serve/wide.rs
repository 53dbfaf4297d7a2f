//! Schemas with many fields, values and items: answers in their form, within seconds.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::speaker::Speaker;
use crate::stage::{SUM, Stage, config};
use conclave_ensemble::Settings;
use conclave_rounds::AnyMember;
use serde_json::{Map, Value, json};

/// Fields of an object, values of an enumeration.
const MANY: usize = 120;

/// Items of a list.
const ITEMS: usize = 80;

/// Longest time of a request. The longest takes 0.6 s on two cores.
const MOST: Duration = Duration::from_secs(10);

/// A member that draws the first letter that a form allows, with room for so long a question.
fn stage() -> Stage {
    let speaker = Speaker {
        words: &["<|end|>", "<|user|>", "<|answer|>"],
        says: &[],
        template: Some(
            "{% for m in messages %}<|user|>{{ m.content }}<|end|>{% endfor %}<|answer|>",
        ),
        context: 16384,
        broken: None,
        beyond: 0,
        letters_beyond: 0,
    };
    Stage::with_members(config(), Settings::default(), move || {
        vec![AnyMember::from(speaker.load(16384).unwrap())]
    })
}

fn object(properties: Value, required: &[&str]) -> Value {
    json!({
        "type": "object", "properties": properties, "required": required,
        "additionalProperties": false,
    })
}

/// The names `p0`, `p1` …
fn names() -> Vec<String> {
    (0..MANY).map(|number| format!("p{number}")).collect()
}

/// Panics unless the arguments or the document are of the schema of this name.
fn assert_of(kind: &str, written: &str) {
    let written: Value = serde_json::from_str(written).unwrap_or_else(|error| {
        panic!("{kind}: {written}: {error}");
    });
    let fields = written.as_object().unwrap();
    match kind {
        "fields" => {
            let fields: BTreeSet<_> = fields.keys().cloned().collect();
            assert_eq!(fields, names().into_iter().collect(), "{written}");
        }
        "values" => assert!(
            names().iter().any(|name| fields["one"] == name.as_str()),
            "{written}"
        ),
        _ => {
            let list = fields["list"].as_array().unwrap();
            assert!((ITEMS..ITEMS + 10).contains(&list.len()), "{written}");
            assert!(
                list.iter().all(|item| *item == 0 || *item == 1),
                "{written}"
            );
        }
    }
}

/// A list of [`ITEMS`] or some more.
fn list() -> Value {
    let list = json!({
        "type": "array", "items": { "enum": [0, 1] }, "minItems": ITEMS, "maxItems": ITEMS + 9,
    });
    object(json!({ "list": list }), &["list"])
}

/// One of [`MANY`] values.
fn values() -> Value {
    object(json!({ "one": { "enum": names() } }), &["one"])
}

/// Asks for an answer that conforms to `schema`; returns its text and the request's duration.
fn document(stage: &Stage, schema: &Value) -> (String, Duration) {
    let begun = Instant::now();
    let format = json!({
        "type": "json_schema", "json_schema": { "name": "many", "strict": true, "schema": schema },
    });
    let answer = stage.chat(SUM, json!({ "response_format": format }));
    let content = &answer["choices"][0]["message"]["content"];
    (content.as_str().unwrap().to_owned(), begun.elapsed())
}

#[test]
fn many_fields_values_and_items_are_kept_in_documents_and_calls() {
    let stage = stage();
    let fields: Map<String, Value> = names()
        .into_iter()
        .map(|name| (name, json!({ "type": "boolean" })))
        .collect();
    let required = names();
    let required: Vec<&str> = required.iter().map(String::as_str).collect();
    for (kind, schema) in [
        ("fields", object(Value::Object(fields), &required)),
        ("values", values()),
        ("items", list()),
    ] {
        let (written, written_in) = document(&stage, &schema);
        assert_of(kind, &written);
        let begun = Instant::now();
        let answer = stage.chat(
            SUM,
            json!({
                "tools": [{ "type": "function", "function": {
                    "name": "note", "strict": true, "parameters": schema,
                } }],
                "tool_choice": "required", "parallel_tool_calls": false,
            }),
        );
        let called_in = begun.elapsed();
        let function = &answer["choices"][0]["message"]["tool_calls"][0]["function"];
        assert_of(kind, function["arguments"].as_str().expect("it is a call"));
        println!("{kind}: a document in {written_in:?}, a call in {called_in:?}");
        assert!(
            written_in < MOST && called_in < MOST,
            "{kind}: {written_in:?}, {called_in:?}"
        );
    }
}

#[test]
fn an_ensemble_keeps_to_many_values_and_items() {
    let stage = Stage::new();
    for (kind, schema) in [("values", values()), ("items", list())] {
        let (written, took) = document(&stage, &schema);
        assert_of(kind, &written);
        println!("{kind}: a document of three members in {took:?}");
        assert!(took < MOST, "{kind}: {took:?}");
    }
}
