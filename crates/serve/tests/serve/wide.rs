//! Schemas with many fields, values and items: answers in their form, within seconds.

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

/// Longest time of a request. The longest takes 0.3 s on two cores.
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
            let fields: Vec<_> = fields.keys().cloned().collect();
            assert_eq!(fields, names(), "{written}");
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

#[test]
fn many_fields_values_and_items_are_kept_in_documents_and_calls() {
    let stage = stage();
    let fields: Map<String, Value> = names()
        .into_iter()
        .map(|name| (name, json!({ "type": "boolean" })))
        .collect();
    let list = json!({
        "type": "array", "items": { "enum": [0, 1] }, "minItems": ITEMS, "maxItems": ITEMS + 9,
    });
    for (kind, schema) in [
        ("fields", object(Value::Object(fields), &[])),
        (
            "values",
            object(json!({ "one": { "enum": names() } }), &["one"]),
        ),
        ("items", object(json!({ "list": list }), &["list"])),
    ] {
        let begun = Instant::now();
        let answer = stage.chat(
            SUM,
            json!({ "response_format": {
                "type": "json_schema",
                "json_schema": { "name": kind, "strict": true, "schema": schema },
            } }),
        );
        let document = begun.elapsed();
        assert_of(
            kind,
            answer["choices"][0]["message"]["content"].as_str().unwrap(),
        );
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
        let call = begun.elapsed();
        let function = &answer["choices"][0]["message"]["tool_calls"][0]["function"];
        assert_of(kind, function["arguments"].as_str().expect("it is a call"));
        println!("{kind}: a document in {document:?}, a call in {call:?}");
        assert!(
            document < MOST && call < MOST,
            "{kind}: {document:?}, {call:?}"
        );
    }
}
