//! Functions of chat templates beyond Jinja's: `raise_exception`, `strftime_now`, `tojson`,
//! Python's `%` and keyword arguments.

use minijinja::value::{Kwargs, Rest, StringInput, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, escape_formatter, filters, functions};
use minijinja_contrib::globals;

use crate::{clock, meter, template_json, template_methods, template_texts};

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
    template_texts::add(environment);
    environment.set_unknown_method_callback(template_methods::method);
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
    environment.add_filter(TEXT, |state: &State<'_, '_>, value: Value| {
        match template_json::float_text(&value) {
            Some(text) => Ok(Value::from(text)),
            None => filters::string(state, &value),
        }
    });
    // Python's `%`: formatting or remainder.
    environment.add_filter(
        PERCENT,
        |state: &mut State<'_, '_>, left: Value, right: Value| percent(state, &left, &right),
    );
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
    environment.add_function("joiner", globals::joiner);
    environment.add_function("dict", dictionary);
    environment.add_function("namespace", |args: Rest<ValueOrKwargs>| {
        functions::namespace(Some(dictionary(args)?.into()))
    });
    // A text that is no number is 0.
    for (name, filter, zero) in [
        ("int", Value::from_function(filters::int), Value::from(0)),
        (
            "float",
            Value::from_function(filters::float),
            Value::from(0.0),
        ),
    ] {
        environment.add_filter(
            name,
            move |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
                let mut args = args.into_values();
                if let Some(text) = args.first().and_then(Value::as_str) {
                    let text = text.trim();
                    let apart = text.starts_with('_') || text.ends_with('_');
                    args[0] = match apart || text.contains("__") {
                        true => text.into(),
                        false => text.replace('_', "").into(),
                    };
                }
                filter.call(state, &args).unwrap_or_else(|_| zero.clone())
            },
        );
    }
    let sort = Value::from_function(filters::dictsort);
    environment.add_filter(
        "dictsort",
        move |state: &mut State<'_, '_>, value: Value, args: Rest<ValueOrKwargs>| {
            let options = by_name(&["case_sensitive", "by", "reverse"], args)?;
            sort.call(state, &[value, Value::from(options)])
        },
    );
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

/// Names the arguments of a Python function that may be given by position or by name.
pub(crate) fn by_name(names: &[&str], args: Rest<ValueOrKwargs>) -> Result<Kwargs, Error> {
    let mut args = args.into_values();
    let named = args.pop_if(|last| last.is_kwargs());
    if args.len() > names.len() {
        return Err(ErrorKind::TooManyArguments.into());
    }
    let mut pairs: Vec<(String, Value)> = Vec::new();
    for (name, value) in names.iter().zip(args) {
        pairs.push(((*name).to_owned(), value));
    }
    if let Some(named) = named {
        for name in named.try_iter()? {
            let value = named.get_item(&name)?;
            pairs.push((name.to_string(), value));
        }
    }
    Ok(pairs.into_iter().collect())
}

/// The dictionary of `dict(…)` and `namespace(…)`: of dictionaries, lists of pairs and
/// keywords.
fn dictionary(args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let mut pairs = Vec::new();
    for arg in args.into_values() {
        for item in arg.try_iter()? {
            pairs.push(match arg.kind() {
                ValueKind::Map => (item.clone(), arg.get_item(&item)?),
                _ => (item.get_item_by_index(0)?, item.get_item_by_index(1)?),
            });
        }
    }
    Ok(Value::from_pairs(pairs))
}

/// `text|replace(old, new, count)`.
pub(crate) fn replace(
    state: &mut State<'_, '_>,
    text: StringInput<'_>,
    old: StringInput<'_>,
    new: StringInput<'_>,
    count: Option<usize>,
) -> Result<Value, Error> {
    match count {
        Some(count) => Ok(text
            .as_str()
            .replacen(old.as_str(), new.as_str(), count)
            .into()),
        None => filters::replace(state, text, old, new),
    }
}

/// `text|indent(width, first, blank)`, where the width may be a text.
pub(crate) fn indent(mut text: String, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let options = by_name(&["width", "first", "blank"], args)?;
    let width = options.get::<Option<Value>>("width")?;
    let flag = |name| Ok::<_, Error>(options.get::<Option<bool>>(name)?.unwrap_or(false));
    let (first, blank) = (flag("first")?, flag("blank")?);
    options.assert_all_used()?;
    let margin = margin(&width.unwrap_or_else(|| Value::from(4)), usize::MAX)?;
    let mut indented = String::new();
    // A line end at the end begins another line.
    text.push('\n');
    for (index, line) in text.lines().enumerate() {
        if index > 0 {
            indented.push('\n');
        }
        if (index > 0 || first) && (blank || !line.is_empty() || index == 0) {
            indented.push_str(&margin);
        }
        indented.push_str(line);
    }
    Ok(indented)
}

/// `text|center(width)`.
pub(crate) fn center(text: String, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let options = by_name(&["width"], args)?;
    let width = options.get::<Option<usize>>("width")?.unwrap_or(80);
    options.assert_all_used()?;
    template_methods::justified(&text, "center", &[Value::from(width)])
}

/// `text|truncate(length, killwords, end, leeway)`: at a space, unless words may be cut.
pub(crate) fn truncate(text: String, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let options = by_name(&["length", "killwords", "end", "leeway"], args)?;
    let number = |name, usual| Ok::<_, Error>(options.get::<Option<usize>>(name)?.unwrap_or(usual));
    let (length, leeway) = (number("length", 255)?, number("leeway", 5)?);
    let cuts_words = options.get::<Option<bool>>("killwords")?.unwrap_or(false);
    let end = options.get::<Option<String>>("end")?;
    let end = end.unwrap_or_else(|| "...".to_owned());
    options.assert_all_used()?;
    if text.chars().count() <= length.saturating_add(leeway) {
        return Ok(text);
    }
    let kept = length.saturating_sub(end.chars().count());
    let kept: String = text.chars().take(kept).collect();
    let whole = kept.rsplit_once(' ').filter(|_| !cuts_words);
    Ok(whole.map_or(kept.as_str(), |(whole, _)| whole).to_owned() + &end)
}

/// Text before a line, of at most `most` letters: a text, or a number of spaces.
pub(crate) fn margin(width: &Value, most: usize) -> Result<String, Error> {
    Ok(match width.as_str() {
        Some(text) => text.chars().take(most).collect(),
        None => " ".repeat(usize::try_from(width.clone())?.min(most)),
    })
}

/// `value|default(other, boolean)`, also with keyword arguments.
fn default(
    state: &State<'_, '_>,
    value: Value,
    args: Rest<Value>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let mut all: Vec<Value> = args.0;
    if all.is_empty() {
        let other = kwargs.get::<Option<Value>>("default_value")?;
        all.push(other.unwrap_or_else(|| Value::from("")));
    }
    all.extend(kwargs.get::<Option<Value>>("boolean")?);
    kwargs.assert_all_used()?;
    filters::default(state, &value, Rest(all))
}

fn percent(state: &mut State<'_, '_>, left: &Value, right: &Value) -> Result<Value, Error> {
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
