//! Filters and tests that few chat templates use: `e`, `striptags`, `urlencode`, `wordwrap`,
//! `callable`, items of what is undefined, and the rest of Python's `%`.

use std::fmt::Write;

use minijinja::value::{Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, filters};

use crate::meter;
use crate::template_json::float_text;
use crate::template_wrap::wordwrap;

/// In the order in which they are written; they are read in the other.
const ENTITIES: [(&str, &str); 5] = [
    ("&", "&amp;"),
    ("<", "&lt;"),
    (">", "&gt;"),
    ("\"", "&#34;"),
    ("'", "&#39;"),
];

pub(crate) fn add(environment: &mut Environment<'static>) {
    // No published template needs these, and the page's engine is to be small.
    if cfg!(target_family = "wasm") {
        return;
    }
    for name in ["e", "escape"] {
        environment.add_filter(name, |value: Value| match value.is_safe() {
            true => value,
            false => escaped(&value),
        });
    }
    environment.add_filter("forceescape", |value: Value| escaped(&value));
    environment.add_filter("striptags", |value: Value| {
        let text = without(&without(&text(&value), "<!--", "-->"), "<", ">");
        let words: Vec<&str> = text.split_whitespace().collect();
        let entities = ENTITIES.iter().rev();
        entities.fold(words.join(" "), |text, (sign, entity)| {
            text.replace(entity, sign)
        })
    });
    environment.add_filter("urlencode", |value: Value| {
        if value.kind() == ValueKind::Map {
            return Err(ErrorKind::InvalidOperation.into());
        }
        let mut encoded = String::new();
        for byte in text(&value).bytes() {
            if byte.is_ascii_alphanumeric() || b"/_.-~".contains(&byte) {
                encoded.push(char::from(byte));
            } else {
                // Writing to a `String` can't fail.
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
        Ok::<_, Error>(encoded)
    });
    environment.add_filter(
        "wordwrap",
        |state: &mut State<'_, '_>, text: String, args: Rest<ValueOrKwargs>| {
            let args = args.into_values();
            meter::charge(state, meter::wrapped(&text, &args))?;
            let args = args.into_iter().map(ValueOrKwargs::from).collect();
            wordwrap(text, Rest(args))
        },
    );
    // An undefined value has no items.
    for (name, filter, none) in [
        (
            "first",
            Value::from_function(filters::first),
            Value::UNDEFINED,
        ),
        (
            "last",
            Value::from_function(filters::last),
            Value::UNDEFINED,
        ),
        (
            "items",
            Value::from_function(filters::items),
            Value::from(Vec::<Value>::new()),
        ),
    ] {
        environment.add_filter(
            name,
            move |state: &mut State<'_, '_>, value: Value| match value.is_undefined() {
                true => Ok(none.clone()),
                false => filter.call(state, &[value]),
            },
        );
    }
    environment.add_test("callable", |value: Value| {
        // A macro is a dictionary to the interpreter.
        let caller = value.get_attr("caller");
        matches!(value.kind(), ValueKind::Undefined | ValueKind::Plain)
            || caller.is_ok_and(|caller| caller.kind() == ValueKind::Bool)
    });
}

fn text(value: &Value) -> String {
    float_text(value).unwrap_or_else(|| value.to_string())
}

fn escaped(value: &Value) -> Value {
    let entities = ENTITIES.iter();
    let escaped = entities.fold(text(value), |text, (sign, entity)| {
        text.replace(sign, entity)
    });
    Value::from_safe_string(escaped)
}

/// The text without its parts from `open` to `close`.
fn without(text: &str, open: &str, close: &str) -> String {
    let (mut kept, mut rest) = (String::new(), text);
    while let Some((before, part)) = rest.split_once(open)
        && let Some((_, after)) = part.split_once(close)
    {
        kept.push_str(before);
        rest = after;
    }
    kept + rest
}

/// `text|format(…)`, also with `%r`, and with floats for `%d`.
pub(crate) fn format(
    state: &mut State<'_, '_>,
    format: &Value,
    args: Rest<ValueOrKwargs>,
) -> Result<Value, Error> {
    // As above, no published template needs more.
    if cfg!(target_family = "wasm") {
        return filters::format(state, format, args);
    }
    let mut args = args.into_values();
    let mut values = args.iter_mut();
    let mut plain = String::new();
    let mut rest = format.as_str().unwrap_or_default();
    while let Some((before, part)) = rest.split_once('%') {
        let ends = |letter: char| letter.is_alphabetic() || matches!(letter, '%' | '(');
        let (options, part) = part.split_at(part.find(ends).unwrap_or(part.len()));
        plain.extend([before, "%", options]);
        // Widths are values of their own.
        for _ in options.matches('*') {
            values.next();
        }
        let mut letters = part.chars();
        let mut kind = letters.next();
        rest = letters.as_str();
        match (
            kind,
            kind.filter(|kind| kind.is_alphabetic())
                .and_then(|_| values.next()),
        ) {
            (Some('r'), Some(value)) => {
                *value = Value::from(repr(value));
                kind = Some('s');
            }
            (Some('s'), Some(value)) => {
                if let Some(text) = float_text(value) {
                    *value = Value::from(text);
                }
            }
            (Some('d' | 'i' | 'u'), Some(value)) if float_text(value).is_some() => {
                let whole = f64::try_from(value.clone())?.trunc();
                *value = Value::from(whole as i128);
            }
            _ => (),
        }
        plain.extend(kind);
    }
    plain.push_str(rest);
    // Values by name keep their text, and one that is safe escapes them.
    let format = match format.is_safe() || plain.contains("%(") || format.as_str().is_none() {
        true => format,
        false => &Value::from(plain),
    };
    let args = args.into_iter().map(ValueOrKwargs::from).collect();
    filters::format(state, format, Rest(args))
}

/// Python's `repr`: as the value stands in a list.
fn repr(value: &Value) -> String {
    float_text(value).unwrap_or_else(|| {
        let list = Value::from(vec![value.clone()]).to_string();
        list[1..list.len() - 1].to_owned()
    })
}
