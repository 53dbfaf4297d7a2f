//! Work limit of a template: counts the input bytes of its operations.

use minijinja::value::{Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, filters};

use crate::{template_functions, template_texts};

/// Filter that weighs a value with everything in it. Templates can't spell its name.
pub const WEIGH: &str = "=weigh";

/// Filter that counts a value's items, or its bytes if it is a string.
pub const SHALLOW: &str = "=shallow";

/// Bytes that one rendering may process: a hundred times a long conversation.
pub const BUDGET: usize = 1 << 27;

/// Bytes of a value beside its content.
const ITEM: usize = 32;

/// Maximum nesting of values.
const DEEPEST: usize = 64;

/// Rest of [`BUDGET`] in a rendering.
struct Left(usize);

/// Installs the meters of [`metered`](crate::metered::metered) templates, and replaces the filters
/// whose result may be longer than their input.
pub fn add(environment: &mut Environment<'static>) {
    environment.add_filter(WEIGH, |state: &mut State<'_, '_>, value: Value| {
        weigh(state, &value).map(|()| value)
    });
    environment.add_filter(SHALLOW, |state: &mut State<'_, '_>, value: Value| {
        charge(state, shallow(&value)).map(|()| value)
    });
    // It prints the whole state.
    environment.remove_global("debug");
    let of = |filter: Value, cost: fn(&[Value]) -> usize| (filter, cost);
    for (name, (filter, cost)) in [
        (
            "replace",
            of(Value::from_function(template_functions::replace), replaced),
        ),
        ("join", of(Value::from_function(filters::join), joined)),
        (
            "format",
            of(Value::from_function(template_texts::format), formatted),
        ),
        (
            "indent",
            of(Value::from_function(template_functions::indent), padded),
        ),
        (
            "center",
            of(Value::from_function(template_functions::center), padded),
        ),
        (
            "truncate",
            of(Value::from_function(template_functions::truncate), |_| 0),
        ),
        ("batch", of(Value::from_function(filters::batch), padded)),
        ("slice", of(Value::from_function(filters::slice), padded)),
        ("sum", of(Value::from_function(filters::sum), summed)),
        ("split", of(Value::from_function(filters::split), torn)),
        ("lines", of(Value::from_function(filters::lines), torn)),
        ("list", of(Value::from_function(filters::list), spelt)),
        ("sort", of(Value::from_function(filters::sort), spelt)),
        ("unique", of(Value::from_function(filters::unique), spelt)),
        ("map", of(Value::from_function(filters::map), spelt)),
        ("select", of(Value::from_function(filters::select), spelt)),
        ("reject", of(Value::from_function(filters::reject), spelt)),
    ] {
        environment.add_filter(
            name,
            move |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
                let args = args.into_values();
                charge(state, cost(&args))?;
                filter.call(state, &args)
            },
        );
    }
}

/// Charges a Python method before its call: its receiver has been counted and its arguments
/// weighed.
pub fn charge_method(
    state: &mut State<'_, '_>,
    value: &Value,
    name: &str,
    args: &[Value],
) -> Result<(), Error> {
    let all: Vec<Value> = std::iter::once(value).chain(args).cloned().collect();
    let cost = match (name, value.as_str(), args) {
        ("replace", ..) => replaced(&all),
        ("format", ..) => formatted(&all),
        ("join", Some(_), [items]) => joined(&[items.clone(), value.clone()]),
        ("split" | "splitlines" | "rsplit", ..) => torn(&all),
        ("ljust" | "rjust" | "center" | "zfill", ..) => padded(&all),
        _ => 0,
    };
    charge(state, cost)
}

/// Subtracts `bytes` from the rest.
///
/// # Errors
/// As if the interpreter's steps were used up.
pub fn charge(state: &mut State<'_, '_>, bytes: usize) -> Result<(), Error> {
    let left = state.get_or_insert_extension_with(|| Left(BUDGET));
    left.0 = left.0.checked_sub(bytes).ok_or(ErrorKind::OutOfFuel)?;
    Ok(())
}

fn left(state: &mut State<'_, '_>) -> usize {
    state.get_or_insert_extension_with(|| Left(BUDGET)).0
}

/// Bytes of a string, items of anything else.
fn shallow(value: &Value) -> usize {
    match value.as_str() {
        Some(text) => text.len(),
        None => ITEM.saturating_mul(value.len().unwrap_or(0)),
    }
}

/// Charges a value with everything in it, once per occurrence.
fn weigh(state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    let mut left = left(state);
    let before = left;
    spend(value, DEEPEST, &mut left)?;
    charge(state, before - left)
}

fn spend(value: &Value, depth: usize, left: &mut usize) -> Result<(), Error> {
    let mut take = |bytes: usize| {
        *left = left.checked_sub(bytes).ok_or(ErrorKind::OutOfFuel)?;
        Ok::<(), Error>(())
    };
    if let Some(text) = value.as_str() {
        return take(text.len());
    }
    let kind = value.kind();
    if !matches!(kind, ValueKind::Map | ValueKind::Seq | ValueKind::Iterable) {
        return Ok(());
    }
    let Some(object) = value.as_object() else {
        return Ok(());
    };
    let depth = depth
        .checked_sub(1)
        .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "values are nested too deeply"))?;
    if kind == ValueKind::Map {
        for (key, item) in object.try_iter_pairs().into_iter().flatten() {
            *left = left.checked_sub(2 * ITEM).ok_or(ErrorKind::OutOfFuel)?;
            spend(&key, depth, left)?;
            spend(&item, depth, left)?;
        }
    } else {
        for item in object.try_iter().into_iter().flatten() {
            *left = left.checked_sub(ITEM).ok_or(ErrorKind::OutOfFuel)?;
            spend(&item, depth, left)?;
        }
    }
    Ok(())
}

/// `text|replace(old, new)`: bytes that the new texts add.
fn replaced(args: &[Value]) -> usize {
    let texts: Vec<&str> = args.iter().take(3).filter_map(Value::as_str).collect();
    let [text, old, new] = texts[..] else {
        // Other values are printed first.
        return match args {
            [text, _, new, ..] => printed(text).saturating_mul(1 + printed(new)),
            _ => 0,
        };
    };
    text.matches(old).count().saturating_mul(new.len())
}

/// `text|split(at)`, `text|lines`: the pieces.
fn torn(args: &[Value]) -> usize {
    let Some(text) = args.first().and_then(Value::as_str) else {
        return 0;
    };
    let at = args
        .get(1)
        .and_then(Value::as_str)
        .filter(|at| !at.is_empty());
    let pieces = match at {
        Some(at) => text.matches(at).count(),
        None => text.matches(char::is_whitespace).count(),
    };
    ITEM.saturating_mul(pieces + 1)
}

/// `items|list` and other filters that iterate: the letters, if the items are a string's.
fn spelt(args: &[Value]) -> usize {
    let text = args.first().and_then(Value::as_str);
    text.map_or(0, |text| ITEM.saturating_mul(text.len()))
}

/// `items|join(between)`: the separators.
fn joined(args: &[Value]) -> usize {
    let between = args.get(1).map_or(0, printed);
    let items = match args.first() {
        Some(text) if text.as_str().is_some() => text.as_str().map_or(0, str::len),
        Some(items) => items.try_iter().map_or(0, Iterator::count),
        None => 0,
    };
    items.saturating_mul(between)
}

/// `text|format(…)`: each specification may write any argument, as wide as any number in it.
fn formatted(args: &[Value]) -> usize {
    let Some((text, values)) = args.split_first() else {
        return 0;
    };
    let text = text.to_string();
    let specifications = text.matches(['%', '{']).count();
    let numbers = text.split(|letter: char| !letter.is_ascii_digit());
    let widths = numbers
        .filter(|number| !number.is_empty())
        .map(|number| number.parse().unwrap_or(usize::MAX));
    let has_widths = text.contains(['*', '{']);
    let values = values.iter().map(|value| {
        let width = value.as_usize().filter(|_| has_widths).unwrap_or(0);
        printed(value).saturating_add(width)
    });
    let widest = widths.chain(values).fold(0, usize::saturating_add);
    specifications.saturating_mul(widest)
}

/// `text|indent(width)`, `items|batch(size, filling)`, `items|slice(count)`: for each line, as wide
/// as any number among the arguments.
fn padded(args: &[Value]) -> usize {
    let lines = args.first().and_then(Value::as_str);
    let lines = lines.map_or(1, |text| 1 + text.matches('\n').count());
    let width = |value: &Value| match value.kind() {
        ValueKind::Map => object_numbers(value),
        ValueKind::String => value.as_str().map_or(0, str::len),
        _ => value.as_usize().unwrap_or(0),
    };
    let widest = args
        .iter()
        .skip(1)
        .map(width)
        .fold(0, usize::saturating_add);
    ITEM.saturating_mul(lines).saturating_mul(widest)
}

/// `text|wordwrap(…)`: each letter may become a line, with any text among the arguments after it.
pub fn wrapped(text: &str, args: &[Value]) -> usize {
    let ends = args.iter().map(|value| match value.kind() {
        ValueKind::Map => object_numbers(value),
        _ => value.as_str().map_or(0, str::len),
    });
    let end = ends.fold(ITEM, usize::saturating_add);
    text.len().saturating_mul(end)
}

/// Numbers and lengths of strings among keyword arguments.
fn object_numbers(value: &Value) -> usize {
    let object = value.as_object();
    let pairs = object.and_then(|object| object.try_iter_pairs());
    let width = |(_, value): (Value, Value)| match value.as_str() {
        Some(text) => text.len(),
        None => value.as_usize().unwrap_or(0),
    };
    pairs
        .into_iter()
        .flatten()
        .map(width)
        .fold(0, usize::saturating_add)
}

/// `items|sum`: strings are appended one by one, with a copy each time.
fn summed(args: &[Value]) -> usize {
    let Some(items) = args.first() else { return 0 };
    let items = items.try_iter().into_iter().flatten();
    let mut sum: usize = 0;
    items.fold(0, |all, item| {
        sum = sum.saturating_add(shallow(&item));
        sum.saturating_add(all)
    })
}

/// Upper bound of a value's bytes when printed; operands have been weighed, so that this
/// terminates.
fn printed(value: &Value) -> usize {
    let mut left = BUDGET;
    match spend(value, DEEPEST, &mut left) {
        Ok(()) => BUDGET - left + ITEM,
        Err(_) => usize::MAX,
    }
}
