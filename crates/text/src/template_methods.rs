//! Python's methods of strings, lists and dictionaries in chat templates.

use minijinja::value::{Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{Error, ErrorKind, State};
use minijinja_contrib::pycompat;

use crate::meter;
use crate::template_functions::by_name;

/// Calls a method that the interpreter does not have.
pub(crate) fn method(
    state: &mut State<'_, '_>,
    value: &Value,
    name: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let names: &[&str] = match name {
        "split" | "rsplit" => &["sep", "maxsplit"],
        "splitlines" => &["keepends"],
        _ => &[],
    };
    let named;
    let args = match args.last() {
        Some(last) if last.is_kwargs() && !names.is_empty() => {
            named = in_order(names, args)?;
            &named
        }
        _ => args,
    };
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
            Some((before, behind)) => Value::from((before, at, behind)),
            None => Value::from((text, "", "")),
        },
        ("rpartition", Some((text, Some(at)))) if !at.is_empty() => match text.rsplit_once(at) {
            Some((before, behind)) => Value::from((before, at, behind)),
            None => Value::from(("", "", text)),
        },
        ("rsplit", Some((text, at))) => list(&rsplit(text, at, args.get(1))),
        (
            "find" | "rfind" | "index" | "rindex" | "startswith" | "endswith" | "count",
            Some((text, _)),
        ) if args.len() > 1 || name.ends_with("index") => within(state, text, name, args)?,
        ("index", None) if value.kind() == ValueKind::Seq => {
            let mut items = value.try_iter()?;
            let place = items.position(|item| Some(&item) == args.first());
            place.map(Value::from).ok_or_else(absent)?
        }
        ("copy", None) if matches!(value.kind(), ValueKind::Seq | ValueKind::Map) => value.clone(),
        ("isdecimal", Some(_)) => {
            return pycompat::unknown_method_callback(state, value, "isdigit", args);
        }
        ("istitle", Some((text, _))) => {
            Value::from(text.contains(char::is_alphabetic) && title(text) == text)
        }
        ("swapcase", Some((text, _))) => Value::from(swapped(text)),
        ("casefold", Some((text, _))) => Value::from(text.to_lowercase()),
        ("ljust" | "rjust" | "center" | "zfill", Some((text, _))) => {
            Value::from(justified(text, name, args)?)
        }
        _ => return pycompat::unknown_method_callback(state, value, name, args),
    })
}

/// Arguments in the order of `names`, none for those left out.
fn in_order(names: &[&str], args: &[Value]) -> Result<Vec<Value>, Error> {
    let args = args.iter().cloned().map(ValueOrKwargs::from).collect();
    let named = by_name(names, Rest(args))?;
    let args: Result<Vec<Value>, Error> = names
        .iter()
        .map(|name| Ok(named.get::<Option<Value>>(name)?.into()))
        .collect();
    named.assert_all_used()?;
    args
}

/// Error of `index` without a find.
fn absent() -> Error {
    Error::new(
        ErrorKind::InvalidOperation,
        "the value to find is not there",
    )
}

/// `text.find(what, start, end)` and its like, which count letters.
fn within(
    state: &mut State<'_, '_>,
    text: &str,
    name: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let length = text.chars().count();
    let place = |index: usize, otherwise: usize| match args.get(index).and_then(Value::as_i64) {
        Some(at) if at < 0 => {
            length.saturating_sub(usize::try_from(at.unsigned_abs()).unwrap_or(length))
        }
        Some(at) => usize::try_from(at).unwrap_or(length),
        None => otherwise,
    };
    let (start, end) = (place(1, 0), place(2, length));
    let letters = text.chars().skip(start).take(end.saturating_sub(start));
    let part = Value::from(letters.collect::<String>());
    let finds = name.replace("index", "find");
    let sought = args.get(..1).unwrap_or(args);
    let found = pycompat::unknown_method_callback(state, &part, &finds, sought)?;
    match found.as_usize() {
        Some(at) if finds.ends_with("find") => Ok(Value::from(start + at)),
        None if finds != name => Err(absent()),
        _ => Ok(found),
    }
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
pub(crate) fn justified(text: &str, name: &str, args: &[Value]) -> Result<String, Error> {
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
