//! Compiles a schema, within limits, into a grammar; reports unsupported parts.

use std::collections::HashMap;

use llguidance::api::{ParserLimits, TopLevelGrammar};
use llguidance::derivre::RegexBuilder;
use llguidance::{GrammarBuilder, JsonCompileOptions, regex_to_lark};
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

/// Formats that the compiler enforces. By JSON Schema any other is an annotation.
const FORMATS: [&str; 10] = [
    "date",
    "date-time",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "time",
    "uri",
    "uuid",
];

/// Keywords that restrict nothing.
const ANNOTATIONS: [&str; 10] = [
    "$comment",
    "$id",
    "$schema",
    "default",
    "deprecated",
    "description",
    "examples",
    "readOnly",
    "title",
    "writeOnly",
];

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
    check_begins(grammar(schema)?)
}

/// Rejects a grammar that allows no document.
pub(crate) fn check_begins(grammar: TopLevelGrammar) -> Result<(), GrammarError> {
    // A document that can't begin byte by byte can't begin in any tokens.
    let mut document = Vocabulary::of_single_bytes()?.parse(grammar)?;
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
    Ok(TopLevelGrammar::from_json_schema(checked(schema, true)?))
}

/// Returns a schema (JSON text) that compiles, with the compiler's options in it. Unless `strict`,
/// keywords that are not supported are ignored, so that it allows more.
pub(crate) fn checked(schema: &str, strict: bool) -> Result<Value, GrammarError> {
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
    drop_harmless(&mut schema);
    let mut options = compile_options(false);
    let mut result = compiled(&options, schema.clone());
    if !strict && result.as_ref().is_err_and(|reason| reason != TOO_LARGE) {
        options = compile_options(true);
        let whole = schema.clone();
        loosen(&mut schema, &whole);
        result = compiled(&options, schema.clone());
    }
    if let Err(reason) = result {
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
fn compile_options(lenient: bool) -> JsonCompileOptions {
    JsonCompileOptions {
        lenient,
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
    let mut found = |part: &'a Value, path: String| {
        parts.push((part, path.clone()));
        collect(part, &path, parts);
    };
    for (key, value) in fields {
        let path = format!("{path}/{key}");
        match (holds(key), value) {
            (Holds::Named, Value::Object(named)) => named
                .iter()
                .for_each(|(name, part)| found(part, format!("{path}/{name}"))),
            (Holds::Parts, Value::Array(listed)) => listed
                .iter()
                .enumerate()
                .for_each(|(number, part)| found(part, format!("{path}/{number}"))),
            (Holds::Parts, part) => found(part, path),
            _ => {}
        }
    }
}

/// How a keyword's value holds schemas.
enum Holds {
    Nothing,
    /// By name.
    Named,
    /// One, or a list.
    Parts,
}

fn holds(keyword: &str) -> Holds {
    match keyword {
        "$defs" | "definitions" | "dependencies" | "dependentSchemas" | "patternProperties"
        | "properties" => Holds::Named,
        "additionalItems"
        | "additionalProperties"
        | "allOf"
        | "anyOf"
        | "contains"
        | "else"
        | "if"
        | "items"
        | "not"
        | "oneOf"
        | "prefixItems"
        | "propertyNames"
        | "then"
        | "unevaluatedItems"
        | "unevaluatedProperties" => Holds::Parts,
        _ => Holds::Nothing,
    }
}

/// Removes keywords that restrict nothing and that the compiler would refuse. Clients' libraries
/// write them by themselves.
fn drop_harmless(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    each_part(fields, &mut drop_harmless);
    // In contrast to `remove`, this keeps the order of the others.
    fields.retain(|name, value| match name.as_str() {
        // The one keyword whose value may be null.
        "const" => true,
        // Absent, as Go writes an empty list.
        _ if value.is_null() => false,
        "format" => value.as_str().is_none_or(|name| FORMATS.contains(&name)),
        "propertyNames" => !allows_all_names(value),
        _ => true,
    });
}

/// Whether a schema of an object's names allows all strings.
fn allows_all_names(names: &Value) -> bool {
    match names {
        Value::Object(fields) => fields.iter().all(|(name, value)| match name.as_str() {
            "type" => match value {
                Value::Array(kinds) => kinds.iter().any(|kind| kind == "string"),
                kind => kind == "string",
            },
            name => ANNOTATIONS.contains(&name),
        }),
        names => *names == Value::Bool(true),
    }
}

/// Removes keywords that the compiler refuses even if it is lenient, or applies to other fields, so
/// that the schema allows more. `whole` is the one that references refer to.
fn loosen(schema: &mut Value, whole: &Value) {
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    each_part(fields, &mut |part| loosen(part, whole));
    let names = are_supported(fields, &["patternProperties"], &[]);
    let bounds = are_supported(
        fields,
        &["minProperties", "maxProperties"],
        &["properties", "required", "additionalProperties"],
    );
    fields.retain(|name, value| match (name.as_str(), value.as_str()) {
        ("pattern", Some(pattern)) => RegexBuilder::new()
            .mk_regex_for_serach(&regex_to_lark(pattern, "dw"))
            .is_ok(),
        ("$ref", Some(to)) => is_found(to, whole),
        // The fields of the patterns would be further ones.
        ("patternProperties" | "additionalProperties", _) => names,
        ("minProperties" | "maxProperties", _) => bounds,
        _ => true,
    });
}

/// Whether the compiler takes these keywords of an object, which depend on others, whatever its
/// fields' schemas are.
fn are_supported(fields: &Map<String, Value>, keywords: &[&str], others: &[&str]) -> bool {
    if !keywords.iter().any(|&keyword| fields.contains_key(keyword)) {
        return true;
    }
    let mut alone = json!({ "type": "object" });
    for &keyword in keywords.iter().chain(others) {
        let Some(value) = fields.get(keyword) else {
            continue;
        };
        alone[keyword] = match value {
            Value::Object(parts) if keyword != "additionalProperties" => {
                let parts = parts.keys().map(|name| (name.clone(), json!(true)));
                Value::Object(parts.collect())
            }
            Value::Object(_) => json!(true),
            value => value.clone(),
        };
    }
    compiled(&compile_options(false), alone).is_ok()
}

/// Whether the compiler finds the part that a reference names.
fn is_found(to: &str, whole: &Value) -> bool {
    let Some(path) = to.strip_prefix("#/") else {
        return to == "#";
    };
    let mut names = path.split('/').filter(|_| !path.is_empty());
    let part = names.try_fold(whole, |part, name| match part {
        Value::Array(parts) => parts.get(name.parse::<usize>().ok()?),
        part => part.get(name),
    });
    part.is_some()
}

/// Visits each schema directly within one.
fn each_part(fields: &mut Map<String, Value>, visit: &mut dyn FnMut(&mut Value)) {
    for (key, value) in fields {
        match (holds(key), value) {
            (Holds::Named, Value::Object(named)) => named.values_mut().for_each(&mut *visit),
            (Holds::Parts, Value::Array(parts)) => parts.iter_mut().for_each(&mut *visit),
            (Holds::Parts, part) => visit(part),
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
