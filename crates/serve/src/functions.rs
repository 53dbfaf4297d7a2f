//! The older options `functions` and `function_call`, read as `tools` and `tool_choice`.

use serde_json::{Map, Value, json};

use crate::error::ApiError;
use crate::options::{Options, is_empty};
use crate::tools::{self, Toolbox};

const FUNCTIONS: &str = "functions";
const CALL: &str = "function_call";

/// Takes the tools, by their older names, too. An answer calls one of `functions` at most.
///
/// # Errors
/// Those of [`tools::read`], with the names that the request has; both kinds together.
pub(crate) fn read(
    options: &mut Options,
    document: Option<&String>,
) -> Result<Option<Toolbox>, ApiError> {
    let Some(functions) = options.take(FUNCTIONS).filter(|list| !is_empty(list)) else {
        return tools::read(options, document);
    };
    if options.take("tools").is_some_and(|tools| !is_empty(&tools)) {
        let message = "`functions` is the older name of `tools`. Send all as `tools`.";
        return Err(ApiError::option(FUNCTIONS, message));
    }
    options.put("tools", functions);
    options.put("parallel_tool_calls", json!(false));
    if let Some(choice) = options.take(CALL).filter(|choice| !is_empty(choice)) {
        options.put("tool_choice", choice);
    }
    let toolbox = tools::read(options, document).map_err(|error| {
        let error = by_older_name(error, "tools", FUNCTIONS);
        by_older_name(error, "tool_choice", CALL)
    })?;
    Ok(toolbox.map(|toolbox| Toolbox {
        older: true,
        ..toolbox
    }))
}

/// Names `older` where the error names `name`, also in `name[2]`.
fn by_older_name(error: ApiError, name: &str, older: &str) -> ApiError {
    let is = error.param.as_deref() == Some(name);
    ApiError {
        param: if is {
            Some(older.to_owned())
        } else {
            error.param
        },
        message: error
            .message
            .replace(&format!("`{name}`"), &format!("`{older}`"))
            .replace(&format!("`{name}["), &format!("`{older}[")),
        ..error
    }
}

/// Returns the field of a message that has a call, or of a change of it: its name comes first.
pub(crate) fn call(name: Option<&str>, arguments: &str) -> Map<String, Value> {
    let mut call = json!({ "arguments": arguments });
    if let Some(name) = name {
        call["name"] = json!(name);
    }
    Map::from_iter([(CALL.to_owned(), call)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(body: &Value) -> Result<Option<Toolbox>, ApiError> {
        let mut options = Options::read(body.to_string().as_bytes())?;
        let toolbox = read(&mut options, None)?;
        options.nothing_else()?;
        Ok(toolbox)
    }

    #[test]
    fn functions_are_tools_of_which_one_is_called() {
        let add = json!({ "name": "add", "parameters": { "type": "object", "properties": {} } });
        let now = json!({ "name": "now", "description": "Tells the time" });
        for (choice, wanted) in [
            (Value::Null, Some(("add now", false))),
            (json!("auto"), Some(("add now", false))),
            (json!({ "name": "now" }), Some(("now", true))),
            (json!("none"), None),
        ] {
            let body = json!({ "functions": [add, now], "function_call": choice });
            let toolbox = read_all(&body).unwrap();
            let told = toolbox.as_ref().map(|toolbox| {
                assert!(toolbox.older && !toolbox.calls.several && toolbox.tools.len() == 2);
                let names = toolbox.calls.functions.iter().map(|one| one.name.clone());
                (names.collect::<Vec<_>>().join(" "), toolbox.calls.required)
            });
            let wanted = wanted.map(|(names, required)| (names.to_owned(), required));
            assert_eq!(told, wanted, "{choice}");
        }
        let tools = json!([{ "type": "function", "function": add }]);
        let new = read_all(&json!({ "tools": tools, "functions": [] })).unwrap();
        assert!(!new.unwrap().older);
        for (body, name, word) in [
            (
                json!({ "functions": [add], "tools": tools }),
                "functions",
                "as `tools`",
            ),
            (json!({ "functions": [5] }), "functions", "`functions[0]`"),
            (
                json!({ "functions": [add], "function_call": { "name": "sub" } }),
                "function_call",
                "none of the `functions`",
            ),
            (
                json!({ "function_call": { "name": "add" } }),
                "function_call",
                "function_call",
            ),
        ] {
            let error = read_all(&body).expect_err(&body.to_string());
            assert_eq!(error.param.as_deref(), Some(name), "{body}");
            assert!(error.message.contains(word), "{body}: {}", error.message);
        }
    }
}
