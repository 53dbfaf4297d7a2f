//! What chat templates call beside Jinja's own: `raise_exception`, `strftime_now`, and `tojson` as
//! Python's `json.dumps` writes it (Jinja's own escapes HTML).

use std::fmt::Write;

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};

use crate::{clock, meter};

/// The error at the bottom of `raise_exception`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refusal(pub String);

/// Values within values; Python's own limit is about a thousand.
const DEEPEST: usize = 64;

pub(crate) fn add(environment: &mut Environment<'static>) {
    meter::add(environment);
    environment.set_unknown_method_callback(method);
    environment.add_function(
        "raise_exception",
        |message: String| -> Result<Value, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message.clone())
                .with_source(Refusal(message)))
        },
    );
    environment.add_filter(
        "tojson",
        |value: Value, options: Kwargs| -> Result<Value, Error> {
            let indent = options.get::<Option<usize>>("indent")?;
            // Keys stay in their order and letters as they are; other settings are not in use.
            let _ = (
                options.get::<Option<bool>>("ensure_ascii")?,
                options.get::<Option<bool>>("sort_keys")?,
            );
            options.assert_all_used()?;
            let mut json = String::new();
            write_json(&value, indent.map(|indent| indent.min(16)), 0, &mut json)?;
            Ok(Value::from_safe_string(json))
        },
    );
    // As Jinja has them: nothing can't be gone through, strings and dictionaries are sequences.
    environment.add_test("iterable", |value: Value| {
        !value.is_none() && (value.as_str().is_some() || value.try_iter().is_ok())
    });
    environment.add_test("sequence", |value: Value| {
        value.as_str().is_some() || matches!(value.kind(), ValueKind::Seq | ValueKind::Map)
    });
    add_clock(environment, clock::local_seconds);
}

/// `strftime_now` by the given clock: seconds since 1970 in local time.
pub(crate) fn add_clock(
    environment: &mut Environment<'static>,
    clock: impl Fn() -> u64 + Send + Sync + 'static,
) {
    environment.add_function("strftime_now", move |format: String| {
        clock::strftime(&format, clock())
    });
}

/// Python's methods of strings, lists and dictionaries.
fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    meter::charge_method(state, value, name, args)?;
    match (name, value.as_str()) {
        // Python begins a word after anything that is no letter, not only after a space.
        ("title", Some(text)) if args.is_empty() => Ok(Value::from(title(text))),
        _ => minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args),
    }
}

fn title(text: &str) -> String {
    let mut titled = String::with_capacity(text.len());
    let mut within = false;
    for letter in text.chars() {
        if within {
            titled.extend(letter.to_lowercase());
        } else {
            titled.extend(letter.to_uppercase());
        }
        within = letter.is_alphabetic();
    }
    titled
}

fn write_json(
    value: &Value,
    indent: Option<usize>,
    depth: usize,
    json: &mut String,
) -> Result<(), Error> {
    if depth > DEEPEST {
        return Err(Error::new(
            ErrorKind::BadSerialization,
            "the value is nested too deeply",
        ));
    }
    // Indented, it may be much longer than the value.
    if json.len() > meter::BUDGET {
        return Err(ErrorKind::OutOfFuel.into());
    }
    let line = |json: &mut String, depth: usize| {
        if let Some(indent) = indent {
            json.push('\n');
            json.extend(std::iter::repeat_n(' ', indent * depth));
        }
    };
    let comma = if indent.is_some() { "," } else { ", " };
    match value.kind() {
        ValueKind::Undefined | ValueKind::None => json.push_str("null"),
        ValueKind::Map => {
            json.push('{');
            let mut first = true;
            for key in value.try_iter()? {
                json.push_str(if first { "" } else { comma });
                first = false;
                line(json, depth + 1);
                write_string(&key.to_string(), json);
                json.push_str(": ");
                write_json(&value.get_item(&key)?, indent, depth + 1, json)?;
            }
            if !first {
                line(json, depth);
            }
            json.push('}');
        }
        ValueKind::Seq | ValueKind::Iterable => {
            json.push('[');
            let mut first = true;
            for item in value.try_iter()? {
                json.push_str(if first { "" } else { comma });
                first = false;
                line(json, depth + 1);
                write_json(&item, indent, depth + 1, json)?;
            }
            if !first {
                line(json, depth);
            }
            json.push(']');
        }
        ValueKind::Bool | ValueKind::Number => json.push_str(&value.to_string().to_lowercase()),
        _ => write_string(&value.to_string(), json),
    }
    Ok(())
}

fn write_string(text: &str, json: &mut String) {
    json.push('"');
    for letter in text.chars() {
        match letter {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            '\u{8}' => json.push_str("\\b"),
            '\u{c}' => json.push_str("\\f"),
            control if control < ' ' => {
                let _ = write!(json, "\\u{:04x}", u32::from(control));
            }
            letter => json.push(letter),
        }
    }
    json.push('"');
}
