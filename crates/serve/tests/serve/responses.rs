//! `/v1/responses`: the same answers as chats, as items and as the events that clients expect.

use std::io::Read;

use crate::stage::{NAMES, SUM, Stage, agent, asked, post};
use serde_json::{Value, json};

const RESPONSES: &str = "/v1/responses";

fn body(options: Value) -> Value {
    let mut body = json!({ "input": SUM, "temperature": 0 });
    for (name, value) in options.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

fn respond(stage: &Stage, options: Value) -> Value {
    let (status, answer) = stage.post(RESPONSES, &body(options));
    assert_eq!(status, 200, "{answer}");
    answer
}

/// The events of a stream; each has its type as the event's name, too.
fn events(stage: &Stage, options: Value) -> Vec<Value> {
    let mut body = body(options);
    body["stream"] = json!(true);
    let response = post(&agent(), &stage.url(RESPONSES), &body).unwrap();
    assert_eq!(response.status(), 200);
    let mut text = String::new();
    let mut reader = response.into_body().into_reader();
    reader.read_to_string(&mut text).unwrap();
    let (mut all, mut name) = (Vec::new(), "");
    for line in text.lines() {
        if let Some(kind) = line.strip_prefix("event: ") {
            name = kind;
        } else if let Some(data) = line.strip_prefix("data: ") {
            let event: Value = serde_json::from_str(data).unwrap();
            assert_eq!(
                (&event["type"], &event["sequence_number"]),
                (&json!(name), &json!(all.len()))
            );
            all.push(event);
        }
    }
    all
}

fn kinds(events: &[Value]) -> Vec<&str> {
    let mut kinds: Vec<_> = events
        .iter()
        .map(|one| one["type"].as_str().unwrap())
        .collect();
    kinds.dedup();
    kinds
}

fn paint() -> Value {
    json!([{ "type": "function", "name": "paint", "parameters": {
        "type": "object", "required": ["colour"],
        "properties": { "colour": { "enum": ["red", "green"] } },
    } }])
}

#[test]
fn a_response_says_what_a_chat_says() {
    let stage = Stage::new();
    let chat = stage.chat(SUM, json!({}));
    let response = respond(
        &stage,
        json!({ "metadata": { "page": "1" }, "store": true }),
    );
    let text = chat["choices"][0]["message"]["content"].as_str().unwrap();
    assert_eq!(
        (&response["object"], &response["status"]),
        (&json!("response"), &json!("completed"))
    );
    assert!(response["id"].as_str().unwrap().starts_with("resp_"));
    assert_eq!(response["metadata"], json!({ "page": "1" }));
    assert_eq!(response["store"], true);
    let [item] = &response["output"].as_array().unwrap()[..] else {
        panic!("{response}");
    };
    assert_eq!(
        (&item["type"], &item["role"]),
        (&json!("message"), &json!("assistant"))
    );
    assert_eq!(item["content"][0]["text"], text);
    assert_eq!(
        response["usage"]["input_tokens"],
        chat["usage"]["prompt_tokens"]
    );
    assert_eq!(
        response["usage"]["output_tokens"],
        chat["usage"]["completion_tokens"]
    );
    assert_eq!(response["conclave"], chat["conclave"]);

    let events = events(&stage, json!({}));
    assert_eq!(
        kinds(&events),
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let deltas = events
        .iter()
        .filter(|one| one["type"] == "response.output_text.delta");
    let deltas: Vec<_> = deltas.map(|one| one["delta"].as_str().unwrap()).collect();
    assert!(deltas.len() > 1);
    assert_eq!(deltas.concat(), text);
    let last = &events.last().unwrap()["response"];
    assert_eq!(last["output"][0]["content"], item["content"]);
    assert_eq!(last["usage"], response["usage"]);
}

#[test]
fn instructions_items_and_limits_are_honoured() {
    let stage = Stage::new();
    let said = json!([
        { "role": "user", "content": "What is 3 + 4?" },
        { "type": "message", "role": "assistant",
          "content": [{ "type": "output_text", "text": "7" }] },
        { "role": "user", "content": [{ "type": "input_text", "text": SUM }] },
    ]);
    let chat = json!([
        { "role": "system", "content": "Add." },
        { "role": "user", "content": "What is 3 + 4?" },
        { "role": "assistant", "content": "7" },
        { "role": "user", "content": SUM },
    ]);
    let options = json!({ "model": NAMES[0], "max_completion_tokens": 5, "messages": chat });
    let chat = stage.post("/v1/chat/completions", &asked(SUM, options)).1;
    let response = respond(
        &stage,
        json!({ "model": NAMES[0], "input": said, "instructions": "Add.", "max_output_tokens": 5 }),
    );
    let item = &response["output"][0];
    assert_eq!(
        item["content"][0]["text"],
        chat["choices"][0]["message"]["content"]
    );
    assert_eq!(
        response["usage"]["input_tokens"],
        chat["usage"]["prompt_tokens"]
    );
    assert_eq!(
        (&response["status"], &item["status"]),
        (&json!("incomplete"), &json!("incomplete"))
    );
    assert_eq!(
        response["incomplete_details"]["reason"],
        "max_output_tokens"
    );
    let cut = events(&stage, json!({ "max_output_tokens": 3 }));
    assert_eq!(*kinds(&cut).last().unwrap(), "response.incomplete");

    let format = json!({ "format": {
        "type": "json_schema", "name": "b", "schema": { "type": "boolean" },
    } });
    let response = respond(&stage, json!({ "text": format }));
    let text = response["output"][0]["content"][0]["text"]
        .as_str()
        .unwrap();
    assert!(text == "true" || text == "false", "{text}");
    assert_eq!(response["text"], format);
}

#[test]
fn a_call_is_an_item_of_its_own() {
    let stage = Stage::new();
    let options =
        json!({ "tools": paint(), "tool_choice": "required", "parallel_tool_calls": false });
    let response = respond(&stage, options.clone());
    let [call] = &response["output"].as_array().unwrap()[..] else {
        panic!("{response}");
    };
    assert_eq!(
        (&call["type"], &call["name"]),
        (&json!("function_call"), &json!("paint"))
    );
    assert_eq!(call["status"], "completed");
    assert!(call["call_id"].as_str().unwrap().starts_with("call_"));
    let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
    assert!(
        arguments["colour"] == "red" || arguments["colour"] == "green",
        "{arguments}"
    );

    let events = events(&stage, options);
    let wanted = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(kinds(&events), wanted);
    let of = |kind: &str| {
        events
            .iter()
            .filter(|one| one["type"] == kind)
            .collect::<Vec<_>>()
    };
    let deltas = of("response.function_call_arguments.delta");
    let deltas: String = deltas
        .iter()
        .map(|one| one["delta"].as_str().unwrap())
        .collect();
    assert_eq!(json!(deltas), call["arguments"]);
    assert_eq!(
        of("response.function_call_arguments.done")[0]["arguments"],
        call["arguments"]
    );

    // Its result is read back.
    let item = &events.last().unwrap()["response"]["output"][0];
    let input = json!([
        { "role": "user", "content": SUM },
        item,
        { "type": "function_call_output", "call_id": item["call_id"], "output": "done" },
    ]);
    respond(
        &stage,
        json!({ "input": input, "tools": paint(), "max_output_tokens": 4 }),
    );
}

#[test]
fn a_recent_response_is_gone_on_from_by_its_id() {
    let stage = Stage::new();
    let brief = json!({ "temperature": 0, "max_output_tokens": 12 });
    let ask = |options: Value| {
        let mut all = brief.clone();
        for (name, value) in options.as_object().unwrap() {
            all[name] = value.clone();
        }
        respond(&stage, all)
    };
    let first = ask(json!({ "instructions": "Be brief." }));
    let item = &first["output"][0];
    let text = &item["content"][0]["text"];
    let said = |role: &str, content: &Value| json!({ "role": role, "content": content });
    let more = json!("And 5 + 4?");
    let wanted = ask(json!({
        "input": [said("user", &json!(SUM)), said("assistant", text), said("user", &more)],
    }));
    let by_response = ask(json!({ "previous_response_id": first["id"], "input": more }));
    let reference = json!({ "type": "item_reference", "id": item["id"] });
    let by_item = ask(json!({
        "input": [said("user", &json!(SUM)), reference, said("user", &more)],
    }));
    for told in [&by_response, &by_item] {
        let content = |response: &Value| response["output"][0]["content"].clone();
        assert_eq!(content(told), content(&wanted));
        assert_eq!(told["usage"], wanted["usage"]);
    }
    // Each response holds all before it; a stream's is kept, too.
    let streamed = json!({ "previous_response_id": by_response["id"], "max_output_tokens": 2 });
    let streamed = events(&stage, streamed).pop().unwrap()["response"].clone();
    let last = ask(json!({ "previous_response_id": streamed["id"], "max_output_tokens": 1 }));
    let tokens = |response: &Value| response["usage"]["input_tokens"].as_u64().unwrap();
    assert!(tokens(&last) > tokens(&streamed) && tokens(&streamed) > tokens(&by_response));
    let unkept = ask(json!({ "store": false }));
    assert_eq!(
        (&first["store"], &unkept["store"]),
        (&json!(true), &json!(false))
    );
    for options in [
        json!({ "previous_response_id": unkept["id"] }),
        json!({ "input": [{ "type": "item_reference", "id": unkept["output"][0]["id"] }] }),
    ] {
        let (status, told) = stage.post(RESPONSES, &body(options));
        let message = told["error"]["message"].as_str().unwrap();
        assert!(
            status == 400 && message.contains("not there any more"),
            "{told}"
        );
    }
    // Half a surrogate and a byte order mark change nothing of what is repeated.
    let raw = format!(
        "\u{feff}{}",
        r#"{"input":"\ud83d","max_output_tokens":2,"metadata":{"k":"v"}}"#
    );
    let response = agent()
        .post(stage.url(RESPONSES))
        .content_type("application/json")
        .send(&raw);
    let told = response.unwrap().body_mut().read_to_string().unwrap();
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(
        (&told["max_output_tokens"], &told["metadata"]["k"]),
        (&json!(2), &json!("v"))
    );
}

#[test]
fn what_the_server_does_not_keep_is_refused_by_name() {
    let stage = Stage::new();
    for (options, name) in [
        (
            json!({ "previous_response_id": "resp_1" }),
            "previous_response_id",
        ),
        (
            json!({ "text": { "format": {
                "type": "json_schema", "name": "x", "schema": { "uniqueItems": true },
            } } }),
            "text.format",
        ),
        (
            json!({ "tools": [{
                "type": "function", "name": "f", "strict": true,
                "parameters": { "properties": { "a": { "uniqueItems": true } } },
            }] }),
            "tools",
        ),
        (json!({ "model": "other" }), "model"),
        (json!({ "n": 2 }), "n"),
    ] {
        let (status, told) = stage.post(RESPONSES, &body(options.clone()));
        assert!(status == 400 || status == 404, "{options}: {told}");
        assert_eq!(told["error"]["param"], name, "{told}");
    }
}
