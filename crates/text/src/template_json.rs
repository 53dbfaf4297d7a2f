//! `tojson` like Python's `json.dumps` (Jinja's own escapes HTML).

use std::fmt::Write;

use minijinja::value::{Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{Error, ErrorKind};

use crate::meter;
use crate::template_functions::{by_name, margin};

/// Maximum nesting of values; Python's own limit is about a thousand.
const DEEPEST: usize = 64;

/// Options of `json.dumps`.
struct Style {
    /// Text before a line, once per level.
    indent: Option<String>,
    comma: String,
    colon: String,
    sorted: bool,
    ascii: bool,
}

/// The filter `tojson` of transformers; it escapes non-ASCII letters only with `ensure_ascii`.
pub(crate) fn tojson(value: Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    const OPTIONS: [&str; 4] = ["ensure_ascii", "indent", "separators", "sort_keys"];
    let options = by_name(&OPTIONS, args)?;
    let indent = options.get::<Option<Value>>("indent")?;
    let indent = indent.map(|width| margin(&width, 16)).transpose()?;
    let separators = options.get::<Option<Vec<String>>>("separators")?;
    let flag = |name| Ok::<_, Error>(options.get::<Option<bool>>(name)?.unwrap_or(false));
    let (sorted, ascii) = (flag("sort_keys")?, flag("ensure_ascii")?);
    options.assert_all_used()?;
    let usual = || {
        let comma = if indent.is_some() { "," } else { ", " };
        [comma.to_owned(), ": ".to_owned()]
    };
    let separators = separators.and_then(|given| given.try_into().ok());
    let [comma, colon]: [String; 2] = separators.unwrap_or_else(usual);
    let style = Style {
        indent,
        comma,
        colon,
        sorted,
        ascii,
    };
    let mut json = String::new();
    style.write(&value, 0, &mut json)?;
    Ok(Value::from(json))
}

/// Formats a value like `json.dumps` with its defaults, but with non-ASCII letters.
pub(crate) fn spaced(value: &Value) -> String {
    let style = Style {
        indent: None,
        comma: ", ".to_owned(),
        colon: ": ".to_owned(),
        sorted: false,
        ascii: false,
    };
    let mut json = String::new();
    match style.write(value, 0, &mut json) {
        Ok(()) => json,
        // Nested too deeply.
        Err(_) => value.to_string(),
    }
}

impl Style {
    fn write(&self, value: &Value, depth: usize, json: &mut String) -> Result<(), Error> {
        if depth > DEEPEST {
            let why = "the value is nested too deeply";
            return Err(Error::new(ErrorKind::BadSerialization, why));
        }
        // Indentation may make it much longer than the value.
        if json.len() > meter::BUDGET {
            return Err(ErrorKind::OutOfFuel.into());
        }
        match value.kind() {
            ValueKind::Undefined | ValueKind::None => json.push_str("null"),
            ValueKind::Map => {
                let mut keys = Vec::new();
                for key in value.try_iter()? {
                    keys.push((simple(&key).unwrap_or_else(|| key.to_string()), key));
                }
                if self.sorted {
                    // Numbers by size.
                    keys.sort_by(|(_, one), (_, other)| one.cmp(other));
                }
                let items = keys
                    .into_iter()
                    .map(|(text, key)| Ok((Some(text), value.get_item(&key)?)));
                self.write_all(['{', '}'], items, depth, json)?;
            }
            ValueKind::Seq | ValueKind::Iterable => {
                let items = value.try_iter()?.map(|item| Ok((None, item)));
                self.write_all(['[', ']'], items, depth, json)?;
            }
            _ => match simple(value) {
                Some(text) => json.push_str(&text),
                None => self.write_string(&value.to_string(), json),
            },
        }
        Ok(())
    }

    /// Writes items, each after its key if it has one.
    fn write_all(
        &self,
        [open, close]: [char; 2],
        items: impl Iterator<Item = Result<(Option<String>, Value), Error>>,
        depth: usize,
        json: &mut String,
    ) -> Result<(), Error> {
        json.push(open);
        let mut first = true;
        for item in items {
            let (key, item) = item?;
            json.push_str(if first { "" } else { &self.comma });
            first = false;
            self.line(depth + 1, json);
            if let Some(key) = key {
                self.write_string(&key, json);
                json.push_str(&self.colon);
            }
            self.write(&item, depth + 1, json)?;
        }
        if !first {
            self.line(depth, json);
        }
        json.push(close);
        Ok(())
    }

    fn line(&self, depth: usize, json: &mut String) {
        if let Some(indent) = &self.indent {
            json.push('\n');
            json.push_str(&indent.repeat(depth));
        }
    }

    fn write_string(&self, text: &str, json: &mut String) {
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
                letter if letter < ' ' || self.ascii && letter > '~' => {
                    for unit in letter.encode_utf16(&mut [0; 2]) {
                        let _ = write!(json, "\\u{unit:04x}");
                    }
                }
                letter => json.push(letter),
            }
        }
        json.push('"');
    }
}

/// A value without quotes, as Python writes it.
fn simple(value: &Value) -> Option<String> {
    match value.kind() {
        ValueKind::None => Some("null".to_owned()),
        ValueKind::Bool => Some(value.is_true().to_string()),
        ValueKind::Number if value.is_integer() => Some(value.to_string()),
        ValueKind::Number => f64::try_from(value.clone()).ok().map(float),
        _ => None,
    }
}

/// The text of a finite float as Python prints it; `None` for any other value.
pub(crate) fn float_text(value: &Value) -> Option<String> {
    if value.kind() != ValueKind::Number || value.is_integer() {
        return None;
    }
    let number = f64::try_from(value.clone()).ok();
    number.filter(|number| number.is_finite()).map(float)
}

/// Formats a number like Python's `repr`: shortest digits, an exponent from 1e16 on and below 1e-4.
fn float(number: f64) -> String {
    if !number.is_finite() {
        let text = if number > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        };
        return if number.is_nan() { "NaN" } else { text }.to_owned();
    }
    let size = number.abs();
    if size == 0.0 || (1e-4..1e16).contains(&size) {
        return format!("{number:?}");
    }
    let text = format!("{number:e}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) = match exponent.strip_prefix('-') {
                Some(exponent) => ('-', exponent),
                None => ('+', exponent),
            };
            format!("{digits}e{sign}{exponent:0>2}")
        }
        None => text,
    }
}
