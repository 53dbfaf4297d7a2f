//! Options that let an answer call functions: `tools`, `tool_choice` and `parallel_tool_calls`.

use conclave_member::{Tool, ToolCall};
use conclave_rounds::{Calls, Function, read_json};
use serde_json::{Map, Value, json};

use crate::error::ApiError;
use crate::options::{Options, is_empty};

/// Maximum number of tools, as in OpenAI's API.
const MOST_TOOLS: usize = 128;

/// Maximum bytes of a tool's name.
const LONGEST_NAME: usize = 128;

/// Functions that an answer may call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Toolbox {
    /// All that members are told of.
    pub tools: Vec<Tool>,
    /// Form of the answer.
    pub calls: Calls,
    /// The request has the older `functions`, and its reply the older `function_call`.
    pub older: bool,
}

impl Toolbox {
    /// Rejects unsupported schemas.
    ///
    /// # Errors
    /// 400 with `tools` or `response_format`.
    pub fn check(&self) -> Result<(), ApiError> {
        self.calls.check().map_err(|(index, error)| match index {
            Some(index) => {
                let name = &self.calls.functions[index].name;
                let message =
                    format!("The members can't honour the parameters of `{name}`: {error}.");
                ApiError::option("tools", message).quoting(name)
            }
            None if self.calls.document.is_some() => ApiError::format(&error),
            None => ApiError::option(
                "tools",
                format!("The members can't honour `tools`: {error}."),
            ),
        })
    }
}

/// Choice of a tool.
enum Choice {
    None,
    Auto,
    Required,
    /// One of these, required or not.
    Among(Vec<String>, bool),
}

/// Takes the tools; `None` if no call is possible. `document` is the schema of an answer that is no
/// call.
///
/// # Errors
/// 400 with the option's name.
pub(crate) fn read(
    options: &mut Options,
    document: Option<&String>,
) -> Result<Option<Toolbox>, ApiError> {
    const CHOICE: &str = "tool_choice";
    let several = options.switch("parallel_tool_calls")?.unwrap_or(true);
    let listed = options.take("tools").filter(|tools| !is_empty(tools));
    let choice = choice(options.take(CHOICE))?;
    let listed = match (listed, &choice) {
        (_, Choice::None) | (None, Choice::Auto) => return Ok(None),
        (None, _) => {
            let message = "`tool_choice` asks for a call, and there are no `tools`. Add them.";
            return Err(ApiError::option(CHOICE, message));
        }
        (Some(Value::Array(tools)), _) if tools.len() <= MOST_TOOLS => tools,
        (Some(_), _) => {
            let message = format!("`tools` have to be a list of {MOST_TOOLS} at most.");
            return Err(ApiError::option("tools", message));
        }
    };
    let mut tools: Vec<Tool> = Vec::with_capacity(listed.len());
    let mut strict = Vec::new();
    for (at, one) in listed.into_iter().enumerate() {
        let (tool, is_strict) = tool(at, one)?;
        if tools.iter().any(|known| known.name == tool.name) {
            let message = format!("There are two `tools` named `{}`.", tool.name);
            return Err(ApiError::option("tools", message).quoting(&tool.name));
        }
        if is_strict {
            strict.push(tool.name.clone());
        }
        tools.push(tool);
    }
    let (required, among) = match choice {
        Choice::Among(names, required) => (required, Some(names)),
        choice => (matches!(choice, Choice::Required), None),
    };
    let named = matches!(&among, Some(names) if required && names.len() == 1);
    if let Some(unknown) = among.iter().flatten().find(|name| {
        let known = |tool: &Tool| tool.name == **name;
        !tools.iter().any(known)
    }) {
        let message = format!("`tool_choice` names `{unknown}`, which is none of the `tools`.");
        return Err(ApiError::option(CHOICE, message).quoting(unknown));
    }
    let may = |tool: &&Tool| {
        among
            .as_ref()
            .is_none_or(|names| names.contains(&tool.name))
    };
    let functions = tools.iter().filter(may).map(|tool| Function {
        name: tool.name.clone(),
        parameters: tool.parameters.clone(),
        strict: strict.contains(&tool.name),
    });
    let calls = Calls {
        functions: functions.collect(),
        required,
        several: several && !named,
        document: document.cloned(),
    };
    Ok(Some(Toolbox {
        tools,
        calls,
        older: false,
    }))
}

/// A named function, of Chat Completions (`function.name`) or of Responses (`name`).
fn name_of(choice: &Map<String, Value>) -> Option<String> {
    let inside = choice.get("function").and_then(|inside| inside.get("name"));
    let name = inside.or_else(|| choice.get("name"))?;
    name.as_str().map(str::to_owned)
}

fn choice(asked: Option<Value>) -> Result<Choice, ApiError> {
    let of_object = |asked: &Map<String, Value>| match asked
        .get("type")
        .map_or(Some("function"), Value::as_str)?
    {
        "none" => Some(Choice::None),
        "auto" => Some(Choice::Auto),
        "required" | "any" => Some(Choice::Required),
        "function" | "tool" => Some(Choice::Among(vec![name_of(asked)?], true)),
        "allowed_tools" => {
            let inside = asked.get("allowed_tools").and_then(Value::as_object);
            let inside = inside.unwrap_or(asked);
            let names = inside.get("tools")?.as_array()?.iter();
            let names = names.map(|one| name_of(one.as_object()?));
            let names: Vec<_> = names.collect::<Option<_>>()?;
            let required = inside.get("mode").is_some_and(|mode| mode == "required");
            (!names.is_empty()).then_some(Choice::Among(names, required))
        }
        _ => None,
    };
    let choice = match &asked {
        None => Some(Choice::Auto),
        Some(Value::String(word)) => match word.as_str() {
            "none" => Some(Choice::None),
            "auto" | "" => Some(Choice::Auto),
            // Mistral's name.
            "required" | "any" => Some(Choice::Required),
            _ => None,
        },
        Some(Value::Object(asked)) => of_object(asked),
        Some(_) => None,
    };
    choice.ok_or_else(|| {
        let message = "`tool_choice` has to be none, auto, required, or name functions of `tools`.";
        ApiError::option("tool_choice", message)
    })
}

/// One of `tools`, of Chat Completions (in `function`) or of Responses, and whether its parameters
/// have to be honoured whole.
fn tool(at: usize, tool: Value) -> Result<(Tool, bool), ApiError> {
    let error = |message: String| ApiError::option("tools", message);
    let wrong = |message: String| Err(error(message));
    let Value::Object(mut fields) = tool else {
        return wrong(format!("`tools[{at}]` has to be an object."));
    };
    match fields.get("type").map(Value::as_str) {
        // Some clients leave it out.
        Some(Some("function")) | None => {}
        kind => {
            let kind = kind.flatten().unwrap_or_default();
            return Err(error(format!(
                "`tools[{at}]` is of type `{kind}`, and the members call only functions of the \
                 client. Leave it out."
            ))
            .quoting(kind));
        }
    }
    if let Some(Value::Object(inside)) = fields.remove("function") {
        fields = inside;
    }
    let name = match fields.remove("name") {
        Some(Value::String(name)) if is_name(&name) => name,
        _ => {
            return wrong(format!(
                "`tools[{at}]` has to have a `name` of at most {LONGEST_NAME} letters, digits and \
                 `_-.:/`."
            ));
        }
    };
    let description = match fields.remove("description") {
        Some(Value::String(text)) => text,
        _ => String::new(),
    };
    // Anthropic's name of the parameters.
    let parameters = fields
        .remove("parameters")
        .or_else(|| fields.remove("input_schema"));
    let parameters = match parameters {
        Some(Value::Object(schema)) if !schema.is_empty() => {
            if !may_be_an_object(&schema) {
                let message = format!(
                    "The `parameters` of `{name}` have to be a schema of type `object`: a call has \
                     its arguments by name."
                );
                return Err(error(message).quoting(&name));
            }
            Value::Object(schema)
        }
        // No parameters.
        None | Some(Value::Null | Value::Object(_)) => {
            json!({ "type": "object", "properties": {} })
        }
        Some(_) => {
            let message = format!("The `parameters` of `{name}` have to be a schema.");
            return Err(error(message).quoting(&name));
        }
    };
    let strict = fields.get("strict") == Some(&Value::Bool(true));
    let tool = Tool {
        name,
        description,
        parameters,
    };
    Ok((tool, strict))
}

/// Whether a schema is of objects by `type`, `enum` and `const`, as far as it has them.
fn may_be_an_object(schema: &Map<String, Value>) -> bool {
    let kind = match schema.get("type") {
        None => true,
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(kind) => kind == "object",
    };
    let values = schema.get("enum").and_then(Value::as_array);
    let mut values = values.into_iter().flatten().chain(schema.get("const"));
    kind && values.all(Value::is_object)
}

fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:/".contains(&byte);
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(fits)
}

/// Reads the calls of an earlier answer; `place` names their message.
///
/// # Errors
/// 400 for anything but calls of functions.
pub(crate) fn earlier_calls(place: &str, calls: Option<Value>) -> Result<Vec<ToolCall>, ApiError> {
    let calls = match calls {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(calls)) => calls,
        Some(_) => {
            let message = format!("`{place}.tool_calls` have to be a list.");
            return Err(ApiError::at(place, message));
        }
    };
    let calls = calls.into_iter().enumerate();
    calls
        .map(|(at, mut call)| {
            let inside = call.get_mut("function").map(Value::take);
            let id = call.get_mut("id").map(Value::take);
            earlier_call(id, inside.unwrap_or_default()).ok_or_else(|| {
                let message = format!(
                    "`{place}.tool_calls[{at}]` has to have a `function` with a `name` and \
                     `arguments`, a text or an object."
                );
                ApiError::at(place, message)
            })
        })
        .collect()
}

/// An earlier call by its name and the text of its arguments, which a limit may have cut, or an
/// object; `None` for anything else.
pub(crate) fn earlier_call(id: Option<Value>, mut function: Value) -> Option<ToolCall> {
    let Some(Value::String(name)) = function.get_mut("name").map(Value::take) else {
        return None;
    };
    let arguments = match function.get_mut("arguments").map(Value::take) {
        Some(Value::String(text)) if text.trim().is_empty() => json!({}),
        // Like the body: clients that cut strings leave halves of surrogate pairs.
        Some(Value::String(text)) => {
            let read = read_json(text.as_bytes()).ok().filter(Value::is_object);
            read.unwrap_or(Value::String(text))
        }
        Some(Value::Null) | None => json!({}),
        Some(Value::Object(arguments)) => Value::Object(arguments),
        Some(_) => return None,
    };
    let id = match id {
        Some(Value::String(id)) => id,
        _ => String::new(),
    };
    Some(ToolCall {
        id,
        name,
        arguments,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(body: Value) -> Result<Option<Toolbox>, ApiError> {
        let mut options = Options::read(body.to_string().as_bytes())?;
        let toolbox = read(&mut options, None)?;
        options.nothing_else()?;
        Ok(toolbox)
    }

    fn two() -> Value {
        json!([
            { "type": "function", "function": {
                "name": "add", "description": "Adds", "strict": true,
                "parameters": { "type": "object", "properties": { "a": { "type": "integer" } } },
            } },
            { "type": "function", "name": "now" },
        ])
    }

    #[test]
    fn a_choice_names_what_may_be_called() {
        let form = |choice: Value, more: Value| {
            let mut body = more;
            body["tools"] = two();
            body["tool_choice"] = choice;
            let calls = read_all(body).unwrap().map(|toolbox| {
                assert_eq!(toolbox.tools.len(), 2);
                toolbox.calls
            });
            calls.map(|calls| {
                let names = calls.functions.iter().map(|one| one.name.clone());
                (
                    names.collect::<Vec<_>>().join(" "),
                    calls.required,
                    calls.several,
                )
            })
        };
        let said = |names: &str, required, several| Some((names.to_owned(), required, several));
        for (choice, wanted) in [
            (Value::Null, said("add now", false, true)),
            (json!("auto"), said("add now", false, true)),
            (json!("required"), said("add now", true, true)),
            (json!("none"), None),
            (
                json!({ "type": "function", "function": { "name": "now" } }),
                said("now", true, false),
            ),
            (
                json!({ "type": "function", "name": "now" }),
                said("now", true, false),
            ),
            // As other servers take it.
            (
                json!({ "function": { "name": "now" } }),
                said("now", true, false),
            ),
            (
                json!({ "type": "tool", "name": "now" }),
                said("now", true, false),
            ),
            (json!({ "type": "any" }), said("add now", true, true)),
            (json!({ "type": "auto" }), said("add now", false, true)),
            (json!({ "type": "none" }), None),
            (
                json!({ "type": "allowed_tools", "allowed_tools": { "mode": "auto",
                    "tools": [{ "type": "function", "function": { "name": "add" } }] } }),
                said("add", false, true),
            ),
            (
                json!({
                    "type": "allowed_tools", "mode": "required",
                    "tools": [{ "name": "add" }, { "name": "now" }],
                }),
                said("add now", true, true),
            ),
        ] {
            assert_eq!(form(choice.clone(), json!({})), wanted, "{choice}");
        }
        let mut body = json!({ "tools": two() });
        body["tools"][1]["strict"] = json!("true");
        let calls = read_all(body).unwrap().unwrap().calls;
        let strict: Vec<_> = calls.functions.iter().map(|one| one.strict).collect();
        assert_eq!(strict, [true, false]);
        let one = json!({ "parallel_tool_calls": false });
        assert_eq!(form(json!("auto"), one), said("add now", false, false));
        assert_eq!(
            read_all(json!({ "tools": [], "tool_choice": "auto" })),
            Ok(None)
        );
    }

    #[test]
    fn a_tool_is_read_without_its_type_and_by_another_name_of_its_parameters() {
        let schema = json!({ "type": "object", "properties": { "a": { "type": "integer" } } });
        for tool in [
            json!({ "function": { "name": "add", "parameters": schema } }),
            json!({ "name": "add", "input_schema": schema }),
        ] {
            let read = read_all(json!({ "tools": [tool] })).unwrap().unwrap();
            assert_eq!(read.tools[0].parameters, schema, "{tool}");
        }
    }

    #[test]
    fn what_is_no_tool_is_refused_by_its_place() {
        let long = "x".repeat(129);
        for (body, name, word) in [
            (json!({ "tools": {"a": 1} }), "tools", "list"),
            (json!({ "tools": ["add"] }), "tools", "tools[0]"),
            (
                json!({ "tools": [{ "type": "web_search" }] }),
                "tools",
                "web_search",
            ),
            (
                json!({ "tools": [{ "type": "function" }] }),
                "tools",
                "name",
            ),
            (
                json!({ "tools": [{ "type": "function", "name": long }] }),
                "tools",
                "128",
            ),
            (
                json!({ "tools": [{ "type": "function", "name": "a\"b" }] }),
                "tools",
                "name",
            ),
            (
                json!({ "tools": [{ "type": "function", "name": "a", "parameters": 5 }] }),
                "tools",
                "schema",
            ),
            (
                json!({ "tools": [
                    { "type": "function", "name": "a", "parameters": { "type": "array" } },
                ] }),
                "tools",
                "`object`",
            ),
            (
                json!({ "tools": [
                    { "type": "function", "name": "a", "parameters": { "enum": [1, 2] } },
                ] }),
                "tools",
                "`object`",
            ),
            (
                json!({ "tools": [
                    { "type": "function", "name": "a" }, { "type": "function", "name": "a" },
                ] }),
                "tools",
                "two",
            ),
            (
                json!({ "tools": two(), "tool_choice": "always" }),
                "tool_choice",
                "auto",
            ),
            (
                json!({ "tools": two(), "tool_choice": { "type": "function", "name": "sub" } }),
                "tool_choice",
                "sub",
            ),
            (
                json!({ "tool_choice": "required" }),
                "tool_choice",
                "no `tools`",
            ),
            (
                json!({ "parallel_tool_calls": 5 }),
                "parallel_tool_calls",
                "true or false",
            ),
        ] {
            let error = read_all(body.clone()).expect_err(&body.to_string());
            assert_eq!(error.param.as_deref(), Some(name), "{body}");
            assert!(error.message.contains(word), "{body}: {}", error.message);
        }
    }

    #[test]
    fn earlier_calls_are_read_with_arguments_of_either_kind() {
        let calls = json!([
            { "id": "call_1", "type": "function",
              "function": { "name": "add", "arguments": "{\"a\": 5}" } },
            { "type": "function", "function": { "name": "now", "arguments": {} } },
        ]);
        let read = earlier_calls("messages[1]", Some(calls)).unwrap();
        assert_eq!(
            (read[0].id.as_str(), &read[0].arguments),
            ("call_1", &json!({ "a": 5 }))
        );
        assert_eq!(
            (read[1].name.as_str(), &read[1].arguments),
            ("now", &json!({}))
        );
        let half = json!([{ "function": { "name": "add", "arguments": "{\"a\": \"\\ud83d\"}" } }]);
        let half = earlier_calls("messages[1]", Some(half)).unwrap();
        assert_eq!(half[0].arguments, json!({ "a": "\u{fffd}" }));
        let cut = json!([{ "function": { "name": "add", "arguments": "{\"a\": 5" } }]);
        let cut = earlier_calls("messages[1]", Some(cut)).unwrap();
        assert_eq!(cut[0].arguments, json!("{\"a\": 5"));
        let wrong = json!([{ "function": { "name": "add", "arguments": [5] } }]);
        let refused = earlier_calls("messages[1]", Some(wrong)).unwrap_err();
        assert!(
            refused.message.contains("messages[1].tool_calls[0]"),
            "{}",
            refused.message
        );
    }
}
