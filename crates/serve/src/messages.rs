//! Messages of a conversation, as clients write them.

use conclave_member::Message;
use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::options::{Options, is_empty};
use crate::tools;

/// Message fields that change its meaning and that members cannot read. All other fields describe
/// an earlier answer or belong to the client, and are ignored.
const UNREADABLE: [&str; 4] = ["attachments", "audio", "files", "images"];

/// Message fields with the same meaning: `prefix` (DeepSeek, Mistral) and `partial` (Moonshot).
pub(crate) const MARKS: [&str; 2] = ["prefix", "partial"];

/// Takes the conversation, and the field by which its last message asks to be continued.
pub(crate) fn read(
    options: &mut Options,
) -> Result<(Vec<Message>, Option<&'static str>), ApiError> {
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
        Some(Some("thinking" | "redacted_thinking" | "reasoning" | "reasoning_text")) => {
            return Ok(String::new());
        }
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
    use crate::chat;
    use crate::work::Task;

    fn read_all(messages: Value) -> Result<Vec<Message>, ApiError> {
        let body = json!({ "messages": messages }).to_string();
        let models = ["conclave".to_owned()];
        let (_, (task, _)) =
            Options::request(body.as_bytes(), &models, Sampling::default(), chat::read)?;
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
                { "type": "reasoning_text", "text": "Hm, hm." },
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
}
