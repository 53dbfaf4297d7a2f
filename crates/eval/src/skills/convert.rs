//! Conversions between units, both ways: first the product or quotient, then the sum.

use super::chance::{Chance, counted};

/// A large unit, a small one, and the number of small ones in a large one.
struct Units {
    large: (&'static str, &'static str),
    small: (&'static str, &'static str),
    ratio: u32,
    /// Largest number of large units in a question.
    most: u32,
}

const UNITS: [Units; 9] = [
    Units {
        large: ("hour", "hours"),
        small: ("minute", "minutes"),
        ratio: 60,
        most: 12,
    },
    Units {
        large: ("minute", "minutes"),
        small: ("second", "seconds"),
        ratio: 60,
        most: 12,
    },
    Units {
        large: ("day", "days"),
        small: ("hour", "hours"),
        ratio: 24,
        most: 9,
    },
    Units {
        large: ("week", "weeks"),
        small: ("day", "days"),
        ratio: 7,
        most: 12,
    },
    Units {
        large: ("year", "years"),
        small: ("month", "months"),
        ratio: 12,
        most: 12,
    },
    Units {
        large: ("metre", "metres"),
        small: ("centimetre", "centimetres"),
        ratio: 100,
        most: 30,
    },
    Units {
        large: ("kilometre", "kilometres"),
        small: ("metre", "metres"),
        ratio: 1000,
        most: 20,
    },
    Units {
        large: ("kilogram", "kilograms"),
        small: ("gram", "grams"),
        ratio: 1000,
        most: 20,
    },
    Units {
        large: ("foot", "feet"),
        small: ("inch", "inches"),
        ratio: 12,
        most: 12,
    },
];

pub(crate) fn convert(chance: &mut Chance) -> (String, String) {
    let units = &UNITS[chance.below(UNITS.len())];
    let large = chance.between(1, units.most);
    let small = chance.between(0, units.ratio - 1);
    if chance.percent(50) {
        to_small(chance, units, large, small)
    } else {
        to_large(chance, units, large, small)
    }
}

fn to_small(chance: &mut Chance, units: &Units, large: u32, small: u32) -> (String, String) {
    let Units { ratio, .. } = *units;
    let mut amount = counted(large, units.large.0, units.large.1);
    if small > 0 {
        amount += &format!(" and {}", counted(small, units.small.0, units.small.1));
    }
    let text = chance.say(
        &[
            "How many {b} are {a}?",
            "How many {b} are there in {a}?",
            "Convert {a} to {b}.",
            "What is {a} in {b}?",
            "Turn {a} into {b}.",
            "Express {a} in {b}.",
        ],
        &[&amount, units.small.1],
    );
    let total = large * ratio + small;
    let answer = format!(
        "One {} is {ratio} {}: {large}x{ratio}={}, {}+{small}={total}. Answer: {}.",
        units.large.0,
        units.small.1,
        large * ratio,
        large * ratio,
        counted(total, units.small.0, units.small.1),
    );
    (text, answer)
}

fn to_large(chance: &mut Chance, units: &Units, large: u32, small: u32) -> (String, String) {
    let Units { ratio, .. } = *units;
    let total = large * ratio + small;
    let text = chance.say(
        &[
            "How many {b} and {c} are {a}?",
            "Convert {a} to {b} and {c}.",
            "What is {a} in {b} and {c}?",
            "Turn {a} into {b} and {c}.",
            "Express {a} in {b} and {c}.",
        ],
        &[
            &counted(total, units.small.0, units.small.1),
            units.large.1,
            units.small.1,
        ],
    );
    let answer = format!(
        "One {} is {ratio} {}: {large}x{ratio}={}, {total}-{}={small}. Answer: {} and {}.",
        units.large.0,
        units.small.1,
        large * ratio,
        large * ratio,
        counted(large, units.large.0, units.large.1),
        counted(small, units.small.0, units.small.1),
    );
    (text, answer)
}
