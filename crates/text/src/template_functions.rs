//! Functions of chat templates beyond Jinja's: `raise_exception`, `strftime_now`, `tojson`, Python's
//! methods, `%` and keyword arguments.

use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, escape_formatter, filters};
use minijinja_contrib::{globals, pycompat};

use crate::{clock, meter, template_json};

/// Root cause of a `raise_exception`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refusal(pub String);

/// Filter that replaces Python's `%`; templates can't spell its name.
pub(crate) const PERCENT: &str = "=percent";

/// Filter that makes a text of a value.
pub(crate) const TEXT: &str = "string";

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
    environment.add_filter("tojson", template_json::tojson);
    environment.set_formatter(|out, state, value| match template_json::float_text(value) {
        Some(text) => Ok(out.write_str(&text)?),
        None => escape_formatter(out, state, value),
    });
    environment.add_filter(
        TEXT,
        |state: &State, value: Value| match template_json::float_text(&value) {
            Some(text) => Ok(Value::from(text)),
            None => filters::string(state, &value),
        },
    );
    // Python's `%`: formatting or remainder.
    environment.add_filter(PERCENT, |state: &mut State, left: Value, right: Value| {
        percent(state, &left, &right)
    });
    for name in ["default", "d"] {
        environment.add_filter(name, default);
    }
    for name in ["length", "count"] {
        environment.add_filter(name, |value: Value| match value.is_undefined() {
            true => Ok(0),
            false => filters::length(&value),
        });
    }
    environment.add_filter("wordcount", |text: String| {
        let words = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        words.filter(|word| !word.is_empty()).count()
    });
    environment.add_function("cycler", |items: Rest<Value>| globals::cycler(items.0));
    // As in Jinja: none is not iterable; strings and dictionaries are sequences.
    environment.add_test("iterable", |value: Value| {
        !value.is_none() && (value.as_str().is_some() || value.try_iter().is_ok())
    });
    environment.add_test("sequence", |value: Value| {
        value.as_str().is_some() || matches!(value.kind(), ValueKind::Seq | ValueKind::Map)
    });
    add_clock(environment, clock::local_seconds);
}

/// `strftime_now` by this clock: seconds since 1970 in local time.
pub(crate) fn add_clock(
    environment: &mut Environment<'static>,
    clock: impl Fn() -> u64 + Send + Sync + 'static,
) {
    environment.add_function("strftime_now", move |format: String| {
        clock::strftime(&format, clock())
    });
}

/// `value|default(other, boolean)`, also with keyword arguments.
fn default(state: &State, value: Value, args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let mut all: Vec<Value> = args.0;
    if all.is_empty() {
        let other = kwargs.get::<Option<Value>>("default_value")?;
        all.push(other.unwrap_or_else(|| Value::from("")));
    }
    all.extend(kwargs.get::<Option<Value>>("boolean")?);
    kwargs.assert_all_used()?;
    filters::default(state, &value, Rest(all))
}

fn percent(state: &mut State, left: &Value, right: &Value) -> Result<Value, Error> {
    if left.as_str().is_some() {
        let mut args = vec![left.clone()];
        match right.kind() {
            // A list is one argument.
            ValueKind::Seq if right.is_tuple() => args.extend(right.try_iter()?),
            _ => args.push(right.clone()),
        }
        return state.apply_filter("format", &args);
    }
    let impossible = || Error::new(ErrorKind::InvalidOperation, "these have no remainder");
    if let (Ok(left), Ok(right)) = (i64::try_from(left.clone()), i64::try_from(right.clone())) {
        let rest = left.checked_rem(right).ok_or_else(impossible)?;
        let other_side = rest != 0 && (rest < 0) != (right < 0);
        return Ok(Value::from(if other_side { rest + right } else { rest }));
    }
    let number = |value: &Value| f64::try_from(value.clone()).map_err(|_| impossible());
    let (left, right) = (number(left)?, number(right)?);
    match right == 0.0 {
        true => Err(impossible()),
        false => Ok(Value::from(left - right * (left / right).floor())),
    }
}

/// Python's methods of strings, lists and dictionaries.
fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    meter::charge_method(state, value, name, args)?;
    let pairs: Option<(&str, Option<&str>)> = value
        .as_str()
        .map(|text| (text, args.first().and_then(Value::as_str)));
    Ok(match (name, pairs) {
        // In Python a word begins after any character that is no letter, not only after a space.
        ("title", Some((text, _))) if args.is_empty() => Value::from(title(text)),
        ("removeprefix", Some((text, Some(end)))) => text.strip_prefix(end).unwrap_or(text).into(),
        ("removesuffix", Some((text, Some(end)))) => text.strip_suffix(end).unwrap_or(text).into(),
        ("partition", Some((text, Some(at)))) if !at.is_empty() => match text.split_once(at) {
            Some((before, behind)) => list(&[before, at, behind]),
            None => list(&[text, "", ""]),
        },
        ("rpartition", Some((text, Some(at)))) if !at.is_empty() => match text.rsplit_once(at) {
            Some((before, behind)) => list(&[before, at, behind]),
            None => list(&["", "", text]),
        },
        ("rsplit", Some((text, at))) => list(&rsplit(text, at, args.get(1))),
        ("swapcase", Some((text, _))) => Value::from(swapped(text)),
        ("casefold", Some((text, _))) => Value::from(text.to_lowercase()),
        ("ljust" | "rjust" | "center" | "zfill", Some((text, _))) => {
            Value::from(justified(text, name, args)?)
        }
        _ => return pycompat::unknown_method_callback(state, value, name, args),
    })
}

fn list(texts: &[&str]) -> Value {
    texts.iter().copied().map(Value::from).collect()
}

/// `text.rsplit(at, most)`: at most `most` splits, from the end.
fn rsplit<'a>(text: &'a str, at: Option<&str>, most: Option<&Value>) -> Vec<&'a str> {
    let most = most
        .and_then(Value::as_usize)
        .map_or(usize::MAX, |most| most.saturating_add(1));
    let mut pieces: Vec<&str> = match at.filter(|at| !at.is_empty()) {
        Some(at) => text.rsplitn(most, at).collect(),
        None => {
            let (mut pieces, mut rest) = (Vec::new(), text.trim_end());
            while pieces.len() + 1 < most
                && let Some((before, piece)) = rest.rsplit_once(char::is_whitespace)
            {
                pieces.push(piece);
                rest = before.trim_end();
            }
            pieces.extend(Some(rest).filter(|rest| !rest.trim().is_empty()));
            pieces
        }
    };
    pieces.reverse();
    pieces
}

fn swapped(text: &str) -> String {
    let swap = |letter: char| match letter.is_lowercase() {
        true => letter.to_uppercase().to_string(),
        false => letter.to_lowercase().to_string(),
    };
    text.chars().map(swap).collect()
}

/// Pads `text` to the width of the first argument with the second, or spaces.
fn justified(text: &str, name: &str, args: &[Value]) -> Result<String, Error> {
    let width = args.first().and_then(Value::as_usize);
    let width = width.ok_or_else(|| Error::from(ErrorKind::MissingArgument))?;
    let room = width.saturating_sub(text.chars().count());
    let fill = args.get(1).and_then(Value::as_str).unwrap_or(" ");
    let pad = |count: usize, fill: &str| fill.repeat(count);
    Ok(match name {
        "ljust" => format!("{text}{}", pad(room, fill)),
        "rjust" => format!("{}{text}", pad(room, fill)),
        "zfill" => {
            let digits = text.trim_start_matches(['+', '-']);
            let sign = &text[..text.len() - digits.len()];
            format!("{sign}{}{digits}", pad(room, "0"))
        }
        _ => {
            // In Python an odd space goes left if the width is odd.
            let left = room / 2 + (room & width & 1);
            format!("{}{text}{}", pad(left, fill), pad(room - left, fill))
        }
    })
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
