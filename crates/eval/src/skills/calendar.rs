//! Calendar steps: weekdays by whole weeks and a remainder, months one by one, dates across the end
//! of a month.

use super::chance::{Chance, commas, counted};

const WEEKDAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];

const MONTHS: [(&str, u32); 12] = [
    ("January", 31),
    ("February", 28),
    ("March", 31),
    ("April", 30),
    ("May", 31),
    ("June", 30),
    ("July", 31),
    ("August", 31),
    ("September", 30),
    ("October", 31),
    ("November", 30),
    ("December", 31),
];

pub(crate) fn calendar(chance: &mut Chance) -> (String, String) {
    match chance.below(10) {
        0..5 => weekday(chance),
        5..7 => month(chance),
        _ => date(chance),
    }
}

/// Indices passed when stepping `steps` forward (or back) from `from`.
fn walk(names: usize, from: usize, steps: u32, back: bool) -> Vec<usize> {
    (1..=steps as usize)
        .map(|step| {
            if back {
                (from + names * 12 - step) % names
            } else {
                (from + step) % names
            }
        })
        .collect()
}

fn weekday(chance: &mut Chance) -> (String, String) {
    let today = chance.below(7);
    let days = chance.between(2, 60);
    let back = chance.percent(30);
    let phrasings: &[&str] = if back {
        &[
            "Today is {a}. What day was it {b} ago?",
            "If today is {a}, what day was it {b} ago?",
            "What day of the week was it {b} before {a}?",
            "Which weekday comes {b} before {a}?",
        ]
    } else {
        &[
            "Today is {a}. What day is it in {b}?",
            "If today is {a}, what day will it be in {b}?",
            "What day of the week is {b} after {a}?",
            "Which weekday comes {b} after {a}?",
            "It is {a}. What day is it {b} from now?",
        ]
    };
    let text = chance.say(phrasings, &[WEEKDAYS[today], &counted(days, "day", "days")]);
    let (weeks, rest) = (days / 7, days % 7);
    let passed: Vec<&str> = walk(7, today, rest, back)
        .into_iter()
        .map(|day| WEEKDAYS[day])
        .collect();
    let last = passed.last().copied().unwrap_or(WEEKDAYS[today]);
    let steps = if passed.is_empty() {
        "the same day".to_string()
    } else {
        commas(&passed)
    };
    let way = if back { "back" } else { "on" };
    (
        text,
        format!(
            "Weeks {weeks}x7={}, rest {rest}. Go {way}: {steps}. Answer: {last}.",
            weeks * 7
        ),
    )
}

fn month(chance: &mut Chance) -> (String, String) {
    let from = chance.below(12);
    let months = chance.between(2, 10);
    let back = chance.percent(35);
    let phrasings: &[&str] = if back {
        &[
            "Which month is {b} before {a}?",
            "What month comes {b} before {a}?",
            "It is {a}. What month was it {b} ago?",
        ]
    } else {
        &[
            "Which month is {b} after {a}?",
            "What month comes {b} after {a}?",
            "It is {a}. What month will it be in {b}?",
        ]
    };
    let text = chance.say(
        phrasings,
        &[MONTHS[from].0, &counted(months, "month", "months")],
    );
    let passed: Vec<String> = walk(12, from, months, back)
        .into_iter()
        .enumerate()
        .map(|(step, month)| format!("{} {}", step + 1, MONTHS[month].0))
        .collect();
    let last = walk(12, from, months, back)
        .last()
        .map_or(MONTHS[from].0, |&month| MONTHS[month].0);
    let way = if back { "back" } else { "on" };
    (
        text,
        format!("Go {way}: {}. Answer: {last}.", commas(&passed)),
    )
}

fn date(chance: &mut Chance) -> (String, String) {
    let month = chance.below(12);
    let (name, length) = MONTHS[month];
    let day = chance.between(1, length);
    let days = chance.between(2, 28);
    let text = chance.say(
        &[
            "What date is {b} after {c} {a}?",
            "Which date comes {b} after {c} {a}?",
            "Today is {c} {a}. What date is it in {b}?",
            "It is {c} {a}. What will the date be in {b}?",
            "Add {b} to {c} {a}. Which date is it?",
        ],
        &[name, &counted(days, "day", "days"), &day.to_string()],
    );
    let sum = day + days;
    let working = format!("{name} has {length} days. {day}+{days}={sum}");
    // At most 28 days on, the date is in this month or the next one.
    if sum <= length {
        return (
            text,
            format!("{working}, still {name}. Answer: {sum} {name}."),
        );
    }
    let next = MONTHS[(month + 1) % 12].0;
    let rest = sum - length;
    (
        text,
        format!("{working}, {sum}-{length}={rest}, next {next}. Answer: {rest} {next}."),
    )
}
