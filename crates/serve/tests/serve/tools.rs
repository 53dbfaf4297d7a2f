//! Answers that call functions: by the grammar where a call is required, by the model's own choice
//! where it may, and as text for members whose templates know no tools.

use crate::stage::{NAMES, SUM, Stage, Streaming, agent, asked, bundled, config};
use conclave_ensemble::Settings;
use conclave_rounds::AnyMember;
use serde_json::{Value, json};

use crate::speaker::Speaker;

const CHAT: &str = "/v1/chat/completions";

/// Two functions whose arguments are bounded.
fn tools() -> Value {
    json!([
        { "type": "function", "function": {
            "name": "add", "description": "Adds two numbers",
            "parameters": {
                "type": "object", "required": ["a", "b"], "additionalProperties": false,
                "properties": {
                    "a": { "type": "integer", "minimum": 0, "maximum": 999 },
                    "b": { "type": "integer", "minimum": 0, "maximum": 999 },
                },
            },
        } },
        { "type": "function", "function": {
            "name": "paint",
            "parameters": {
                "type": "object", "required": ["colour"],
                "properties": { "colour": { "enum": ["red", "green"] } },
            },
        } },
    ])
}

/// Panics unless a call is one of [`tools`].
fn assert_call(name: &str, arguments: &str) {
    let arguments: Value = serde_json::from_str(arguments).unwrap_or_else(|error| {
        panic!("{arguments}: {error}");
    });
    match name {
        "add" => {
            let fields: Vec<_> = arguments.as_object().unwrap().keys().collect();
            assert_eq!(fields, ["a", "b"], "{arguments}");
            assert!(
                arguments["a"].as_u64().unwrap() < 1000 && arguments["b"].as_u64().unwrap() < 1000
            );
        }
        "paint" => assert!(arguments["colour"] == "red" || arguments["colour"] == "green"),
        other => panic!("there is no {other}"),
    }
}

/// The calls of an answer, checked: identifier, name and arguments.
fn calls(answer: &Value) -> Vec<(String, String, String)> {
    let message = &answer["choices"][0]["message"];
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    let calls = calls.map(|call| {
        assert_eq!(call["type"], "function");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (
            text(&call["id"]),
            text(&call["function"]["name"]),
            text(&call["function"]["arguments"]),
        )
    });
    calls.collect()
}

/// Joins the chunks of a stream as OpenAI's clients do: its text, its calls as `(id, name,
/// arguments)`, and its `finish_reason`.
fn collected(chunks: &[Value]) -> (String, Vec<(String, String, String)>, Value) {
    let (mut text, mut calls, mut finish) = (String::new(), Vec::new(), Value::Null);
    for choice in chunks.iter().filter_map(|chunk| chunk["choices"].get(0)) {
        let delta = &choice["delta"];
        text.push_str(delta["content"].as_str().unwrap_or_default());
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let index = usize::try_from(call["index"].as_u64().unwrap()).unwrap();
            let function = &call["function"];
            if let Some(id) = call["id"].as_str() {
                assert_eq!((index, &call["type"]), (calls.len(), &json!("function")));
                let name = function["name"].as_str().unwrap();
                calls.push((id.to_owned(), name.to_owned(), String::new()));
            }
            let (_, _, arguments) = &mut calls[index];
            arguments.push_str(function["arguments"].as_str().unwrap());
        }
        if !choice["finish_reason"].is_null() {
            finish = choice["finish_reason"].clone();
        }
    }
    (text, calls, finish)
}

#[test]
fn a_required_call_is_valid_whoever_drafts_it() {
    let stage = Stage::new();
    let paint = json!({ "type": "function", "function": { "name": "paint" } });
    for model in ["conclave", NAMES[0], NAMES[2]] {
        for (choice, only) in [(json!("required"), None), (paint.clone(), Some("paint"))] {
            let options = json!({
                "model": model, "tools": tools(), "tool_choice": choice,
                "parallel_tool_calls": false,
            });
            let whole = stage.chat(SUM, options.clone());
            let made = calls(&whole);
            let [(id, name, arguments)] = &made[..] else {
                panic!("{whole}");
            };
            assert_call(name, arguments);
            assert!(only.is_none_or(|only| only == name), "{whole}");
            assert!(id.starts_with("call_"), "{id}");
            let choice = &whole["choices"][0];
            assert_eq!(choice["finish_reason"], "tool_calls");
            assert_eq!(choice["message"]["content"], Value::Null);
            assert_eq!(whole["conclave"]["stop"], "ended");
            let chunks = stage.stream(CHAT, &asked(SUM, options));
            let (text, streamed, finish) = collected(&chunks);
            assert_eq!((text.as_str(), &finish), ("", &json!("tool_calls")));
            let alike =
                |(_, name, arguments): &(String, String, String)| (name.clone(), arguments.clone());
            assert_eq!(
                streamed.iter().map(alike).collect::<Vec<_>>(),
                [alike(&made[0])]
            );
        }
    }
    // The constraint and the tools are gone.
    let words = stage.chat(SUM, json!({}));
    let free = stage.chat(SUM, json!({ "tools": tools(), "tool_choice": "none" }));
    assert_eq!(
        words["choices"][0]["message"],
        free["choices"][0]["message"]
    );
    assert!(
        words["choices"][0]["message"]["content"]
            .as_str()
            .unwrap()
            .contains("432")
    );
}

#[test]
fn a_call_is_not_searched_for_stop_texts() {
    let stage = Stage::new();
    for stop in [json!("\n"), json!(["<", "{"]), json!(["tool_call>", "\""])] {
        let options = json!({ "tools": tools(), "tool_choice": "required", "stop": stop });
        let whole = stage.chat(SUM, options.clone());
        let (_, name, arguments) = calls(&whole).remove(0);
        assert_call(&name, &arguments);
        assert_eq!(
            whole["choices"][0]["finish_reason"], "tool_calls",
            "{whole}"
        );
        let chunks = stage.stream(CHAT, &asked(SUM, options));
        let (text, streamed, _) = collected(&chunks);
        assert_eq!((text.as_str(), &streamed[0].1), ("", &name));
    }
}

#[test]
fn a_call_that_is_cut_is_no_call_that_is_over() {
    let stage = Stage::new();
    for most in [1, 3, 12] {
        let options = json!({ "tools": tools(), "tool_choice": "required", "max_tokens": most });
        let cut = stage.chat(SUM, options.clone());
        let choice = &cut["choices"][0];
        assert_eq!(choice["finish_reason"], "length", "{cut}");
        // A part of the mark is no text.
        assert_eq!(
            choice["message"]["content"].as_str().unwrap_or_default(),
            ""
        );
        let chunks = stage.stream(CHAT, &asked(SUM, options));
        let (text, _, finish) = collected(&chunks);
        assert_eq!((text.as_str(), &finish), ("", &json!("length")));
    }
}

#[test]
fn a_call_that_was_cut_may_be_given_back() {
    let stage = Stage::new();
    // As many tokens as the text up to the arguments has.
    let cut = (12..80).find_map(|most| {
        let options = json!({ "tools": tools(), "tool_choice": "required", "max_tokens": most });
        let answer = stage.chat(SUM, options);
        let (.., arguments) = calls(&answer).pop()?;
        let is_cut = serde_json::from_str::<Value>(&arguments).is_err();
        (is_cut && arguments.len() > 1).then_some(answer)
    });
    let cut = cut.expect("a limit cuts a call within its arguments");
    let (id, name, arguments) = calls(&cut).remove(0);
    let mut body = asked(SUM, json!({ "tools": tools(), "max_tokens": 8 }));
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(cut["choices"][0]["message"].clone());
    let result = json!({ "role": "tool", "tool_call_id": id, "content": "That was cut." });
    messages.push(result);
    let (status, answer) = stage.post(CHAT, &body);
    assert_eq!(status, 200, "{answer}");
    let rendering = json!({ "model": "Ada", "messages": body["messages"], "tools": tools() });
    let (_, rendered) = stage.post("/apply-template", &rendering);
    let prompt = rendered["prompt"].as_str().unwrap();
    let words = format!("\"arguments\": {arguments}}}\n</tool_call>");
    assert!(prompt.contains(&words), "{words}: {prompt}");
    let items = json!({ "input": [
        { "role": "user", "content": SUM },
        { "type": "function_call", "call_id": id, "name": name, "arguments": arguments,
          "status": "incomplete" },
        { "type": "function_call_output", "call_id": id, "output": "That was cut." },
    ], "tools": tools(), "max_output_tokens": 8 });
    let (status, answer) = stage.post("/v1/responses", &items);
    assert_eq!(status, 200, "{answer}");
}

const TURNS: &str = "{% for m in messages %}<|user|>{{ m.content }}<|end|>{% endfor %}<|answer|>";

const CALL: &str = "\n{\"name\": \"add\", \"arguments\": {\"a\": 3, \"b\": 4}}\n</tool_call>";

/// A model that says a word before it calls, with the mark of a call as one token.
fn caller(template: Option<&'static str>) -> AnyMember {
    let words = [
        "<|end|>",
        "<|user|>",
        "<|answer|>",
        "Well,",
        "<tool_call>",
        CALL,
    ];
    let speaker = Speaker {
        words: &words,
        says: &[&["<|answer|>", "Well,", "<tool_call>", CALL, "<|end|>"]],
        template,
        context: 2000,
        broken: None,
        beyond: 0,
        letters_beyond: 0,
    };
    speaker.load(2000).unwrap().into()
}

/// A model that says so much and ends.
fn talker(template: Option<&'static str>) -> AnyMember {
    let speaker = Speaker {
        words: &[
            "<|end|>",
            "<|user|>",
            "<|answer|>",
            "Five",
            " is <b",
            " enough.",
        ],
        says: &[&["<|answer|>", "Five", " is <b", " enough.", "<|end|>"]],
        template,
        context: 2000,
        broken: None,
        beyond: 0,
        letters_beyond: 0,
    };
    speaker.load(2000).unwrap().into()
}

#[test]
fn the_members_choose_between_text_and_a_call_where_they_may() {
    let stage = Stage::with_members(config(), Settings::default(), || vec![caller(Some(TURNS))]);
    let options = json!({ "tools": tools() });
    let whole = stage.chat("Add 3 and 4.", options.clone());
    let [(_, name, arguments)] = &calls(&whole)[..] else {
        panic!("{whole}");
    };
    assert_eq!(
        (name.as_str(), arguments.as_str()),
        ("add", "{\"a\": 3, \"b\": 4}")
    );
    let choice = &whole["choices"][0];
    assert_eq!(choice["message"]["content"], "Well,");
    assert_eq!(choice["finish_reason"], "tool_calls");
    let mut streaming =
        Streaming::begin(&agent(), &stage.url(CHAT), &asked("Add 3 and 4.", options));
    assert_eq!(
        streaming.next().unwrap()["choices"][0]["delta"],
        json!({ "role": "assistant", "content": "" })
    );
    let (text, streamed, finish) = collected(&streaming.rest());
    assert_eq!((text.as_str(), finish), ("Well,", json!("tool_calls")));
    assert_eq!(streamed[0].2, *arguments);
    // Without tools it is all text.
    let words = stage.chat("Add 3 and 4.", json!({}));
    let content = words["choices"][0]["message"]["content"].as_str().unwrap();
    assert_eq!(content, format!("Well,<tool_call>{CALL}"));
    assert_eq!(words["choices"][0]["finish_reason"], "stop");

    let stage = Stage::with_members(config(), Settings::default(), || vec![talker(Some(TURNS))]);
    let whole = stage.chat("Add 3 and 4.", json!({ "tools": tools() }));
    let choice = &whole["choices"][0];
    assert_eq!(choice["message"]["content"], "Five is <b enough.");
    assert_eq!(choice["finish_reason"], "stop");
    assert!(choice["message"].get("tool_calls").is_none(), "{choice}");
}

/// A call without its marks, as coders' models write it.
const BARE: &str =
    "```json\n{\n  \"name\": \"add\",\n  \"arguments\": {\"a\": 3, \"b\": 4}\n}\n```";

#[test]
fn an_answer_that_is_nothing_but_a_valid_call_is_one() {
    let stage = Stage::with_members(config(), Settings::default(), || {
        let speaker = Speaker {
            words: &["<|end|>", "<|user|>", "<|answer|>", BARE],
            says: &[&["<|answer|>", BARE, "<|end|>"]],
            template: Some(TURNS),
            context: 2000,
            broken: None,
            beyond: 0,
            letters_beyond: 0,
        };
        vec![AnyMember::from(speaker.load(2000).unwrap())]
    });
    let whole = stage.chat("Add 3 and 4.", json!({ "tools": tools() }));
    assert_eq!(calls(&whole)[0].2, "{\"a\":3,\"b\":4}", "{whole}");
    assert_eq!(whole["choices"][0]["finish_reason"], "tool_calls");
    let chunks = stage.stream(CHAT, &asked("Add 3 and 4.", json!({ "tools": tools() })));
    let (text, streamed, finish) = collected(&chunks);
    assert_eq!((text.as_str(), &finish), ("", &json!("tool_calls")));
    assert_eq!(
        (streamed.len(), streamed[0].2.as_str()),
        (1, "{\"a\":3,\"b\":4}")
    );
    // A function that there is not is text.
    let mut others = tools();
    others.as_array_mut().unwrap().remove(0);
    let words = stage.chat("Add 3 and 4.", json!({ "tools": others }));
    assert_eq!(words["choices"][0]["message"]["content"], BARE);
}

#[test]
fn calls_and_results_are_part_of_the_conversation() {
    let stage = Stage::new();
    let mut body = asked(SUM, json!({ "tools": tools(), "max_tokens": 8 }));
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(
        json!({ "role": "assistant", "content": null, "tool_calls": [
        { "id": "call_1", "type": "function",
          "function": { "name": "add", "arguments": "{\"a\": 347, \"b\": 85}" } },
    ] }),
    );
    messages.push(json!({ "role": "tool", "tool_call_id": "call_1", "content": "It makes 432." }));
    let (status, answer) = stage.post(CHAT, &body);
    assert_eq!(status, 200, "{answer}");
    let (status, rendered) = stage.post(
        "/apply-template",
        &json!({
            "model": "Ada", "messages": body["messages"], "tools": tools(),
        }),
    );
    assert_eq!(status, 200, "{rendered}");
    let prompt = rendered["prompt"].as_str().unwrap();
    for words in [
        "<|system|># Tools",
        "{\"type\": \"function\", \"function\": {\"name\": \"add\", \
         \"description\": \"Adds two numbers\", \"parameters\": {\"type\": \"object\"",
        "<|assistant|><tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 347, \"b\": 85}}\n\
         </tool_call><|end|>",
        "<|user|><tool_response>\nIt makes 432.\n</tool_response><|end|>",
    ] {
        assert!(prompt.contains(words), "{words}: {prompt}");
    }
}

#[test]
fn a_member_that_can_not_be_told_of_tools_is_named() {
    let stage = Stage::with_members(config(), Settings::default(), || {
        let mut members: Vec<AnyMember> =
            bundled().into_iter().take(1).map(AnyMember::from).collect();
        members.push(talker(None));
        members
    });
    let options =
        json!({ "tools": tools(), "tool_choice": "required", "parallel_tool_calls": false });
    let whole = stage.chat(SUM, options.clone());
    assert_eq!(calls(&whole).len(), 1, "{whole}");
    let left = whole["conclave"]["left"].as_array().unwrap();
    assert_eq!((left.len(), &left[0]["member"]), (1, &json!("speaker")));
    assert!(
        left[0]["error"].as_str().unwrap().contains("tools"),
        "{whole}"
    );
    let mut alone = asked(SUM, options);
    alone["model"] = json!("speaker");
    let (status, refused) = stage.post(CHAT, &alone);
    assert_eq!(status, 400, "{refused}");
    assert!(
        refused["error"]["message"]
            .as_str()
            .unwrap()
            .contains("--template"),
        "{refused}"
    );
    // It takes part again.
    assert!(stage.chat(SUM, json!({}))["conclave"].get("left").is_none());
}

#[test]
fn an_unsupported_parameter_is_refused_with_its_function() {
    let stage = Stage::new();
    let mut tools = tools();
    tools[1]["function"]["strict"] = json!(true);
    tools[1]["function"]["parameters"]["properties"]["x"] = json!({ "uniqueItems": true });
    for stream in [false, true] {
        let (status, refused) = stage.post(
            CHAT,
            &asked(SUM, json!({ "tools": tools, "stream": stream })),
        );
        let error = &refused["error"];
        assert_eq!(
            (status, &error["param"]),
            (400, &json!("tools")),
            "{refused}"
        );
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains("paint") && message.contains("#/properties/x"),
            "{message}"
        );
    }
    // Documents and calls in one form.
    let schema = json!({
        "type": "json_schema", "json_schema": { "name": "b", "schema": { "type": "boolean" } },
    });
    let answer = stage.chat(
        SUM,
        json!({ "tools": self::tools(), "response_format": schema, "parallel_tool_calls": false }),
    );
    let content = &answer["choices"][0]["message"]["content"];
    assert!(
        calls(&answer).len() == 1 || content == "true" || content == "false",
        "{answer}"
    );
}

/// The older options, and their replies: a field of the message, and one call.
#[test]
fn the_older_functions_are_called_by_their_older_name() {
    let stage = Stage::new();
    let functions: Vec<_> = tools()
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["function"].clone())
        .collect();
    let options = json!({ "functions": functions, "function_call": { "name": "paint" } });
    let whole = stage.chat(SUM, options.clone());
    let choice = &whole["choices"][0];
    assert_eq!(choice["finish_reason"], "function_call", "{whole}");
    assert_eq!(choice["message"].get("tool_calls"), None);
    let call = &choice["message"]["function_call"];
    let name = call["name"].as_str().unwrap();
    let arguments = call["arguments"].as_str().unwrap();
    assert_eq!(name, "paint");
    assert_call(name, arguments);
    let chunks = stage.stream(CHAT, &asked(SUM, options));
    let deltas = chunks.iter().filter_map(|chunk| {
        let delta = chunk["choices"].get(0)?["delta"].get("function_call")?;
        Some(delta.clone())
    });
    let deltas: Vec<_> = deltas.collect();
    assert_eq!(deltas[0]["name"], "paint");
    assert!(deltas[1..].iter().all(|delta| delta.get("name").is_none()));
    let joined: String = deltas
        .iter()
        .map(|delta| delta["arguments"].as_str().unwrap())
        .collect();
    assert_eq!(joined, arguments);
    let finish = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"].get(0)?["finish_reason"].as_str());
    assert_eq!(finish.collect::<Vec<_>>(), ["function_call"]);
    // Its result comes back by the older role.
    let body = json!({
        "functions": functions, "function_call": "none", "temperature": 0, "max_tokens": 8,
        "messages": [
            { "role": "user", "content": SUM },
            { "role": "assistant", "content": null, "function_call": call },
            { "role": "function", "name": "paint", "content": "done" },
        ],
    });
    let (status, told) = stage.post(CHAT, &body);
    assert_eq!(status, 200, "{told}");
    let (status, told) = stage.post(
        "/v1/responses",
        &json!({ "input": SUM, "functions": functions }),
    );
    assert_eq!(
        (status, &told["error"]["param"]),
        (400, &json!("functions")),
        "{told}"
    );
}

#[test]
fn a_template_is_told_whether_earlier_thoughts_are_kept() {
    const KEEPS: &str = "{% for m in messages %}<|user|>{{ m.content }}<|end|>{% endfor %}\
        {% if preserve_thinking is defined %}Kept: {{ preserve_thinking }}{% endif %}<|answer|>";
    let stage = Stage::with_members(config(), Settings::default(), || vec![talker(Some(KEEPS))]);
    for (kwargs, wanted) in [
        (json!({}), ""),
        (json!({ "preserve_thinking": true }), "Kept: True"),
        (json!({ "preserve_thinking": false }), "Kept: False"),
        // The next request starts afresh.
        (json!({ "preserve_thinking": null }), ""),
    ] {
        let options = json!({ "chat_template_kwargs": kwargs });
        let body = asked("Hi", options.clone());
        let (status, told) = stage.post("/apply-template", &body);
        let prompt = format!("<|user|>Hi<|end|>{wanted}<|answer|>");
        assert_eq!((status, &told["prompt"]), (200, &json!(prompt)), "{kwargs}");
        stage.chat("Hi", options);
    }
}
