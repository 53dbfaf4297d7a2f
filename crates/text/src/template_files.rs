//! Places where a model's files keep its chat template. A blank one counts as absent, as it would
//! drop every question.

use std::borrow::Cow;

use conclave_weights::{HuggingFace, Metadata, Value, without_python};
use serde_json::Value as Json;

use crate::TextError;

/// Name of a template for conversations with tools.
const FOR_TOOLS: &str = "tool_use";

/// Order in which a model's templates are taken, by their names; the unnamed one has none (`""`).
type Rank = fn(&str) -> Option<u8>;

/// Order for a plain conversation.
const PLAIN: Rank = |name| match name {
    "default" => Some(0),
    FOR_TOOLS | "rag" => Some(2),
    _ => Some(1),
};

/// Order for a conversation with tools.
const WITH_TOOLS: Rank = |name| (name == FOR_TOOLS).then_some(0);

/// Returns the template of a GGUF file: the unnamed one, else the best of those with a name.
pub(crate) fn in_metadata(metadata: &Metadata) -> Result<Option<&str>, TextError> {
    let unnamed = metadata.opt_str("tokenizer.chat_template")?;
    let unnamed = unnamed.and_then(filled);
    Ok(unnamed.or_else(|| named_in_metadata(metadata, PLAIN)))
}

/// Returns the template of a GGUF file that is named for conversations with tools.
pub(crate) fn for_tools_in_metadata(metadata: &Metadata) -> Option<&str> {
    named_in_metadata(metadata, WITH_TOOLS)
}

fn named_in_metadata(metadata: &Metadata, rank: Rank) -> Option<&str> {
    let named = metadata.iter().filter_map(|(key, value)| {
        let name = key.strip_prefix("tokenizer.chat_template.")?;
        match value {
            Value::String(template) => Some((name, template.as_str())),
            _ => None,
        }
    });
    best(named, rank)
}

/// Returns the template of a folder: `chat_template.jinja`, else the one in
/// `tokenizer_config.json`, else one elsewhere.
pub(crate) fn in_folder(files: &HuggingFace) -> Option<&str> {
    let own = files.chat_template.as_deref().and_then(filled);
    own.or_else(|| listed_in_folder(files, PLAIN))
}

/// Returns the template of a folder that is named for conversations with tools.
pub(crate) fn for_tools_in_folder(files: &HuggingFace) -> Option<&str> {
    listed_in_folder(files, WITH_TOOLS)
}

fn listed_in_folder(files: &HuggingFace, rank: Rank) -> Option<&str> {
    let config = files.tokenizer_config.as_ref();
    let listed = config.and_then(|config| config.get("chat_template"));
    let mut listed = listed.into_iter().chain(&files.other_templates);
    listed.find_map(|listed| among(listed, rank))
}

/// Returns the template in a file that is only for one: Jinja, or JSON as a folder has it
/// (`tokenizer_config.json`, `chat_template.json`), an object with `chat_template`, a list of
/// named ones, or a string, as `jq .chat_template` writes it. `None` for JSON without a template.
pub fn template_in(file: &str) -> Option<Cow<'_, str>> {
    let json = without_python(file.as_bytes().to_vec());
    let found = match serde_json::from_slice(&json) {
        Ok(Json::Object(fields)) => among(fields.get("chat_template")?, PLAIN)?.to_owned(),
        Ok(Json::Null) => return None,
        Ok(listed @ (Json::Array(_) | Json::String(_))) => among(&listed, PLAIN)?.to_owned(),
        _ => return Some(Cow::Borrowed(file)),
    };
    Some(Cow::Owned(found))
}

/// Returns a template without a byte order mark; `None` if it is blank.
pub(crate) fn filled(template: &str) -> Option<&str> {
    let template = template.trim_start_matches('\u{feff}');
    Some(template).filter(|template| !template.trim().is_empty())
}

/// Returns the first chat template by `rank` of a JSON value: a string or named ones.
fn among(listed: &Json, rank: Rank) -> Option<&str> {
    match listed {
        Json::String(template) => rank("").and_then(|_| filled(template)),
        Json::Object(named) => {
            let named = named.iter();
            let named = named.filter_map(|(name, one)| Some((name.as_str(), one.as_str()?)));
            best(named, rank)
        }
        Json::Array(named) => {
            let named = named.iter().filter_map(|one| {
                let text = |field| one.get(field).and_then(Json::as_str);
                Some((text("name")?, text("template")?))
            });
            best(named, rank)
        }
        _ => None,
    }
}

fn best<'a>(named: impl Iterator<Item = (&'a str, &'a str)>, rank: Rank) -> Option<&'a str> {
    let named = named.filter_map(|(name, template)| Some((rank(name)?, filled(template)?)));
    Some(named.min_by_key(|(rank, _)| *rank)?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_jinja_or_json_with_a_template() {
        let jinja = "{% for m in messages %}[{{ m.content }}]{% endfor %}";
        let other = "{{ messages }}";
        assert_eq!(template_in(jinja).as_deref(), Some(jinja));
        // It only looks like JSON.
        assert_eq!(template_in(other).as_deref(), Some(other));
        let python = format!(r#"{{"model_max_length": Infinity, "chat_template": "{jinja}"}}"#);
        assert_eq!(template_in(&python).as_deref(), Some(jinja));
        for json in [
            serde_json::json!({ "chat_template": jinja, "bos_token": "<s>" }),
            serde_json::json!({ "chat_template": [
                { "name": "tool_use", "template": other }, { "name": "default", "template": jinja },
            ] }),
            serde_json::json!([{ "name": "default", "template": jinja }]),
            serde_json::json!(jinja),
        ] {
            assert_eq!(
                template_in(&json.to_string()).as_deref(),
                Some(jinja),
                "{json}"
            );
        }
        for none in [
            r#"{"bos_token": "<s>"}"#,
            r#"{"chat_template": " "}"#,
            "[]",
            "null\n",
            r#"" ""#,
        ] {
            assert_eq!(template_in(none), None, "{none}");
        }
    }
}
