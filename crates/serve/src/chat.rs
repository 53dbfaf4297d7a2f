//! Requests to `/v1/chat/completions`.

use conclave_member::{Message, Thinking};
use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::options::{Options, Tokens, is_empty};
use crate::tools;
use crate::work::{Chat, Task};

/// Message fields that change its meaning and that members cannot read. All other fields describe
/// an earlier answer or belong to the client, and are ignored.
const UNREADABLE: [&str; 4] = ["attachments", "audio", "files", "images"];

/// Options of other endpoints, with their names here.
const MISNAMED: [(&str, &str); 3] = [
    ("input", "messages"),
    ("prompt", "messages"),
    ("max_output_tokens", "max_completion_tokens"),
];

/// Maximum number of alternatives to a token, as in OpenAI's API.
const MOST_ALTERNATIVES: i128 = 20;

/// Option that makes the answer continue the last message.
const GO_ON: &str = "continue_final_message";

/// Message fields with the same meaning: `prefix` (DeepSeek, Mistral) and `partial` (Moonshot).
const MARKS: [&str; 2] = ["prefix", "partial"];

/// Takes the conversation, the response format and the token limit.
///
/// # Errors
/// 400 with the option's name.
pub(crate) fn read(options: &mut Options) -> Result<(Task, Option<usize>), ApiError> {
    options.misnamed(&MISNAMED)?;
    let mut tokens = None;
    // Later names override earlier ones.
    for name in ["n_predict", "max_tokens", "max_completion_tokens"] {
        tokens = options.tokens(name, 1)?.or(tokens);
    }
    let schema = options.response_format()?;
    let tools = tools::read(options, schema.as_ref())?;
    let logprobs = logprobs(options)?;
    let goes_on = goes_on(options)?;
    let (mut messages, mark) = messages(options)?;
    let form = match (&schema, &tools) {
        (Some(_), _) => Some("response_format"),
        (None, Some(_)) => Some("tools"),
        (None, None) => None,
    };
    let begun = begun(&mut messages, goes_on, mark, form)?;
    let task = Task::Chat(Chat {
        messages,
        begun,
        schema,
        tools,
        logprobs,
    });
    Ok((task, tokens.and_then(Tokens::limit)))
}

/// Takes whether the answer continues the last message.
fn goes_on(options: &mut Options) -> Result<bool, ApiError> {
    let goes_on = options.flag(GO_ON)?;
    if goes_on {
        // Redundant here.
        options.flag("add_generation_prompt")?;
    }
    Ok(goes_on)
}

/// Removes the last message if the answer continues it, and returns its text. `mark` is the field
/// of that message by which it asks to be continued, `form` the option that gives the answer a
/// form; the two exclude each other.
fn begun(
    messages: &mut Vec<Message>,
    goes_on: bool,
    mark: Option<&str>,
    form: Option<&str>,
) -> Result<String, ApiError> {
    let last = format!("messages[{}]", messages.len().saturating_sub(1));
    let (param, asked) = match mark {
        _ if goes_on => (GO_ON, GO_ON.to_owned()),
        Some(mark) => ("messages", format!("{last}.{mark}")),
        None => return Ok(String::new()),
    };
    let refused = |why: String| Err(ApiError::option(param, format!("`{asked}` {why}")));
    if let Some(form) = form {
        return refused(format!(
            "continues free text, and `{form}` gives the whole answer a form. \
             Leave one of them out."
        ));
    }
    match messages.pop() {
        Some(message) if message.role != "assistant" => refused(format!(
            "continues a message of the assistant, and `{last}` is of the role {}. Add the \
             beginning of the answer as a message of the role assistant.",
            message.role
        )),
        Some(message) if !message.tool_calls.is_empty() => refused(format!(
            "continues text, and `{last}` calls tools. Send their results as messages of the role \
             tool, without this option."
        )),
        Some(_) | None if messages.is_empty() => refused(format!(
            "continues an answer, and no message comes before `{last}`. Add what it answers."
        )),
        last => Ok(last.map(|last| last.content).unwrap_or_default()),
    }
}

/// Takes the number of alternatives to each token; `None` if no log-probabilities are asked for.
fn logprobs(options: &mut Options) -> Result<Option<usize>, ApiError> {
    const TOP: &str = "top_logprobs";
    let wanted = match options.take("logprobs") {
        None | Some(Value::Bool(false)) => false,
        Some(Value::Bool(true)) => true,
        Some(number) if number.as_f64() == Some(0.0) => false,
        Some(_) => {
            let message = "`logprobs` has to be true or false; `top_logprobs` is their number.";
            return Err(ApiError::option("logprobs", message));
        }
    };
    let most = match options.take(TOP) {
        // Some clients write it for 0.
        Some(Value::Bool(false)) => None,
        Some(number) => {
            options.put(TOP, number);
            options.whole(TOP, 0, MOST_ALTERNATIVES)?
        }
        None => None,
    };
    let most = usize::try_from(most.unwrap_or(0)).unwrap_or(0);
    if most > 0 && !wanted {
        let message = "`top_logprobs` come with `logprobs`: set that to true.";
        return Err(ApiError::option(TOP, message));
    }
    Ok(wanted.then_some(most))
}

/// Parses a request that only renders a conversation: member, thinking mode and conversation.
///
/// # Errors
/// As [`read`]; 404 for an unknown model.
pub(crate) fn read_to_render(
    body: &[u8],
    models: &[String],
) -> Result<(Option<usize>, Option<Thinking>, Task), ApiError> {
    let mut options = Options::read(body)?;
    let (_, member) = options.model(models)?;
    let thinking = options.thinking()?;
    let tools = tools::read(&mut options, None)?;
    let goes_on = goes_on(&mut options)?;
    let (mut messages, mark) = messages(&mut options)?;
    let begun = begun(&mut messages, goes_on, mark, None)?;
    options.nothing_else()?;
    let task = Task::Render {
        messages,
        begun,
        tools,
    };
    Ok((member, thinking, task))
}

/// Takes the conversation, and the field by which its last message asks to be continued.
fn messages(options: &mut Options) -> Result<(Vec<Message>, Option<&'static str>), ApiError> {
    match options.take("messages") {
        Some(Value::Array(messages)) if !messages.is_empty() => {
            let last = messages.last();
            let asks = |mark: &&str| last.and_then(|last| last.get(mark)) == Some(&true.into());
            let mark = MARKS.into_iter().find(asks);
            let messages = messages.into_iter().enumerate();
            let messages = messages.map(|(at, one)| message(&format!("messages[{at}]"), one));
            Ok((messages.collect::<Result<_, _>>()?, mark))
        }
        _ => {
            let message = "`messages` have to be a list of at least one message.";
            Err(ApiError::option("messages", message))
        }
    }
}

/// Reads the message at `place` of the request.
pub(crate) fn message(place: &str, message: Value) -> Result<Message, ApiError> {
    let wrong = |message: String| ApiError::at(place, message);
    let Value::Object(mut fields) = message else {
        return Err(wrong(format!("`{place}` has to be an object.")));
    };
    let role = match fields.remove("role") {
        Some(Value::String(role)) => role,
        _ => return Err(wrong(format!("`{place}` has no `role`."))),
    };
    let role = match role.as_str() {
        // Newer name of the system role.
        "developer" => "system",
        // Its older name, of the time of `function_call`.
        "function" => "tool",
        "system" | "user" | "assistant" | "tool" => &role,
        other => {
            return Err(wrong(format!(
                "The members know no role `{other}` as of `{place}`; there are system, developer, \
                 user, assistant and tool."
            ))
            .quoting(other));
        }
    };
    let content = match fields.remove("content") {
        // A refusal, or a message that only called tools.
        None | Some(Value::Null) if role == "assistant" => match fields.remove("refusal") {
            Some(Value::String(refusal)) => refusal,
            _ => String::new(),
        },
        content if role == "tool" => {
            result(&format!("{place}.content"), content.unwrap_or_default())?
        }
        content => text(&format!("{place}.content"), content)?,
    };
    let lost =
        |(name, value): &(&String, &Value)| UNREADABLE.contains(&name.as_str()) && !is_empty(value);
    if let Some((name, _)) = fields.iter().find(lost) {
        return Err(wrong(format!(
            "The members can't honour `{place}.{name}`. Leave it out."
        )));
    }
    let mut calls = tools::earlier_calls(place, fields.remove("tool_calls"))?;
    // The older field of one call.
    let call = fields
        .remove("function_call")
        .filter(|call| !is_empty(call));
    if let Some(call) = call.filter(|_| role == "assistant") {
        let call = tools::earlier_call(None, call).ok_or_else(|| {
            wrong(format!(
                "`{place}.function_call` has to have a `name` and `arguments`, a text or an object."
            ))
        })?;
        calls.push(call);
    }
    let mut word = |field: &str| match fields.remove(field) {
        Some(Value::String(text)) if !text.is_empty() => Some(text),
        _ => None,
    };
    Ok(Message {
        name: word("name"),
        tool_call_id: word("tool_call_id"),
        tool_calls: calls,
        ..Message::new(role, content)
    })
}

/// Reads a text, or a list of its parts.
pub(crate) fn text(place: &str, content: Option<Value>) -> Result<String, ApiError> {
    match content {
        Some(Value::String(text)) => Ok(text),
        Some(Value::Null) => Ok(String::new()),
        Some(one @ Value::Object(_)) => part(place, one),
        Some(Value::Array(parts)) => {
            let parts = parts.into_iter().enumerate();
            let parts = parts.map(|(at, one)| part(&format!("{place}[{at}]"), one));
            parts.collect()
        }
        _ => Err(ApiError::at(
            place,
            format!("`{place}` has to be a text or a list of texts."),
        )),
    }
}

/// Reads a tool's result: a text, a list of its parts, or any JSON value, which is written as such.
pub(crate) fn result(place: &str, content: Value) -> Result<String, ApiError> {
    let is_part = |one: &Value| one.is_string() || one.get("type").is_some();
    match content {
        Value::Null => Ok(String::new()),
        Value::Array(parts) if !parts.iter().all(is_part) => Ok(Value::Array(parts).to_string()),
        content @ (Value::String(_) | Value::Array(_)) => text(place, Some(content)),
        value => Ok(value.to_string()),
    }
}

/// Text of a content part; other kinds are an error.
fn part(place: &str, part: Value) -> Result<String, ApiError> {
    let mut fields = match part {
        Value::String(text) => return Ok(text),
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    let kind = fields.remove("type");
    let field = match kind.as_ref().map(Value::as_str) {
        None | Some(Some("text" | "input_text" | "output_text")) => "text",
        Some(Some("refusal")) => "refusal",
        // Earlier reasoning is not part of a prompt.
        Some(Some("thinking" | "redacted_thinking" | "reasoning")) => return Ok(String::new()),
        _ => {
            let kind = kind.unwrap_or_default();
            let kind = kind
                .as_str()
                .map_or_else(|| kind.to_string(), str::to_owned);
            let message = format!(
                "The members read text alone, and `{place}` is of type `{kind}`. Leave it out."
            );
            return Err(ApiError::at(place, message).quoting(&kind));
        }
    };
    match fields.remove(field) {
        Some(Value::String(text)) => Ok(text),
        Some(Value::Null) => Ok(String::new()),
        _ => Err(ApiError::at(
            place,
            format!("`{place}` has no text as its `{field}`."),
        )),
    }
}

#[cfg(test)]
mod tests {
    use conclave_model::Sampling;
    use serde_json::json;

    use super::*;

    fn read_all(messages: Value) -> Result<Vec<Message>, ApiError> {
        let body = json!({ "messages": messages }).to_string();
        let models = ["conclave".to_owned()];
        let (_, (task, _)) = Options::request(body.as_bytes(), &models, Sampling::default(), read)?;
        match task {
            Task::Chat(chat) => Ok(chat.messages),
            _ => unreachable!("it is a conversation"),
        }
    }

    #[test]
    fn a_conversation_is_read() {
        let messages = read_all(json!([
            { "role": "developer", "content": "Be brief." },
            { "role": "user", "content": [
                { "type": "text", "text": "Well" }, { "type": "text", "text": "?" },
            ] },
            { "role": "assistant", "content": null, "refusal": null, "annotations": [] },
            { "role": "user", "content": "Then?" },
        ]))
        .unwrap();
        let wanted = [
            ("system", "Be brief."),
            ("user", "Well?"),
            ("assistant", ""),
            ("user", "Then?"),
        ];
        assert_eq!(
            messages,
            wanted.map(|(role, text)| Message::new(role, text))
        );
    }

    #[test]
    fn what_clients_give_back_of_an_answer_is_passed_over() {
        let messages = read_all(json!([
            { "role": "user", "content": ["We", { "type": "input_text", "text": "ll?" }],
              "name": "Ann", "id": "msg-1", "cache_control": { "type": "ephemeral" } },
            { "role": "assistant", "content": "Yes.", "reasoning_content": "Hm.",
              "reasoning": "Hm.", "refusal": "", "parsed": {}, "id": "x", "tool_calls": [],
              "function_call": null, "audio": null, "annotations": [{}],
              "conclave": { "stop": "ended" }, "name": "x" },
            { "role": "assistant", "content": [
                { "type": "reasoning", "text": "Hm." }, { "type": "refusal", "refusal": "I" },
                { "type": "output_text", "text": " won't.", "annotations": [] },
            ] },
            { "role": "assistant", "content": null, "refusal": "No." },
        ]))
        .unwrap();
        let told: Vec<_> = messages
            .iter()
            .map(|one| (one.role.as_str(), one.content.as_str(), one.name.as_deref()))
            .collect();
        let wanted = [
            ("user", "Well?", Some("Ann")),
            ("assistant", "Yes.", Some("x")),
            ("assistant", "I won't.", None),
            ("assistant", "No.", None),
        ];
        assert_eq!(told, wanted);
    }

    #[test]
    fn what_the_members_cannot_read_is_refused() {
        for (messages, word) in [
            (json!([]), "at least one"),
            (json!("Well?"), "list"),
            (json!(["Well?"]), "object"),
            (json!([{ "content": "Well?" }]), "role"),
            (json!([{ "role": "critic", "content": "4" }]), "critic"),
            (json!([{ "role": "user" }]), "content"),
            (
                json!([{ "role": "user", "content": [{ "type": "image_url", "image_url": {} }] }]),
                "`messages[0].content[0]` is of type `image_url`",
            ),
            (
                json!([{ "role": "user", "content": "Well?", "images": ["…"] }]),
                "messages[0].images",
            ),
            (
                json!([
                    { "role": "user", "content": "Well?" },
                    { "role": "assistant", "content": null, "tool_calls": [{ "id": "1" }] },
                ]),
                "messages[1].tool_calls",
            ),
            (
                json!([{ "role": "user", "content": [{ "type": "text" }] }]),
                "text",
            ),
            (
                json!([{ "role": "user", "content": ["Well?", 5] }]),
                "`messages[0].content[1]`",
            ),
        ] {
            let error = read_all(messages.clone()).expect_err(word);
            assert!(
                error.message.contains(word),
                "{messages}: {}",
                error.message
            );
            assert_eq!(error.param.as_deref(), Some("messages"));
        }
    }

    #[test]
    fn calls_and_their_results_are_read() {
        let messages = read_all(json!([
            { "role": "user", "content": "Oslo?" },
            { "role": "assistant", "content": null, "tool_calls": [
                { "id": "call_1", "type": "function",
                  "function": { "name": "weather", "arguments": "{\"city\": \"Oslo\"}" } },
            ] },
            { "role": "tool", "tool_call_id": "call_1",
              "content": [{ "type": "text", "text": "rain" }] },
        ]))
        .unwrap();
        let call = &messages[1].tool_calls[0];
        assert_eq!(
            (call.id.as_str(), call.name.as_str()),
            ("call_1", "weather")
        );
        assert_eq!(call.arguments, json!({ "city": "Oslo" }));
        let result = &messages[2];
        assert_eq!(
            (result.role.as_str(), result.content.as_str()),
            ("tool", "rain")
        );
        assert_eq!(result.tool_call_id.as_deref(), Some("call_1"));
    }

    #[test]
    fn an_older_call_and_its_result_are_read() {
        let messages = read_all(json!([
            { "role": "user", "content": { "type": "text", "text": "Oslo?" } },
            { "role": "assistant", "content": null,
              "function_call": { "name": "weather", "arguments": "{\"city\": \"Oslo\"}" } },
            { "role": "function", "name": "weather", "content": "rain" },
            { "role": "user", "content": null },
            { "role": "user", "content": [{ "type": "text", "text": null }] },
        ]))
        .unwrap();
        let said: Vec<_> = messages
            .iter()
            .map(|one| (one.role.as_str(), one.content.as_str()))
            .collect();
        let wanted = [
            ("user", "Oslo?"),
            ("assistant", ""),
            ("tool", "rain"),
            ("user", ""),
            ("user", ""),
        ];
        assert_eq!(said, wanted);
        assert_eq!(
            messages[1].tool_calls[0].arguments,
            json!({ "city": "Oslo" })
        );
        let wrong = json!([{ "role": "assistant", "function_call": { "name": 5 } }]);
        let error = read_all(wrong).unwrap_err();
        assert!(
            error.message.contains("messages[0].function_call"),
            "{}",
            error.message
        );
    }

    #[test]
    fn a_result_is_text_however_its_tool_gives_it() {
        for (content, wanted) in [
            (json!("rain"), "rain"),
            (json!(null), ""),
            (json!([]), ""),
            (json!(["ra", { "type": "text", "text": "in" }]), "rain"),
            (
                json!({ "sky": "rain", "degrees": [5, 6] }),
                r#"{"sky":"rain","degrees":[5,6]}"#,
            ),
            (json!([{ "sky": "rain" }, 5]), r#"[{"sky":"rain"},5]"#),
            (json!(5.5), "5.5"),
            (json!(true), "true"),
        ] {
            let messages = read_all(json!([{ "role": "tool", "content": content }])).unwrap();
            assert_eq!(messages[0].content, wanted);
        }
        let none = read_all(json!([{ "role": "tool", "tool_call_id": "x" }])).unwrap();
        assert_eq!(none[0].content, "");
        let image = json!([{ "role": "tool", "content": [{ "type": "image_url" }] }]);
        let refused = read_all(image).unwrap_err();
        assert!(
            refused.message.contains("`messages[0].content[0]`"),
            "{}",
            refused.message
        );
    }

    #[test]
    fn an_answer_goes_on_from_the_last_message_where_that_is_asked_for() {
        let begun = |last: Value, options: Value| {
            let mut body = options;
            body["messages"] = json!([{ "role": "user", "content": "Well?" }, last]);
            let models = ["conclave".to_owned()];
            let body = body.to_string();
            let read = Options::request(body.as_bytes(), &models, Sampling::default(), read);
            read.map(|(_, (task, _))| match task {
                Task::Chat(chat) => (chat.messages.len(), chat.begun),
                _ => unreachable!("it is a conversation"),
            })
        };
        let said = json!({ "role": "assistant", "content": "Yes, " });
        let wanted = Ok((1, "Yes, ".to_owned()));
        let asks = json!({ "continue_final_message": true, "add_generation_prompt": false });
        assert_eq!(begun(said.clone(), asks.clone()), wanted);
        for mark in MARKS {
            let mut marked = said.clone();
            marked[mark] = json!(true);
            assert_eq!(begun(marked, json!({})), wanted);
        }
        assert_eq!(begun(said.clone(), json!({})), Ok((2, String::new())));
        let why = |last: Value, mut options: Value, more: Value| {
            for (name, value) in more.as_object().unwrap() {
                options[name] = value.clone();
            }
            let refused = begun(last, options).unwrap_err();
            (refused.param.unwrap(), refused.message)
        };
        let user = json!({ "role": "user", "content": "Then?" });
        let called =
            json!({ "role": "assistant", "tool_calls": [{ "function": { "name": "add" } }] });
        let object = json!({ "response_format": { "type": "json_object" } });
        let tools = json!({ "tools": [{ "type": "function", "name": "add" }] });
        for (last, more, word) in [
            (user.clone(), json!({}), "`messages[1]` is of the role user"),
            (called, json!({}), "`messages[1]` calls tools"),
            (said.clone(), object, "`response_format` gives"),
            (said.clone(), tools, "`tools` gives"),
        ] {
            let (param, message) = why(last, asks.clone(), more);
            assert_eq!(param, "continue_final_message");
            assert!(
                message.starts_with("`continue_final_message` "),
                "{message}"
            );
            assert!(message.contains(word), "{message}");
        }
        let mut marked = user;
        marked["prefix"] = json!(true);
        let (param, message) = why(marked, json!({}), json!({}));
        assert_eq!(param, "messages");
        assert!(message.starts_with("`messages[1].prefix` "), "{message}");
        let mut alone = asks;
        alone["messages"] = json!([said]);
        let models = ["conclave".to_owned()];
        let body = alone.to_string();
        let alone = Options::request(body.as_bytes(), &models, Sampling::default(), read);
        let message = alone.err().unwrap().message;
        assert!(
            message.contains("no message comes before `messages[0]`"),
            "{message}"
        );
    }

    #[test]
    fn the_later_name_of_the_limit_goes_first() {
        let limit = |body: Value| {
            let mut body = body;
            body["messages"] = json!([{ "role": "user", "content": "Well?" }]);
            let body = body.to_string();
            let models = ["conclave".to_owned()];
            Options::request(body.as_bytes(), &models, Sampling::default(), read)
                .map(|(_, (_, tokens))| tokens)
        };
        assert_eq!(limit(json!({})).unwrap(), None);
        assert_eq!(limit(json!({ "max_tokens": 5 })).unwrap(), Some(5));
        let both = json!({ "max_tokens": 5, "max_completion_tokens": 6 });
        assert_eq!(limit(both).unwrap(), Some(6));
        for (number, wanted) in [
            (json!(-1), None),
            (json!(100.0), Some(100)),
            (json!(1e9), Some(1_000_000_000)),
        ] {
            assert_eq!(limit(json!({ "max_tokens": number })).unwrap(), wanted);
        }
        for number in [json!(0), json!(0.5), json!(-7)] {
            let none = limit(json!({ "max_tokens": number })).unwrap_err();
            assert_eq!(none.param.as_deref(), Some("max_tokens"));
        }
    }
}
