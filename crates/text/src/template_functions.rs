//! What chat templates call beside Jinja's own: `raise_exception`, `strftime_now`, and `tojson` as
//! Python's `json.dumps` writes it (Jinja's own escapes HTML).

use std::fmt::Write;

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};

/// The error at the bottom of `raise_exception`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refusal(pub String);

/// Values within values; Python's own limit is about a thousand.
const DEEPEST: usize = 64;

pub(crate) fn add(environment: &mut Environment<'static>) {
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
    add_clock(environment, || {
        let now = web_time::SystemTime::now().duration_since(web_time::SystemTime::UNIX_EPOCH);
        now.map_or(0, |since| since.as_secs())
    });
}

/// `strftime_now` by the given clock: seconds since 1970, UTC.
pub(crate) fn add_clock(
    environment: &mut Environment<'static>,
    clock: impl Fn() -> u64 + Send + Sync + 'static,
) {
    environment.add_function("strftime_now", move |format: String| {
        strftime(&format, clock())
    });
}

/// Python's methods of strings, lists and dictionaries.
fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
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

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// The C library's `strftime` in UTC and the C locale, as far as dates and times go.
fn strftime(format: &str, seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let weekday = DAYS[usize::try_from((days + 4) % 7).unwrap_or(0)];
    let month_name = MONTHS[usize::try_from(month - 1).unwrap_or(0)];
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let twelve = (hour + 11) % 12 + 1;
    let mut text = String::new();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        let mut code = letters.next();
        // `%-d`: without the leading zero.
        let bare = code == Some('-');
        if bare {
            code = letters.next();
        }
        let mut number = |value: u64, width: usize| {
            let width = if bare { 0 } else { width };
            let _ = write!(text, "{value:0width$}");
        };
        match code {
            Some('Y') => number(year, 4),
            Some('y') => number(year % 100, 2),
            Some('m') => number(month, 2),
            Some('d') => number(day, 2),
            Some('H') => number(hour, 2),
            Some('I') => number(twelve, 2),
            Some('M') => number(minute, 2),
            Some('S') => number(second, 2),
            Some('j') => number(days - days_to_year(year) + 1, 3),
            Some('B') => text.push_str(month_name),
            Some('b' | 'h') => text.push_str(&month_name[..3]),
            Some('A') => text.push_str(weekday),
            Some('a') => text.push_str(&weekday[..3]),
            Some('p') => text.push_str(if hour < 12 { "AM" } else { "PM" }),
            Some('F') => text.push_str(&strftime("%Y-%m-%d", seconds)),
            Some('T') => text.push_str(&strftime("%H:%M:%S", seconds)),
            Some('Z') => text.push_str("UTC"),
            Some('z') => text.push_str("+0000"),
            Some('%') => text.push('%'),
            Some(other) => text.extend(['%', other]),
            None => text.push('%'),
        }
    }
    text
}

/// Days from 1970 to the first of January of `year`.
fn days_to_year(year: u64) -> u64 {
    let before = year - 1;
    before * 365 + before / 4 - before / 100 + before / 400 - 719_162
}

/// Year, month and day of a day counted from 1970.
fn date(days: u64) -> (u64, u64, u64) {
    let mut year = 1970 + days / 366;
    while days_to_year(year + 1) <= days {
        year += 1;
    }
    let leap = days_to_year(year + 1) - days_to_year(year) == 366;
    let mut day = days - days_to_year(year);
    let lengths = [
        31,
        if leap { 29 } else { 28 },
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    for (month, length) in (1..).zip(lengths) {
        if day < length {
            return (year, month, day + 1);
        }
        day -= length;
    }
    (year, 12, 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_the_calendar_s() {
        assert_eq!(strftime("%d %b %Y", 0), "01 Jan 1970");
        assert_eq!(
            strftime("%Y-%m-%d %H:%M:%S %A %j", 951_825_599),
            "2000-02-29 11:59:59 Tuesday 060"
        );
        assert_eq!(
            strftime("%-d %B %y, %I %p %% %q", 4_102_444_799),
            "31 December 99, 11 PM % %q"
        );
        assert_eq!(
            strftime("%F %T %a", 1_732_156_800),
            "2024-11-21 02:40:00 Thu"
        );
    }
}
