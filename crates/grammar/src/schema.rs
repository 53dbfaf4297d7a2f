//! Compiles a schema, within limits, into a grammar; reports unsupported parts.

use std::collections::HashMap;

use llguidance::api::{ParserLimits, TopLevelGrammar};
use llguidance::{GrammarBuilder, JsonCompileOptions};
use serde_json::{Map, Value, json};

use crate::{GrammarError, Vocabulary};

/// Maximum size of a schema in bytes.
const MAX_BYTES: usize = 256 * 1024;

/// Maximum nesting depth.
const MAX_DEPTH: usize = 64;

/// Maximum nesting depth including references. The compiler recurses: a browser's stack overflows
/// at some 600.
const MAX_REFERENCE_DEPTH: usize = 256;

/// Maximum number of fields of an object or items of a list: each takes stack in the compiler.
const MAX_ENTRIES: usize = 500;

/// Maximum number of parts tested to find an unsupported one: each may take a tenth of a second.
const MAX_TRIED: usize = 50;

/// The compiler's error for a schema that is too large with its references.
const TOO_LARGE: &str = "schema too large";

/// Limits of the parser: some tenths of a second to compile and milliseconds per mask; a lexer
/// state takes 1 to 2 kB.
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

/// Rejects what is not a schema, is not supported, or allows no document, independently of a
/// member's vocabulary.
///
/// # Errors
/// [`GrammarError::Json`], [`GrammarError::Size`], [`GrammarError::Schema`] and
/// [`GrammarError::Involved`].
pub fn check(schema: &str) -> Result<(), GrammarError> {
    // A document that can't begin byte by byte can't begin in any tokens.
    let mut document = Vocabulary::of_single_bytes()?.document(schema)?;
    match document.mask(&[]) {
        Ok(_) => Ok(()),
        Err(GrammarError::NoToken) => Err(GrammarError::Schema {
            part: "#".to_owned(),
            reason: "no document is valid under it".to_owned(),
        }),
        Err(error) => Err(error),
    }
}

/// Compiles a schema (JSON text).
pub(crate) fn grammar(schema: &str) -> Result<TopLevelGrammar, GrammarError> {
    Ok(TopLevelGrammar::from_json_schema(checked(schema)?))
}

/// Returns a schema (JSON text) that compiles, with the compiler's options in it.
pub(crate) fn checked(schema: &str) -> Result<Value, GrammarError> {
    if schema.len() > MAX_BYTES {
        let size = format!("has {} bytes, and {MAX_BYTES} are read", schema.len());
        return Err(GrammarError::Size(size));
    }
    let schema: Value = serde_json::from_str(schema)?;
    if depth(&schema) > MAX_DEPTH {
        let size = format!("is nested more than {MAX_DEPTH} deep");
        return Err(GrammarError::Size(size));
    }
    if !is_shallow(&schema, &schema, 0, &mut HashMap::new()) {
        let size = format!("is nested more than {MAX_REFERENCE_DEPTH} deep by its references");
        return Err(GrammarError::Size(size));
    }
    if widest(&schema) > MAX_ENTRIES {
        let size = format!("has more than {MAX_ENTRIES} fields or values at one place");
        return Err(GrammarError::Size(size));
    }
    let mut schema = match schema {
        Value::Object(_) => schema,
        // The schemas that accept everything and nothing.
        Value::Bool(anything) => json!({ "allOf": [anything] }),
        _ => {
            return Err(GrammarError::Schema {
                part: "#".to_owned(),
                reason: "a schema is an object, true or false".to_owned(),
            });
        }
    };
    // Removes llguidance's options: a schema may not set them.
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("x-guidance");
    }
    let options = options();
    if let Err(reason) = compiled(&options, schema.clone()) {
        if reason == TOO_LARGE {
            // Many parts would fail like this, each as slowly as the whole.
            return Err(GrammarError::Involved(reason));
        }
        return Err(GrammarError::Schema {
            part: refused(&options, &schema, &reason),
            reason,
        });
    }
    options.apply_to(&mut schema);
    Ok(schema)
}

/// Documents on one line, with at most one space after commas and colons: small models get stuck in
/// unbounded white space.
fn options() -> JsonCompileOptions {
    JsonCompileOptions {
        item_separator: ", ?".to_owned(),
        key_separator: ": ?".to_owned(),
        whitespace_flexible: false,
        ..JsonCompileOptions::default()
    }
}

/// Compiles a schema; returns the reason if it fails.
fn compiled(options: &JsonCompileOptions, schema: Value) -> Result<(), String> {
    let builder = GrammarBuilder::new(None, LIMITS);
    let result = options.json_to_llg_no_validate(builder, schema);
    result.map(|_| ()).map_err(|error| first_line(&error))
}

/// Error message of llguidance on one line, without its internal state.
pub(crate) fn first_line(error: &impl std::fmt::Display) -> String {
    let message = error.to_string();
    let mut lines = message.lines();
    let line = lines.next().unwrap_or_default().trim_end_matches('.');
    // A regex's reason follows the regex and a mark below it.
    match lines.find_map(|line| line.strip_prefix("error: ")) {
        Some(reason) if line.ends_with(':') => format!("{line} {reason}"),
        _ => line.to_owned(),
    }
}

/// Finds the smallest part of a schema that fails by itself for the same reason.
fn refused(options: &JsonCompileOptions, schema: &Value, reason: &str) -> String {
    let mut parts = Vec::new();
    collect(schema, "#", &mut parts);
    // Definitions that a part may refer to.
    let shared: Map<String, Value> = ["$defs", "definitions", "$schema"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), schema.get(name)?.clone())))
        .collect();
    let mut smallest = "#".to_owned();
    for (part, path) in parts.into_iter().take(MAX_TRIED) {
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

/// Collects all subschemas, each after the one that contains it.
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

/// Nesting depth of a value; `serde_json` accepts at most 128.
fn depth(value: &Value) -> usize {
    let inner = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(fields) => fields.values().map(depth).max(),
        _ => return 0,
    };
    1 + inner.unwrap_or(0)
}

/// Returns whether a part of `whole` at this depth stays within [`MAX_REFERENCE_DEPTH`], including
/// references; `visits` maps each reference to its greatest depth so far. A recursive reference is
/// followed once.
fn is_shallow<'a>(
    part: &'a Value,
    whole: &'a Value,
    depth: usize,
    visits: &mut HashMap<&'a str, Visit>,
) -> bool {
    if depth > MAX_REFERENCE_DEPTH {
        return false;
    }
    match part {
        Value::Array(items) => items
            .iter()
            .all(|item| is_shallow(item, whole, depth + 1, visits)),
        Value::Object(fields) => fields.iter().all(|(key, value)| {
            let to = value.as_str().filter(|_| key == "$ref");
            let Some(to) = to else {
                return is_shallow(value, whole, depth + 1, visits);
            };
            let pointer = to.strip_prefix('#');
            let Some(target) = pointer.and_then(|pointer| whole.pointer(pointer)) else {
                // The compiler reports the invalid reference.
                return true;
            };
            // Revisited only at a greater depth, so that this terminates soon.
            match visits.get(to) {
                Some(Visit { within: true, .. }) => return true,
                Some(went) if went.deepest >= depth => return true,
                _ => {}
            }
            let went = |within| Visit {
                deepest: depth,
                within,
            };
            visits.insert(to, went(true));
            let shallow = is_shallow(target, whole, depth + 1, visits);
            visits.insert(to, went(false));
            shallow
        }),
        _ => true,
    }
}

/// Visit of a referenced part.
struct Visit {
    deepest: usize,
    /// Whether it is being visited.
    within: bool,
}

/// Largest number of entries of an object or a list in a value.
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
