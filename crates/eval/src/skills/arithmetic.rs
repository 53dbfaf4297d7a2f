//! Column addition and subtraction, one column per step, with carries and borrows written out.

use super::chance::Chance;

const PLACES: [&str; 5] = ["ones", "tens", "hundreds", "thousands", "ten thousands"];

fn digits(mut number: u32) -> Vec<u32> {
    let mut digits = vec![number % 10];
    while number >= 10 {
        number /= 10;
        digits.push(number % 10);
    }
    digits
}

/// Mostly two or three digits, sometimes four, rarely one.
fn operand(chance: &mut Chance) -> u32 {
    match chance.below(100) {
        0..4 => chance.between(1, 9),
        4..35 => chance.between(10, 99),
        35..85 => chance.between(100, 999),
        _ => chance.between(1000, 9999),
    }
}

pub(crate) fn add(chance: &mut Chance) -> (String, String) {
    let (a, b) = (operand(chance), operand(chance));
    let text = chance.say(
        &[
            "What is {a} + {b}?",
            "What is {a} plus {b}?",
            "Add {a} and {b}.",
            "Calculate {a} + {b}.",
            "What is the sum of {a} and {b}?",
            "How much is {a} plus {b}?",
            "{a} + {b} = ?",
            "Work out {a}+{b}.",
        ],
        &[&a.to_string(), &b.to_string()],
    );
    (text, add_working(a, b))
}

fn add_working(a: u32, b: u32) -> String {
    let (top, bottom) = (digits(a), digits(b));
    let columns = top.len().max(bottom.len());
    let mut carry = 0;
    let mut steps = Vec::new();
    for (place, name) in PLACES.iter().enumerate().take(columns) {
        let x = top.get(place).copied().unwrap_or(0);
        let y = bottom.get(place).copied().unwrap_or(0);
        let sum = x + y + carry;
        let carried = if carry > 0 { "+1" } else { "" };
        let mut step = format!("{name} {x}+{y}{carried}={sum}");
        carry = sum / 10;
        if carry > 0 && place + 1 < columns {
            step += ", carry 1";
        }
        steps.push(step);
    }
    format!("Add {}. Answer: {}.", steps.join("; "), a + b)
}

pub(crate) fn subtract(chance: &mut Chance) -> (String, String) {
    let (mut a, mut b) = (operand(chance), operand(chance));
    if a < b {
        (a, b) = (b, a);
    }
    let text = chance.say(
        &[
            "What is {a} - {b}?",
            "What is {a} minus {b}?",
            "Subtract {b} from {a}.",
            "Calculate {a} - {b}.",
            "Take {b} away from {a}.",
            "What is the difference between {a} and {b}?",
            "How much is {a} minus {b}?",
            "{a} - {b} = ?",
        ],
        &[&a.to_string(), &b.to_string()],
    );
    (text, subtract_working(a, b))
}

fn subtract_working(a: u32, b: u32) -> String {
    let (top, bottom) = (digits(a), digits(b));
    let mut borrowed = 0;
    let mut steps = Vec::new();
    for (place, &x) in top.iter().enumerate() {
        let y = bottom.get(place).copied().unwrap_or(0);
        let taken = if borrowed > 0 { "-1" } else { "" };
        let name = PLACES[place];
        if x < y + borrowed {
            let left = x + 10 - y - borrowed;
            steps.push(format!("{name} 1{x}-{y}{taken}={left}, borrow 1"));
            borrowed = 1;
        } else {
            steps.push(format!("{name} {x}-{y}{taken}={}", x - y - borrowed));
            borrowed = 0;
        }
    }
    format!("Subtract {}. Answer: {}.", steps.join("; "), a - b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carries_are_spoken() {
        assert_eq!(
            add_working(347, 586),
            "Add ones 7+6=13, carry 1; tens 4+8+1=13, carry 1; hundreds 3+5+1=9. Answer: 933."
        );
        assert_eq!(
            add_working(95, 7),
            "Add ones 5+7=12, carry 1; tens 9+0+1=10. Answer: 102."
        );
    }

    #[test]
    fn borrows_are_spoken() {
        assert_eq!(
            subtract_working(402, 138),
            "Subtract ones 12-8=4, borrow 1; tens 10-3-1=6, borrow 1; hundreds 4-1-1=2. \
             Answer: 264."
        );
    }
}
