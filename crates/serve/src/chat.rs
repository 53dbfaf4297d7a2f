//! Requests to `/v1/chat/completions`.

use conclave_member::Message;
use serde_json::Value;

use crate::error::ApiError;
use crate::options::{Options, Thoughts, Tokens};
use crate::work::{Chat, Task};
use crate::{functions, messages};

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
    // vLLM's name and default: the template has written them.
    options.flag("add_special_tokens")?;
    let schema = options.response_format()?;
    let tools = functions::read(options, schema.as_ref())?;
    let logprobs = logprobs(options)?;
    let goes_on = goes_on(options)?;
    let (mut messages, mark) = messages::read(options)?;
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

/// Parses a request that only renders a conversation: member, thoughts and conversation. Options
/// of the answer are ignored: clients render what they send to be answered.
///
/// # Errors
/// As [`read`]; 404 for an unknown model.
pub(crate) fn read_to_render(
    body: &[u8],
    models: &[String],
) -> Result<(Option<usize>, Thoughts, Task), ApiError> {
    let mut options = Options::read(body)?;
    let (_, member) = options.model(models)?;
    let thoughts = options.thoughts()?;
    options.drop_options_of_answers();
    let tools = functions::read(&mut options, None)?;
    let goes_on = goes_on(&mut options)?;
    let (mut messages, mark) = messages::read(&mut options)?;
    let begun = begun(&mut messages, goes_on, mark, None)?;
    options.nothing_else()?;
    let task = Task::Render {
        messages,
        begun,
        tools,
    };
    Ok((member, thoughts, task))
}

#[cfg(test)]
mod tests {
    use conclave_model::Sampling;
    use serde_json::json;

    use super::*;

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
        for mark in messages::MARKS {
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
