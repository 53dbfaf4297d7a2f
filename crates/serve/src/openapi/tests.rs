//! The document against what is accepted.

use conclave_model::Sampling;

use super::*;
use crate::error::ApiError;
use crate::options::Options;
use crate::recent::Recent;
use crate::{chat, completions, embeddings, responses};

/// An example of a value of a schema.
fn example(name: &str, schema: &Value) -> Value {
    match name {
        "model" => return json!("conclave"),
        "messages" => return json!([{ "role": "user", "content": "Well?" }]),
        "tool_choice" => return json!("auto"),
        "text" | "response_format" => return json!({}),
        // As if there were none.
        "previous_response_id" => return json!(""),
        _ => {}
    }
    let schema = schema.get("anyOf").map_or(schema, |either| &either[0]);
    let kind = &schema["type"];
    match kind.as_str().or(kind[0].as_str()).unwrap() {
        "boolean" => json!(true),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or(json!(1)),
        "array" => json!([]),
        "object" => json!({}),
        "string" => json!("Well?"),
        other => panic!("{name}: {other}"),
    }
}

/// Whether a value fits a schema, by the keywords that the document has.
fn fits(schema: &Value, value: &Value, schemas: &Value) -> bool {
    let Some(schema) = schema.as_object() else {
        panic!("no schema: {schema}");
    };
    let size = || match value {
        Value::String(text) => text.chars().count() as f64,
        Value::Array(items) => items.len() as f64,
        number => number.as_f64().unwrap_or_default(),
    };
    let is = |kind: &Value| match kind.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other}"),
    };
    let list = |wanted: &Value| wanted.as_array().cloned().unwrap_or_default();
    schema
        .iter()
        .all(|(keyword, wanted)| match keyword.as_str() {
            "type" if wanted.is_array() => list(wanted).iter().any(is),
            "type" => is(wanted),
            "enum" => list(wanted).contains(value),
            "const" => value == wanted,
            "anyOf" => list(wanted).iter().any(|one| fits(one, value, schemas)),
            "minimum" if value.is_number() => size() >= wanted.as_f64().unwrap(),
            "maximum" if value.is_number() => size() <= wanted.as_f64().unwrap(),
            "minLength" if value.is_string() => size() >= wanted.as_f64().unwrap(),
            "maxLength" if value.is_string() => size() <= wanted.as_f64().unwrap(),
            "minItems" if value.is_array() => size() >= wanted.as_f64().unwrap(),
            "maxItems" if value.is_array() => size() <= wanted.as_f64().unwrap(),
            "items" => list(value).iter().all(|one| fits(wanted, one, schemas)),
            "required" => list(wanted)
                .iter()
                .all(|name| !value.is_object() || value.get(name.as_str().unwrap()).is_some()),
            "properties" => wanted.as_object().unwrap().iter().all(|(name, schema)| {
                let field = value.get(name);
                field.is_none_or(|field| fits(schema, field, schemas))
            }),
            "$ref" => {
                let name = wanted.as_str().unwrap().rsplit('/').next().unwrap();
                fits(&schemas[name], value, schemas)
            }
            "description" | "pattern" | "minimum" | "maximum" | "minLength" | "maxLength"
            | "minItems" | "maxItems" => true,
            other => panic!("{other}"),
        })
}

/// The error of a request with this schema.
fn refused(request: &str, body: &Value) -> Option<ApiError> {
    let models = ["conclave".to_owned()];
    let (bytes, sampling) = (body.to_string(), Sampling::default());
    let bytes = bytes.as_bytes();
    let own = |options: &mut Options| {
        let asked = responses::read(options, &Recent::default())?;
        Ok((asked.task, asked.tokens))
    };
    match request {
        "ChatRequest" => Options::request(bytes, &models, sampling, chat::read).err(),
        "TextRequest" => Options::request(bytes, &models, sampling, completions::read).err(),
        "RenderRequest" => chat::read_to_render(bytes, &models).err(),
        _ => Options::request(bytes, &models, sampling, own).err(),
    }
}

#[test]
fn every_option_of_the_document_is_honoured() {
    let models = ["conclave".to_owned()];
    let schemas = schemas(&models);
    for (request, needed, least) in [
        ("ChatRequest", "messages", 10),
        ("TextRequest", "prompt", 10),
        ("ResponseRequest", "input", 10),
        ("RenderRequest", "messages", 2),
    ] {
        let properties = schemas[request]["properties"].as_object().unwrap();
        assert!(properties.len() > least, "{request}");
        for (name, schema) in properties {
            // Every option may be left out by `null`.
            let null = Some(Value::Null).filter(|_| name != needed);
            for value in null.into_iter().chain([example(name, schema)]) {
                let mut body = json!({ name: value });
                if request == "TextRequest" && name != "echo" {
                    body["echo"] = json!(true);
                }
                body[needed] = example(needed, &properties[needed]);
                assert!(
                    fits(&schemas[request], &body, &schemas),
                    "{request}: {body}"
                );
                let error = refused(request, &body);
                assert!(error.is_none(), "{request}: {body}: {error:?}");
            }
        }
    }
}

#[test]
fn the_document_allows_what_is_accepted_and_no_more() {
    let models = ["conclave".to_owned()];
    let schemas = schemas(&models);
    let chat = |messages: Value| ("ChatRequest", json!({ "messages": messages }));
    let with = |request: &'static str, name: &str, value: Value| {
        let mut body = match request {
            "TextRequest" => json!({ "prompt": "Well", "echo": true }),
            "ResponseRequest" => json!({ "input": "Well?" }),
            _ => json!({ "messages": [{ "role": "user", "content": "Well?" }] }),
        };
        body[name] = value;
        (request, body)
    };
    let asked = json!({ "role": "user", "content": "Well?" });
    let call = json!({ "id": "1", "type": "function",
        "function": { "name": "now", "arguments": "{}" } });
    let mut accepted = vec![
        chat(json!([{ "role": "user", "content": null }])),
        chat(json!([{ "role": "system", "content": "" }, asked])),
        chat(json!([{ "role": "user", "content": [{ "type": "text", "text": "Well?" }, "!"] }])),
        chat(json!([{ "role": "user", "content": { "type": "text", "text": "Well?" } }])),
        chat(
            json!([asked, { "role": "assistant", "content": null, "tool_calls": [call] },
            { "role": "tool", "tool_call_id": "1", "content": { "time": 5 } }]),
        ),
        chat(json!([asked, { "role": "assistant", "tool_calls": null }, asked])),
        chat(json!([asked, { "role": "tool", "content": null }])),
        chat(json!([asked, { "role": "function", "name": "now" }])),
        with("RenderRequest", "max_tokens", json!(5)),
        with("TextRequest", "max_tokens", json!(0)),
    ];
    let mut others = vec![
        chat(json!([])),
        chat(json!([{ "role": "user" }])),
        chat(json!([{ "role": "critic", "content": "4" }])),
        chat(json!([{ "role": "user", "content": 5 }])),
        chat(json!([{ "role": "user", "content": [{ "type": "image_url" }] }])),
        with("TextRequest", "prompt", json!("")),
        with("TextRequest", "prompt", json!([])),
        with("TextRequest", "prompt", json!(null)),
        with("ChatRequest", "n", json!(0)),
        with("ChatRequest", "seed", json!(0.5)),
    ];
    for (request, names) in [
        (
            "ChatRequest",
            &["max_tokens", "max_completion_tokens", "n_predict"][..],
        ),
        ("TextRequest", &["max_tokens", "n_predict"]),
        ("ResponseRequest", &["max_output_tokens"]),
    ] {
        for name in names {
            for limit in [json!(-1), json!(-2), json!(7), json!(7.0), json!(null)] {
                accepted.push(with(request, name, limit));
            }
            for limit in [json!(-3), json!(0.5), json!("7")] {
                others.push(with(request, name, limit));
            }
            if request != "TextRequest" {
                others.push(with(request, name, json!(0)));
            }
        }
        for seed in [json!(-1), json!(5), json!(null)] {
            accepted.push(with(request, "seed", seed));
        }
    }
    for (request, body) in accepted {
        assert!(
            fits(&schemas[request], &body, &schemas),
            "{request}: {body}"
        );
        let error = refused(request, &body);
        assert!(error.is_none(), "{request}: {body}: {error:?}");
    }
    for (request, body) in others {
        assert!(
            !fits(&schemas[request], &body, &schemas),
            "{request}: {body}"
        );
        assert!(refused(request, &body).is_some(), "{request}: {body}");
    }
}

#[test]
fn every_option_of_an_embedding_is_honoured() {
    let models = ["conclave", "Ada"].map(str::to_owned);
    let schemas = schemas(&models);
    let properties = schemas["EmbeddingRequest"]["properties"]
        .as_object()
        .unwrap();
    assert_eq!(properties.len(), 5);
    for (name, schema) in properties {
        let values = schema["enum"].as_array().cloned();
        for value in values.unwrap_or_else(|| vec![example(name, schema)]) {
            let mut body = json!({ "input": "Well?" });
            body[name] = value;
            let read = embeddings::read(body.to_string().as_bytes(), &models);
            assert!(read.is_ok(), "{body}: {:?}", read.err());
        }
    }
}
