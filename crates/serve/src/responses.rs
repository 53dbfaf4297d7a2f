//! Requests to `/v1/responses`: a conversation as a list of items.

use conclave_member::Message;
use conclave_rounds::read_json;
use serde_json::{Map, Value, json};

use crate::error::ApiError;
use crate::messages;
use crate::options::{Options, Tokens, is_empty};
use crate::recent::Recent;
use crate::tools;
use crate::work::{Chat, Task};

mod reply;

pub(crate) use reply::{Items, whole};

/// Options that refer to what clients have stored on a server; this one stores nothing for them.
const STORED: [&str; 2] = ["conversation", "prompt"];

/// Options of Chat Completions, with their names here.
const MISNAMED: [(&str, &str); 4] = [
    ("messages", "input"),
    ("max_tokens", "max_output_tokens"),
    ("max_completion_tokens", "max_output_tokens"),
    ("n_predict", "max_output_tokens"),
];

/// Options without effect on an answer here.
const HINTS: [&str; 4] = ["include", "max_tool_calls", "truncation", "background"];

/// Options that a response repeats, with the values of requests that omit them.
fn repeated() -> Map<String, Value> {
    let usual = json!({
        "background": false,
        "instructions": null,
        "max_output_tokens": null,
        "max_tool_calls": null,
        "metadata": {},
        "parallel_tool_calls": true,
        "previous_response_id": null,
        "prompt_cache_key": null,
        "reasoning": { "effort": null, "summary": null },
        "safety_identifier": null,
        "service_tier": "default",
        "store": true,
        "temperature": null,
        "text": { "format": { "type": "text" } },
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": null,
        "truncation": "disabled",
        "user": null,
    });
    match usual {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Returns the options that the response repeats.
pub(crate) fn echo(body: &[u8]) -> Map<String, Value> {
    let asked = read_json(body).unwrap_or_default();
    let mut echo = repeated();
    for (name, value) in &mut echo {
        if let Some(asked) = asked.get(name).filter(|asked| !asked.is_null()) {
            value.clone_from(asked);
        }
    }
    echo
}

/// A request.
pub(crate) struct Asked {
    pub task: Task,
    pub tokens: Option<usize>,
    /// Conversation without the instructions.
    pub input: Vec<Message>,
}

/// Takes the conversation, which may refer to `recent` responses, its tools and the token limit.
///
/// # Errors
/// 400 with the option's name.
pub(crate) fn read(options: &mut Options, recent: &Recent) -> Result<Asked, ApiError> {
    for name in STORED {
        if options.take(name).is_some() {
            let message = format!(
                "The server stores nothing, so that `{name}` names nothing. Send the whole \
                 conversation as `input`."
            );
            return Err(ApiError::option(name, message));
        }
    }
    hints(options)?;
    options.misnamed(&MISNAMED)?;
    let tokens = options.tokens("max_output_tokens", 1)?;
    let format = text_format(options)?;
    if let Some(format) = format {
        options.put("response_format", format);
    }
    let schema = options.response_format();
    let schema = schema.map_err(ApiError::of_text_format)?;
    let tools = tools::read(options, schema.as_ref())?;
    let instructions = options.text("instructions")?;
    let mut input = earlier(options, recent)?;
    match options.take("input") {
        Some(Value::String(text)) => input.push(Message::new("user", text)),
        Some(Value::Array(items)) if !items.is_empty() => read_items(items, recent, &mut input)?,
        _ => {
            let message = "`input` has to be a text, or a list of at least one item.";
            return Err(ApiError::option("input", message));
        }
    }
    let mut messages = input.clone();
    if let Some(text) = instructions.filter(|text| !text.is_empty()) {
        match messages.first_mut().filter(|first| first.role == "system") {
            Some(system) => system.content = format!("{text}\n\n{}", system.content),
            None => messages.insert(0, Message::new("system", text)),
        }
    }
    let task = Task::Chat(Chat {
        messages,
        begun: String::new(),
        schema,
        tools,
        logprobs: None,
    });
    Ok(Asked {
        task,
        tokens: tokens.and_then(Tokens::limit),
        input,
    })
}

/// Takes `previous_response_id`; returns the conversation with that response.
fn earlier(options: &mut Options, recent: &Recent) -> Result<Vec<Message>, ApiError> {
    const PREVIOUS: &str = "previous_response_id";
    let id = options.text(PREVIOUS)?.filter(|id| !id.is_empty());
    let Some(id) = id else {
        return Ok(Vec::new());
    };
    let Some(response) = recent.response(&id) else {
        let message = format!(
            "The response `{id}` is not there any more: the server keeps recent ones, in memory, \
             unless `store` is false. Send the whole conversation as `input`."
        );
        let error = ApiError {
            code: Some("previous_response_not_found"),
            ..ApiError::option(PREVIOUS, message)
        };
        return Err(error.quoting(&id));
    };
    let mut messages = response.input;
    read_items(response.output, recent, &mut messages)?;
    Ok(messages)
}

/// Takes options without effect here, and refuses values that would have one.
fn hints(options: &mut Options) -> Result<(), ApiError> {
    for name in HINTS {
        let value = options.take(name);
        let asks = match (name, &value) {
            ("background", Some(value)) => *value != false,
            ("truncation", Some(value)) => value != "disabled",
            ("include", Some(Value::Array(parts))) => parts
                .iter()
                .any(|part| part == "message.output_text.logprobs"),
            _ => false,
        };
        if asks {
            let message = format!("The members can't honour `{name}`. Leave it out.");
            return Err(ApiError::option(name, message));
        }
    }
    Ok(())
}

/// Takes `text.format`, as Chat Completions have it.
fn text_format(options: &mut Options) -> Result<Option<Value>, ApiError> {
    let wrong = |message| Err(ApiError::option("text", message));
    let mut text = match options.take("text") {
        None => return Ok(None),
        Some(Value::Object(text)) => text,
        Some(_) => return wrong("`text` has to be an object."),
    };
    text.remove("verbosity");
    let format = text.remove("format");
    if let Some((name, _)) = text.iter().find(|(_, value)| !is_empty(value)) {
        let name = format!("text.{name}");
        let message = format!("The members can't honour `{name}`. Leave it out.");
        return Err(ApiError::option(&name, message));
    }
    Ok(match format {
        Some(Value::Object(mut format)) if format.get("type") == Some(&json!("json_schema")) => {
            format.remove("type");
            Some(json!({ "type": "json_schema", "json_schema": format }))
        }
        format => format,
    })
}

/// Reads the items of a conversation, which go on after `messages`.
fn read_items(
    items: Vec<Value>,
    recent: &Recent,
    messages: &mut Vec<Message>,
) -> Result<(), ApiError> {
    for (at, mut item) in items.into_iter().enumerate() {
        let place = &format!("input[{at}]");
        let wrong = |message: String| ApiError::at(place, message);
        if item["type"] == "item_reference" {
            let id = item["id"].as_str().unwrap_or_default();
            item = recent.item(id).ok_or_else(|| {
                wrong(format!(
                    "`{place}` refers to `{id}`, which is not there any more: the server keeps \
                     recent items, in memory, unless `store` is false. Send the item itself."
                ))
                .quoting(id)
            })?;
        }
        let kind = item.get("type").and_then(Value::as_str);
        match kind.unwrap_or("message") {
            // A text or a part of one by itself is the user's.
            _ if item.is_string() || kind == Some("input_text") => {
                messages.push(Message::new("user", messages::text(place, Some(item))?));
            }
            "message" => messages.push(messages::message(place, item)?),
            // Earlier reasoning is not part of a prompt.
            "reasoning" => {}
            "function_call" => {
                let id = item.get_mut("call_id").map(Value::take);
                let call = tools::earlier_call(id, item).ok_or_else(|| {
                    wrong(format!(
                        "`{place}` has to have a `name` and `arguments`, a text or an object."
                    ))
                })?;
                match messages.last_mut().filter(|last| last.role == "assistant") {
                    Some(last) => last.tool_calls.push(call),
                    None => messages.push(Message {
                        tool_calls: vec![call],
                        ..Message::new("assistant", "")
                    }),
                }
            }
            "function_call_output" => {
                let output = item.get_mut("output").map(Value::take);
                let output = match output {
                    Some(output) => messages::result(&format!("{place}.output"), output)?,
                    None => {
                        let message = format!("`{place}` has no `output`.");
                        return Err(wrong(message));
                    }
                };
                let id = item.get("call_id").and_then(Value::as_str);
                messages.push(Message {
                    tool_call_id: id.map(str::to_owned),
                    ..Message::new("tool", output)
                });
            }
            other => {
                return Err(wrong(format!(
                    "The members can't read `{place}`, an item of type `{other}`. Leave it out."
                ))
                .quoting(other));
            }
        }
    }
    match messages.is_empty() {
        true => Err(ApiError::option("input", "`input` has no message.")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use conclave_model::Sampling;

    use super::*;

    fn read_all(body: &Value) -> Result<Chat, ApiError> {
        let models = ["conclave".to_owned()];
        let body = body.to_string();
        let recent = Recent::default();
        let own = |options: &mut Options| read(options, &recent);
        let (_, asked) = Options::request(body.as_bytes(), &models, Sampling::default(), own)?;
        match asked.task {
            Task::Chat(chat) => Ok(chat),
            _ => unreachable!("it is a conversation"),
        }
    }

    #[test]
    fn items_are_a_conversation() {
        let chat = read_all(&json!({
            "instructions": "Be brief.",
            "input": [
                { "role": "developer", "content": "Be kind." },
                { "role": "user", "content": [{ "type": "input_text", "text": "Oslo?" }] },
                { "type": "reasoning", "summary": [] },
                { "type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
                  "content": [{ "type": "output_text", "text": "I'll see.", "annotations": [] }] },
                { "type": "function_call", "call_id": "call_1", "name": "weather",
                  "arguments": "{}" },
                { "type": "function_call_output", "call_id": "call_1", "output": "rain" },
            ],
            "store": true, "include": ["reasoning.encrypted_content"], "truncation": "disabled",
            "reasoning": { "effort": "low" },
            "text": { "format": { "type": "text" }, "verbosity": "low" },
        }))
        .unwrap();
        let said: Vec<_> = chat
            .messages
            .iter()
            .map(|one| (one.role.as_str(), one.content.as_str()))
            .collect();
        let wanted = [
            ("system", "Be brief.\n\nBe kind."),
            ("user", "Oslo?"),
            ("assistant", "I'll see."),
            ("tool", "rain"),
        ];
        assert_eq!(said, wanted);
        assert_eq!(chat.messages[2].tool_calls[0].name, "weather");
        assert_eq!(chat.messages[3].tool_call_id.as_deref(), Some("call_1"));
        let text = read_all(&json!({ "input": "Well?" })).unwrap();
        assert_eq!(text.messages, [Message::new("user", "Well?")]);
        for bare in [
            json!("Well?"),
            json!({ "type": "input_text", "text": "Well?" }),
        ] {
            let text = read_all(&json!({ "input": [bare] })).unwrap();
            assert_eq!(text.messages, [Message::new("user", "Well?")]);
        }
        let schema = json!({
            "type": "json_schema", "name": "b", "strict": true, "schema": { "type": "boolean" },
        });
        let form = read_all(&json!({ "input": "Well?", "text": { "format": schema } })).unwrap();
        assert_eq!(form.schema.as_deref(), Some(r#"{"type":"boolean"}"#));
    }

    #[test]
    fn what_can_not_be_honoured_is_refused_by_name() {
        for (mut body, name, word) in [
            (
                json!({ "previous_response_id": "resp_1" }),
                "previous_response_id",
                "whole conversation",
            ),
            (
                json!({ "conversation": "conv_1" }),
                "conversation",
                "stores nothing",
            ),
            (json!({ "background": true }), "background", "Leave"),
            (json!({ "truncation": "auto" }), "truncation", "Leave"),
            (json!({ "input": [] }), "input", "at least one"),
            (
                json!({ "input": [{ "type": "item_reference", "id": "x" }] }),
                "input",
                "refers to `x`",
            ),
            (
                json!({ "input": [{ "role": "user", "content": [{ "type": "input_image" }] }] }),
                "input",
                "`input[0].content[0]`",
            ),
            (
                json!({ "input": [{ "type": "function_call_output", "call_id": "x" }] }),
                "input",
                "`input[0]` has no `output`",
            ),
            (
                json!({ "tools": [{ "type": "web_search" }] }),
                "tools",
                "web_search",
            ),
            (
                json!({ "text": { "format": { "type": "grammar" } } }),
                "text.format",
                "json_schema",
            ),
            (json!({ "made_up": 1 }), "made_up", "Leave"),
            (
                json!({ "text": { "made_up": 1 } }),
                "text.made_up",
                "`text.made_up`",
            ),
            (
                json!({ "text": { "format": { "type": "json_schema", "strict": 5 } } }),
                "text.format.strict",
                "`text.format.strict`",
            ),
            (
                json!({ "text": { "format": { "type": "text", "schema": {} } } }),
                "text.format.schema",
                "`text.format.schema`",
            ),
            (
                json!({ "max_tokens": 5 }),
                "max_tokens",
                "`max_output_tokens`",
            ),
            (
                json!({ "max_completion_tokens": 5 }),
                "max_completion_tokens",
                "`max_output_tokens`",
            ),
            (
                json!({ "messages": [{ "role": "user", "content": "Well?" }] }),
                "messages",
                "`input`",
            ),
        ] {
            if body.get("input").is_none() {
                body["input"] = json!("Well?");
            }
            let error = read_all(&body).err().unwrap_or_else(|| panic!("{body}"));
            assert_eq!(error.param.as_deref(), Some(name), "{body}");
            assert!(error.message.contains(word), "{body}: {}", error.message);
        }
    }
}
