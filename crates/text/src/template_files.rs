//! Places where a model's files keep its chat template. A blank one counts as absent, as it would
//! drop every question.

use conclave_weights::{HuggingFace, Metadata, Value};
use serde_json::Value as Json;

use crate::TextError;

/// Returns the template of a GGUF file: the unnamed one, else the best of those with a name.
pub(crate) fn in_metadata(metadata: &Metadata) -> Result<Option<&str>, TextError> {
    let unnamed = metadata.opt_str("tokenizer.chat_template")?;
    let named = metadata.iter().filter_map(|(key, value)| {
        let name = key.strip_prefix("tokenizer.chat_template.")?;
        match value {
            Value::String(template) => Some((name, template.as_str())),
            _ => None,
        }
    });
    Ok(unnamed.and_then(filled).or_else(|| best(named)))
}

/// Returns the template of a folder: `chat_template.jinja`, else the one in
/// `tokenizer_config.json`, else one elsewhere.
pub(crate) fn in_folder(files: &HuggingFace) -> Option<&str> {
    let config = files.tokenizer_config.as_ref();
    let listed = config.and_then(|config| config.get("chat_template"));
    let mut listed = listed.into_iter().chain(&files.other_templates);
    let own = files.chat_template.as_deref().and_then(filled);
    own.or_else(|| listed.find_map(among))
}

/// Returns a template without a byte order mark; `None` if it is blank.
pub(crate) fn filled(template: &str) -> Option<&str> {
    let template = template.trim_start_matches('\u{feff}');
    Some(template).filter(|template| !template.trim().is_empty())
}

/// Returns the chat template from a JSON value: a string or a list of named ones.
fn among(listed: &Json) -> Option<&str> {
    match listed {
        Json::String(template) => filled(template),
        Json::Object(named) => {
            let named = named.iter();
            best(named.filter_map(|(name, one)| Some((name.as_str(), one.as_str()?))))
        }
        Json::Array(named) => best(named.iter().filter_map(|one| {
            let text = |field| one.get(field).and_then(Json::as_str);
            Some((text("name")?, text("template")?))
        })),
        _ => None,
    }
}

/// Returns the named template for a plain conversation.
fn best<'a>(named: impl Iterator<Item = (&'a str, &'a str)>) -> Option<&'a str> {
    let rank = |name: &str| match name {
        "default" => 0,
        "tool_use" | "rag" => 2,
        _ => 1,
    };
    let named = named.filter_map(|(name, template)| Some((rank(name), filled(template)?)));
    Some(named.min_by_key(|(rank, _)| *rank)?.1)
}
