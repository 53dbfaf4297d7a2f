//! Functions that an answer may call, in a conversation: as templates of Hermes' and Qwen's form
//! take them, or written into the messages in the same form for all other templates.

use std::borrow::Cow;
use std::fmt::Write;

use minijinja::value::{Serde, Value};
use serde_json::Value as Json;

use crate::Message;
use crate::template_json::spaced;

/// A function that an answer may call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Purpose; may be empty.
    pub description: String,
    /// JSON schema of its arguments.
    pub parameters: Json,
}

/// A call in an earlier answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// Identifier, which a message of the role `tool` repeats.
    pub id: String,
    /// Name of the function.
    pub name: String,
    /// Arguments: a JSON object, or the text of a call that a limit cut.
    pub arguments: Json,
}

/// Maps each text of a value: control tokens in it are marked.
pub(crate) type Mark<'a> = &'a mut dyn FnMut(&str) -> String;

impl Tool {
    /// The value that templates take (OpenAI's format).
    pub(crate) fn value(&self, mark: Mark<'_>) -> Value {
        let mut function = vec![("name", Value::from(mark(&self.name)))];
        if !self.description.is_empty() {
            function.push(("description", Value::from(mark(&self.description))));
        }
        function.push(("parameters", marked(&self.parameters, mark)));
        Value::from_pairs([
            ("type", Value::from("function")),
            ("function", Value::from_pairs(function)),
        ])
    }
}

impl ToolCall {
    /// The value that templates take: OpenAI's format, with arguments as an object.
    pub(crate) fn value(&self, mark: Mark<'_>) -> Value {
        let function = Value::from_pairs([
            ("name", Value::from(mark(&self.name))),
            ("arguments", marked(&self.arguments, mark)),
        ]);
        Value::from_pairs([
            ("id", Value::from(mark(&self.id))),
            ("type", Value::from("function")),
            ("function", function),
        ])
    }

    /// The call as an answer contains it. Arguments that were cut are written as far as they go, as
    /// Qwen's template does.
    pub fn written(&self) -> String {
        let name = spaced(&Value::from(self.name.as_str()));
        let arguments = match &self.arguments {
            Json::String(cut) => cut.clone(),
            whole => spaced(&marked(whole, &mut |text| text.to_owned())),
        };
        format!("<tool_call>\n{{\"name\": {name}, \"arguments\": {arguments}}}\n</tool_call>")
    }

    /// Whether a limit cut its arguments.
    fn is_cut(&self) -> bool {
        self.arguments.is_string()
    }
}

impl Message {
    /// The value that templates take; with `parts`, its content is a list of one part.
    pub(crate) fn value(&self, parts: bool, mark: Mark<'_>) -> Value {
        let mut content = Value::from(mark(&self.content));
        if parts {
            let part = [("type", Value::from("text")), ("text", content)];
            content = Value::from(vec![Value::from_pairs(part)]);
        }
        let mut fields = vec![
            ("role", Value::from(mark(&self.role))),
            ("content", content),
        ];
        let texts = [("name", &self.name), ("tool_call_id", &self.tool_call_id)];
        for (field, text) in texts {
            if let Some(text) = text {
                fields.push((field, Value::from(mark(text))));
            }
        }
        if !self.tool_calls.is_empty() {
            let calls = self.tool_calls.iter().map(|call| call.value(mark));
            fields.push(("tool_calls", Value::from(calls.collect::<Vec<_>>())));
        }
        Value::from_pairs(fields)
    }

    /// Moves its calls to its text.
    fn write_calls_out(&mut self) {
        for call in std::mem::take(&mut self.tool_calls) {
            if !self.content.is_empty() {
                self.content.push('\n');
            }
            self.content.push_str(&call.written());
        }
    }
}

/// A JSON value for templates, with all texts and names of fields marked.
fn marked(json: &Json, mark: Mark<'_>) -> Value {
    match json {
        Json::String(text) => Value::from(mark(text)),
        Json::Array(items) => items
            .iter()
            .map(|item| marked(item, mark))
            .collect::<Vec<_>>()
            .into(),
        Json::Object(fields) => {
            let fields = fields.iter();
            let fields: Vec<_> = fields
                .map(|(name, value)| (mark(name), marked(value, mark)))
                .collect();
            Value::from_pairs(fields)
        }
        other => Value::from(Serde(other)),
    }
}

/// Whether a conversation has anything that only a template with tools can render.
pub(crate) fn are_used(tools: &[Tool], messages: &[Message]) -> bool {
    // The page, whose engine is to be small, has neither.
    if cfg!(target_family = "wasm") {
        return false;
    }
    let is_used = |message: &Message| message.role == "tool" || !message.tool_calls.is_empty();
    !tools.is_empty() || messages.iter().any(is_used)
}

/// Conversation in which a message with a cut call has all its calls written into its text: most
/// templates take only objects as arguments.
pub(crate) fn cut_written_out(messages: &[Message]) -> Cow<'_, [Message]> {
    let is_cut = |message: &Message| message.tool_calls.iter().any(ToolCall::is_cut);
    if !messages.iter().any(is_cut) {
        return Cow::Borrowed(messages);
    }
    let mut messages = messages.to_vec();
    for message in messages.iter_mut().filter(|message| is_cut(message)) {
        message.write_calls_out();
    }
    Cow::Owned(messages)
}

/// Writes tools into the system message, calls into the assistant's messages and results into the
/// user's, in the words of Hermes' and Qwen's templates.
pub fn written_out(tools: &[Tool], messages: &[Message]) -> Vec<Message> {
    let mut written: Vec<Message> = Vec::with_capacity(messages.len() + 1);
    let mut results = false;
    for message in messages {
        let mut plain = Message {
            tool_call_id: None,
            ..message.clone()
        };
        plain.write_calls_out();
        let is_result = message.role == "tool";
        if is_result {
            "user".clone_into(&mut plain.role);
            plain.name = None;
            plain.content = format!("<tool_response>\n{}\n</tool_response>", message.content);
        }
        match written.last_mut().filter(|_| is_result && results) {
            // Results of one answer's calls are one message.
            Some(last) => {
                last.content.push('\n');
                last.content.push_str(&plain.content);
            }
            None => written.push(plain),
        }
        results = is_result;
    }
    if !tools.is_empty() {
        let told = instructions(tools);
        match written.first_mut().filter(|first| first.role == "system") {
            Some(system) => {
                system.content.push_str("\n\n");
                system.content.push_str(&told);
            }
            None => written.insert(0, Message::new("system", told)),
        }
    }
    written
}

/// The description of tools for a system message.
pub fn instructions(tools: &[Tool]) -> String {
    let mut told =
        "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n\
        You are provided with function signatures within <tools></tools> XML tags:\n<tools>"
            .to_owned();
    for tool in tools {
        let tool = tool.value(&mut |text| text.to_owned());
        let _ = write!(told, "\n{}", spaced(&tool));
    }
    told.push_str(
        "\n</tools>\n\nFor each function call, return a json object with function name and \
         arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n\
         {\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>",
    );
    told
}
