//! A schema as a grammar: bounded first, then compiled; what can't be honoured is named.

use std::collections::HashMap;

use llguidance::api::{ParserLimits, TopLevelGrammar};
use llguidance::{GrammarBuilder, JsonCompileOptions};
use serde_json::{Map, Value, json};

use crate::{GrammarError, Vocabulary};

/// Bytes of a schema, at most.
const MOST_BYTES: usize = 256 * 1024;

/// How deep its parts may lie in each other.
const DEEPEST: usize = 64;

/// The same where what a part refers to lies in it. The compiler goes there by calls within calls:
/// a browser's stack ends at some 600.
const DEEPEST_REFERRED: usize = 256;

/// Fields of an object, or items of a list, at most: each costs the compiler some of its stack.
const MOST_ENTRIES: usize = 500;

/// Parts that are tried one by one for the one that can't be honoured: each may cost a tenth of a
/// second.
const MOST_TRIED: usize = 50;

/// What the compiler says of a schema whose parts, with what they refer to, come to more than it
/// takes.
const TOO_LARGE: &str = "schema too large";

/// What a schema may cost, some tenths of a second to compile and milliseconds a mask; a state of
/// the lexer takes 1 to 2 kB.
pub(crate) const LIMITS: ParserLimits = ParserLimits {
    max_items_in_row: 2000,
    initial_lexer_fuel: 1_000_000,
    step_lexer_fuel: 200_000,
    step_max_items: 50_000,
    max_lexer_states: 20_000,
    max_grammar_size: 100_000,
    precompute_large_lexemes: false,
    verbose_errors: false,
};

/// Refuses what is no schema, can't be honoured, or lets no document begin, without a member's
/// vocabulary.
///
/// # Errors
/// [`GrammarError::Json`], [`GrammarError::Size`], [`GrammarError::Schema`] and
/// [`GrammarError::Involved`].
pub fn check(schema: &str) -> Result<(), GrammarError> {
    // What can't be begun byte by byte can't be in any tokens.
    let mut document = Vocabulary::of_bytes()?.document(schema)?;
    match document.mask(&[]) {
        Ok(_) => Ok(()),
        Err(GrammarError::NoToken) => Err(GrammarError::Schema {
            part: "#".to_owned(),
            reason: "no document is valid under it".to_owned(),
        }),
        Err(error) => Err(error),
    }
}

/// The grammar of a schema, JSON text.
pub(crate) fn grammar(schema: &str) -> Result<TopLevelGrammar, GrammarError> {
    if schema.len() > MOST_BYTES {
        let size = format!("has {} bytes, and {MOST_BYTES} are read", schema.len());
        return Err(GrammarError::Size(size));
    }
    let schema: Value = serde_json::from_str(schema)?;
    if depth(&schema) > DEEPEST {
        let size = format!("lies in itself more than {DEEPEST} deep");
        return Err(GrammarError::Size(size));
    }
    if !is_shallow(&schema, &schema, 0, &mut HashMap::new()) {
        let size = format!("lies in itself more than {DEEPEST_REFERRED} deep by what it refers to");
        return Err(GrammarError::Size(size));
    }
    if widest(&schema) > MOST_ENTRIES {
        let size = format!("has more than {MOST_ENTRIES} fields or values at one place");
        return Err(GrammarError::Size(size));
    }
    let mut schema = match schema {
        Value::Object(_) => schema,
        // What anything is valid against, and nothing.
        Value::Bool(anything) => json!({ "allOf": [anything] }),
        _ => {
            return Err(GrammarError::Schema {
                part: "#".to_owned(),
                reason: "a schema is an object, true or false".to_owned(),
            });
        }
    };
    // Of the schema's own no option is taken.
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("x-guidance");
    }
    let options = options();
    if let Err(reason) = compiled(&options, schema.clone()) {
        if reason == TOO_LARGE {
            // Many parts would fail like this, each as late as the whole.
            return Err(GrammarError::Involved(reason));
        }
        return Err(GrammarError::Schema {
            part: refused(&options, &schema, &reason),
            reason,
        });
    }
    options.apply_to(&mut schema);
    Ok(TopLevelGrammar::from_json_schema(schema))
}

/// Documents on one line, with a space behind commas and colons or without: white space that may go
/// on for ever is what small models end in.
fn options() -> JsonCompileOptions {
    JsonCompileOptions {
        item_separator: ", ?".to_owned(),
        key_separator: ": ?".to_owned(),
        whitespace_flexible: false,
        ..JsonCompileOptions::default()
    }
}

/// Why a schema does not compile.
fn compiled(options: &JsonCompileOptions, schema: Value) -> Result<(), String> {
    let builder = GrammarBuilder::new(None, LIMITS);
    let result = options.json_to_llg_no_validate(builder, schema);
    result.map(|_| ()).map_err(|error| told(&error))
}

/// What an error of llguidance says, on one line and without its own state.
pub(crate) fn told(error: &impl std::fmt::Display) -> String {
    let told = error.to_string();
    let mut lines = told.lines();
    let line = lines.next().unwrap_or_default().trim_end_matches('.');
    // A regex's reason follows the regex and a mark below it.
    match lines.find_map(|line| line.strip_prefix("error: ")) {
        Some(reason) if line.ends_with(':') => format!("{line} {reason}"),
        _ => line.to_owned(),
    }
}

/// The smallest part of a schema that can't be honoured by itself for the same reason.
fn refused(options: &JsonCompileOptions, schema: &Value, reason: &str) -> String {
    let mut parts = Vec::new();
    collect(schema, "#", &mut parts);
    // What a part refers to is beside it.
    let shared: Map<String, Value> = ["$defs", "definitions", "$schema"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), schema.get(name)?.clone())))
        .collect();
    let mut smallest = "#".to_owned();
    for (part, path) in parts.into_iter().take(MOST_TRIED) {
        let mut alone = part.clone();
        if let Some(fields) = alone.as_object_mut() {
            for (name, value) in &shared {
                fields.entry(name).or_insert_with(|| value.clone());
            }
        }
        let same = compiled(options, alone).is_err_and(|why| why == reason);
        if same && path.starts_with(&smallest) {
            smallest = path;
        }
    }
    smallest
}

/// All parts of a schema that are schemas, each behind the one it is in.
fn collect<'a>(schema: &'a Value, path: &str, parts: &mut Vec<(&'a Value, String)>) {
    let Some(fields) = schema.as_object() else {
        return;
    };
    for (key, value) in fields {
        let path = format!("{path}/{key}");
        match key.as_str() {
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                for (name, part) in value.as_object().into_iter().flatten() {
                    let path = format!("{path}/{name}");
                    parts.push((part, path.clone()));
                    collect(part, &path, parts);
                }
            }
            "allOf" | "anyOf" | "oneOf" | "prefixItems" => {
                for (number, part) in value.as_array().into_iter().flatten().enumerate() {
                    let path = format!("{path}/{number}");
                    parts.push((part, path.clone()));
                    collect(part, &path, parts);
                }
            }
            "items" | "additionalProperties" | "additionalItems" | "not" | "contains" => {
                parts.push((value, path.clone()));
                collect(value, &path, parts);
            }
            _ => {}
        }
    }
}

/// How deep values lie in each other; `serde_json` reads none deeper than 128.
fn depth(value: &Value) -> usize {
    let inner = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(fields) => fields.values().map(depth).max(),
        _ => return 0,
    };
    1 + inner.unwrap_or(0)
}

/// Whether a part of `whole` that lies at this depth goes no deeper than [`DEEPEST_REFERRED`], with
/// what it refers to; `gone` is how deep each of those lay so far. What lies in itself lies there
/// once.
fn is_shallow<'a>(
    part: &'a Value,
    whole: &'a Value,
    depth: usize,
    gone: &mut HashMap<&'a str, Went>,
) -> bool {
    if depth > DEEPEST_REFERRED {
        return false;
    }
    match part {
        Value::Array(items) => items
            .iter()
            .all(|item| is_shallow(item, whole, depth + 1, gone)),
        Value::Object(fields) => fields.iter().all(|(key, value)| {
            let to = value.as_str().filter(|_| key == "$ref");
            let Some(to) = to else {
                return is_shallow(value, whole, depth + 1, gone);
            };
            let pointer = to.strip_prefix('#');
            let Some(target) = pointer.and_then(|pointer| whole.pointer(pointer)) else {
                // The compiler says what is wrong with it.
                return true;
            };
            // Once more only where it lies deeper than ever, so that this ends soon.
            match gone.get(to) {
                Some(Went { within: true, .. }) => return true,
                Some(went) if went.deepest >= depth => return true,
                _ => {}
            }
            let went = |within| Went {
                deepest: depth,
                within,
            };
            gone.insert(to, went(true));
            let shallow = is_shallow(target, whole, depth + 1, gone);
            gone.insert(to, went(false));
            shallow
        }),
        _ => true,
    }
}

/// How deep a part lay that others refer to.
struct Went {
    deepest: usize,
    /// It is being looked at.
    within: bool,
}

/// The most entries that an object or a list in it has.
fn widest(value: &Value) -> usize {
    let (own, inner) = match value {
        Value::Array(items) => (items.len(), items.iter().map(widest).max()),
        Value::Object(fields) => (fields.len(), fields.values().map(widest).max()),
        _ => return 0,
    };
    own.max(inner.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regex_that_is_none_is_refused_with_the_reason() {
        let refused = check(r#"{"type": "string", "pattern": "("}"#).unwrap_err();
        assert!(refused.to_string().contains("unclosed group"), "{refused}");
    }
}
