//! `/v1/chat/completions`: what is asked for.

use conclave_member::Message;
use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::options::Options;
use crate::work::Task;

/// Takes the conversation and the form of the answer, and the most tokens of it.
///
/// # Errors
/// 400 with the option's name.
pub(crate) fn read(options: &mut Options) -> Result<(Task, Option<usize>), ApiError> {
    let older = options.tokens("max_tokens", 1)?;
    let tokens = options.tokens("max_completion_tokens", 1)?.or(older);
    let schema = options.response_format()?;
    let messages = messages(options)?;
    Ok((Task::Chat { messages, schema }, tokens))
}

/// Reads a request to render a conversation and to answer nothing: which member, and the
/// conversation.
///
/// # Errors
/// As [`read`]; 404 for a model that there isn't.
pub(crate) fn read_to_render(
    body: &[u8],
    models: &[String],
) -> Result<(Option<usize>, Task), ApiError> {
    let mut options = Options::read(body)?;
    let (_, member) = options.model(models)?;
    // Whether members think was said when they were loaded.
    options.take("chat_template_kwargs");
    let messages = messages(&mut options)?;
    options.nothing_else()?;
    Ok((member, Task::Render { messages }))
}

/// Takes the conversation.
fn messages(options: &mut Options) -> Result<Vec<Message>, ApiError> {
    let messages = match options.take("messages") {
        Some(Value::Array(messages)) if !messages.is_empty() => messages,
        _ => {
            let message = "`messages` have to be a list of at least one message.";
            return Err(ApiError::option("messages", message));
        }
    };
    let messages: Vec<Message> = messages
        .into_iter()
        .map(message)
        .collect::<Result<_, _>>()?;
    if messages.last().is_none_or(|last| last.role != "user") {
        let message = "There is nothing to answer. Let the last message be the user's.";
        return Err(ApiError::option("messages", message));
    }
    Ok(messages)
}

fn message(message: Value) -> Result<Message, ApiError> {
    let wrong = |message: String| ApiError::option("messages", message);
    let Value::Object(mut fields) = message else {
        return Err(wrong("Each message has to be an object.".to_owned()));
    };
    let role = match fields.remove("role") {
        Some(Value::String(role)) => role,
        _ => return Err(wrong("A message has no `role`.".to_owned())),
    };
    let role = match role.as_str() {
        // Its later name.
        "developer" => "system",
        "system" | "user" | "assistant" => &role,
        other => {
            return Err(wrong(format!(
                "The members know no role `{other}`; there are system, developer, user and assistant."
            )));
        }
    };
    let content = match fields.remove("content") {
        Some(Value::String(text)) => text,
        Some(Value::Array(parts)) => parts.into_iter().map(part).collect::<Result<_, _>>()?,
        // An assistant's that only called tools.
        None | Some(Value::Null) if role == "assistant" => String::new(),
        _ => return Err(wrong("A message has no `content` of text.".to_owned())),
    };
    nothing_else(&fields)?;
    Ok(Message::new(role, content))
}

/// A part of a message: the members read text alone.
fn part(part: Value) -> Result<String, ApiError> {
    match part {
        Value::Object(mut fields) if fields.get("type").is_some_and(|kind| kind == "text") => {
            match fields.remove("text") {
                Some(Value::String(text)) => Ok(text),
                _ => Err(ApiError::option(
                    "messages",
                    "A part of a message has no `text`.",
                )),
            }
        }
        other => {
            let kind = other.get("type").cloned().unwrap_or_default();
            let message = format!(
                "The members read text alone, and a message has a part of type {kind}. Leave it out."
            );
            Err(ApiError::option("messages", message))
        }
    }
}

/// What a client gives back of an answer holds fields that are empty; what is in others would be
/// lost.
fn nothing_else(fields: &Map<String, Value>) -> Result<(), ApiError> {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        _ => false,
    };
    match fields.iter().find(|(_, value)| !empty(value)) {
        None => Ok(()),
        Some((name, _)) => {
            let message = format!("The members can't honour a message's `{name}`. Leave it out.");
            Err(ApiError::option("messages", message))
        }
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
            Task::Chat { messages, .. } => Ok(messages),
            _ => unreachable!("it is a conversation"),
        }
    }

    #[test]
    fn a_conversation_is_read() {
        let messages = read_all(json!([
            { "role": "developer", "content": "Be brief." },
            { "role": "user", "content": [{ "type": "text", "text": "Well" }, { "type": "text", "text": "?" }] },
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
    fn what_the_members_cannot_read_is_refused() {
        for (messages, word) in [
            (json!([]), "at least one"),
            (json!("Well?"), "list"),
            (json!(["Well?"]), "object"),
            (json!([{ "content": "Well?" }]), "role"),
            (json!([{ "role": "tool", "content": "4" }]), "tool"),
            (json!([{ "role": "user" }]), "content"),
            (
                json!([{ "role": "user", "content": [{ "type": "image_url", "image_url": {} }] }]),
                "image_url",
            ),
            (
                json!([{ "role": "user", "content": "Well?", "name": "Ann" }]),
                "name",
            ),
            (
                json!([{ "role": "user", "content": "Well?" }, { "role": "assistant", "content": "Yes." }]),
                "nothing to answer",
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
        let none = limit(json!({ "max_tokens": 0 })).unwrap_err();
        assert_eq!(none.param.as_deref(), Some("max_tokens"));
    }
}
