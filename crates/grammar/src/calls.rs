//! Answers that call functions: text, or calls as JSON between marks, as Hermes' and Qwen's chat
//! templates write them.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use llguidance::api::TopLevelGrammar;
use serde_json::{Map, Value, json};

use crate::schema::{check_begins, checked};
use crate::{GrammarError, Vocabulary};

/// Marks before and after a call.
pub const OPEN: &str = "<tool_call>";
/// See [`OPEN`].
pub const CLOSE: &str = "</tool_call>";

/// Maximum number of calls in an answer.
const MOST: usize = 16;

/// Maximum bytes of all schemas that are [`known`].
const MOST_KNOWN: usize = 4 << 20;

/// Keywords that say more of an object's fields than `properties`.
const OTHER_FIELDS: [&str; 8] = [
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "oneOf",
    "patternProperties",
    "propertyNames",
    "unevaluatedProperties",
];

/// A function that an answer may call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name: visible ASCII without quotes and backslashes.
    pub name: String,
    /// JSON schema of its arguments, an object.
    pub parameters: Value,
    /// Whether keywords of the schema that are not supported are refused. Otherwise they are
    /// ignored, and arguments hold to the rest.
    pub strict: bool,
}

/// Form of an answer that may call functions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calls {
    /// The functions, at least one.
    pub functions: Vec<Function>,
    /// The answer has to be a call. Otherwise it may be text, and a call may follow text.
    pub required: bool,
    /// It may have more than one call.
    pub several: bool,
    /// JSON schema of an answer that is no call; any text if `None`.
    pub document: Option<String>,
}

impl Calls {
    /// Rejects a schema that is not supported, or that allows no arguments.
    ///
    /// # Errors
    /// Those of [`check`](crate::check), with the index of the function; `None` for
    /// [`document`](Self::document) or the whole.
    pub fn check(&self) -> Result<(), (Option<usize>, GrammarError)> {
        for (index, function) in self.functions.iter().enumerate() {
            let arguments = function.arguments().map(TopLevelGrammar::from_json_schema);
            let checked = arguments.and_then(check_begins);
            checked.map_err(|error| (Some(index), error))?;
        }
        if let Some(schema) = &self.document {
            crate::check(schema).map_err(|error| (None, error))?;
        }
        let bytes = Vocabulary::of_single_bytes().map_err(|error| (None, error))?;
        let begun = bytes.calls(self).and_then(|mut answer| answer.mask(&[]));
        begun.map(|_| ()).map_err(|error| (None, error))
    }

    /// Whether text may follow an accepted text: it is neither in a call nor after one.
    pub fn is_text(&self, accepted: &str) -> bool {
        !self.required && self.document.is_none() && !accepted.contains(OPEN)
    }

    /// Whether a text is a complete answer of this form.
    pub fn takes(&self, text: &str) -> bool {
        let answer = Vocabulary::of_single_bytes().and_then(|bytes| bytes.calls(self));
        answer.is_ok_and(|mut answer| answer.accept(text).is_ok() && answer.is_whole())
    }

    pub(crate) fn grammar(&self) -> Result<TopLevelGrammar, GrammarError> {
        let more = match self.several {
            true => format!(r#" ("\n" call){{0,{}}}"#, MOST - 1),
            false => String::new(),
        };
        let mut lark = String::new();
        let written = match (&self.document, self.required) {
            (_, true) => writeln!(lark, "start: call{more}"),
            (Some(schema), false) => {
                let schema = checked(schema, true)?;
                write!(
                    lark,
                    "start: document | call{more}\ndocument: %json {schema}\n"
                )
            }
            // The first mark ends the text.
            (None, false) => write!(
                lark,
                "start: TEXT | begun{more}\nbegun: opening body\n\
                 TEXT: /(?s:.*)/ & ~/(?s:.*{OPEN}.*)/\nopening[lazy]: /(?s:.*){OPEN}/\n"
            ),
        };
        let written = written.and_then(|()| {
            let names = (0..self.functions.len()).map(|index| format!("function_{index}"));
            let names: Vec<_> = names.collect();
            writeln!(lark, "call: \"{OPEN}\" body")?;
            writeln!(
                lark,
                r#"body: "\n"? ({}) "\n"? "{CLOSE}""#,
                names.join(" | ")
            )
        });
        let mut written = written.is_ok();
        for (index, function) in self.functions.iter().enumerate() {
            let schema = function.arguments()?;
            let head = json!(format!(
                "{{\"name\": \"{}\", \"arguments\": ",
                function.name
            ));
            written &= writeln!(
                lark,
                "function_{index}: {head} arguments_{index} \"}}\"\n\
                 arguments_{index}: %json {schema}"
            )
            .is_ok();
        }
        debug_assert!(written, "a string takes all");
        Ok(TopLevelGrammar::from_lark(lark))
    }
}

impl Function {
    /// JSON schema of its arguments that compiles: an object without fields that the schema does
    /// not name, unless it allows these explicitly: small models would invent them without an end.
    fn arguments(&self) -> Result<Value, GrammarError> {
        let mut schema = self.parameters.clone();
        close(&mut schema, self.strict);
        if let Some(fields) = schema.as_object_mut() {
            fields.insert("type".to_owned(), json!("object"));
        }
        let schema = schema.to_string();
        if let Some(known) = known().get(&(self.strict, schema.clone())) {
            return Ok(known.clone());
        }
        let checked = checked(&schema, self.strict)?;
        let mut known = known();
        let bytes: usize = known.keys().map(|(_, schema)| schema.len()).sum();
        if bytes + schema.len() > MOST_KNOWN {
            known.clear();
        }
        known.insert((self.strict, schema), checked.clone());
        Ok(checked)
    }
}

/// Schemas of arguments that compile, by the schemas that they come from and whether these are
/// strict: a client sends its tools with each request, and each member compiles them.
fn known() -> MutexGuard<'static, HashMap<(bool, String), Value>> {
    static KNOWN: LazyLock<Mutex<HashMap<(bool, String), Value>>> = LazyLock::new(Mutex::default);
    // A panic can't leave a partial change.
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forbids fields that the schema of an object does not name, in each of its alternatives, and in
/// the objects within it that name some. If it is not strict, names of required fields that it
/// does not describe are left out.
fn close(schema: &mut Value, strict: bool) {
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    let has = |name: &str| fields.get(name).is_some_and(|value| !value.is_null());
    // Forbids fields as this does.
    let closed = fields.get("unevaluatedProperties") == Some(&json!(false));
    let more = |name: &str| has(name) && !(closed && name == "unevaluatedProperties");
    if !OTHER_FIELDS.iter().any(|name| more(name)) && !has_further_names(fields) {
        // Values that it lists, or requires without a name, have fields of their own.
        if has("properties") || !["const", "enum", "required"].iter().any(|name| has(name)) {
            if !strict {
                drop_undescribed(fields);
            }
            fields.insert("additionalProperties".to_owned(), json!(false));
        }
    } else if !has("properties") {
        for name in ["anyOf", "oneOf"] {
            let alternatives = fields.get_mut(name).and_then(Value::as_array_mut);
            for alternative in alternatives.into_iter().flatten() {
                close(alternative, strict);
            }
        }
    }
    close_within(fields, strict);
}

/// Closes the objects in the fields of an object and in the items of a list.
fn close_within(schema: &mut Map<String, Value>, strict: bool) {
    let within = schema.get_mut("properties").and_then(Value::as_object_mut);
    let mut within: Vec<&mut Value> = match within {
        Some(fields) => fields.values_mut().collect(),
        None => schema.get_mut("items").into_iter().collect(),
    };
    for value in &mut within {
        let named = value.get("properties").and_then(Value::as_object);
        let needed = value.get("minProperties").and_then(Value::as_u64);
        // One that needs more fields than it names stays open.
        let names_fields = named.is_some_and(|named| needed <= Some(named.len() as u64));
        match value.as_object_mut() {
            Some(_) if names_fields => close(value, strict),
            Some(fields) => close_within(fields, strict),
            None => {}
        }
    }
}

/// Leaves out names of required fields that `properties` does not describe.
fn drop_undescribed(schema: &mut Map<String, Value>) {
    let described = schema.get("properties").and_then(Value::as_object);
    let described: Vec<String> = described.into_iter().flat_map(Map::keys).cloned().collect();
    if let Some(names) = schema.get_mut("required").and_then(Value::as_array_mut) {
        names.retain(|name| match name.as_str() {
            Some(name) => described.iter().any(|one| one == name),
            None => true,
        });
    }
}

/// Whether conditions, which are ignored, name fields that `properties` does not.
fn has_further_names(schema: &Map<String, Value>) -> bool {
    let own = schema.get("properties");
    let branches = ["then", "else"].map(|name| schema.get(name));
    let groups = ["dependencies", "dependentSchemas"].map(|name| schema.get(name)?.as_object());
    let groups = groups.into_iter().flatten().flat_map(Map::values);
    let mut parts = branches.into_iter().flatten().chain(groups);
    parts.any(|part| {
        let names = part.get("properties").and_then(Value::as_object);
        let mut names = names.into_iter().flat_map(Map::keys);
        names.any(|name| own.and_then(|own| own.get(name)).is_none())
    })
}
