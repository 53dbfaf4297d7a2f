//! Small word problems of one to three steps, every step an equation.

use super::chance::Chance;
use super::words::{NAMES, THINGS};

pub(crate) fn problem(chance: &mut Chance) -> (String, String) {
    match chance.below(6) {
        0 => give_and_take(chance),
        1 => boxes(chance),
        2 => change(chance),
        3 => share(chance),
        4 => together(chance),
        _ => journey(chance),
    }
}

fn give_and_take(chance: &mut Chance) -> (String, String) {
    let (start, more) = (chance.between(11, 60), chance.between(5, 39));
    let less = chance.between(3, (start + more - 1).min(40));
    let name = chance.pick(&NAMES);
    let thing = chance.pick(&THINGS);
    let text = chance.say(
        &[
            "{a} has {c} {b}. {a} buys {d} more and gives {e} away. How many {b} are left?",
            "{a} had {c} {b}, found {d} more and lost {e}. How many {b} does {a} have now?",
            "There were {c} {b} in a box. {a} put in {d} more and took out {e}. How many {b} are \
             in the box?",
        ],
        &[
            name,
            thing,
            &start.to_string(),
            &more.to_string(),
            &less.to_string(),
        ],
    );
    let sum = start + more;
    (
        text,
        format!(
            "{start}+{more}={sum}, {sum}-{less}={}. Answer: {}.",
            sum - less,
            sum - less
        ),
    )
}

fn boxes(chance: &mut Chance) -> (String, String) {
    let (count, each, extra) = (
        chance.between(2, 9),
        chance.between(3, 12),
        chance.between(2, 19),
    );
    let name = chance.pick(&NAMES);
    let thing = chance.pick(&THINGS);
    let text = chance.say(
        &[
            "{a} has {c} boxes with {d} {b} in each and {e} loose {b}. How many {b} does {a} have?",
            "A shop has {c} bags of {d} {b} and {e} single {b}. How many {b} is that in all?",
            "{a} packs {c} bags with {d} {b} each, and {e} {b} are left over. How many {b} were \
             there?",
        ],
        &[
            name,
            thing,
            &count.to_string(),
            &each.to_string(),
            &extra.to_string(),
        ],
    );
    let product = count * each;
    (
        text,
        format!(
            "{count}x{each}={product}, {product}+{extra}={}. Answer: {}.",
            product + extra,
            product + extra
        ),
    )
}

fn change(chance: &mut Chance) -> (String, String) {
    let (count, price) = (chance.between(2, 9), chance.between(2, 11));
    let cost = count * price;
    let paid = if cost <= 50 && chance.percent(50) {
        50
    } else {
        100
    };
    let name = chance.pick(&NAMES);
    let thing = chance.pick(&THINGS);
    let text = chance.say(
        &[
            "{a} buys {c} {b} for {d} coins each and pays with {e} coins. How many coins does {a} \
             get back?",
            "{a} had {e} coins and bought {c} {b} at {d} coins each. How many coins are left?",
            "One of the {b} costs {d} coins. {a} takes {c} and pays {e} coins. How much change is \
             there?",
        ],
        &[
            name,
            thing,
            &count.to_string(),
            &price.to_string(),
            &paid.to_string(),
        ],
    );
    (
        text,
        format!(
            "{count}x{price}={cost}, {paid}-{cost}={}. Answer: {}.",
            paid - cost,
            paid - cost
        ),
    )
}

fn share(chance: &mut Chance) -> (String, String) {
    let (friends, each) = (chance.between(2, 9), chance.between(2, 11));
    let rest = chance.between(0, friends - 1);
    let total = friends * each + rest;
    let name = chance.pick(&NAMES);
    let thing = chance.pick(&THINGS);
    let text = chance.say(
        &[
            "{a} shares {c} {b} equally among {d} friends. How many does each friend get, and how \
             many are left?",
            "{c} {b} are split evenly between {d} children. How many does each get and how many \
             are left over?",
        ],
        &[name, thing, &total.to_string(), &friends.to_string()],
    );
    let product = friends * each;
    (
        text,
        format!(
            "{friends}x{each}={product}, {total}-{product}={rest}. \
             Answer: {each} each, {rest} left."
        ),
    )
}

fn together(chance: &mut Chance) -> (String, String) {
    let (first, gap) = (chance.between(8, 48), chance.between(3, 29));
    let names = chance.sample(&NAMES, 2);
    let thing = chance.pick(&THINGS);
    let more = first <= gap || chance.percent(60);
    let second = if more { first + gap } else { first - gap };
    let phrasings: &[&str] = if more {
        &[
            "{a} has {d} {c} and {b} has {e} more than {a}. How many {c} do they have together?",
            "{a} collected {d} {c}. {b} collected {e} more than that. How many {c} did both \
             collect?",
        ]
    } else {
        &[
            "{a} has {d} {c} and {b} has {e} fewer than {a}. How many {c} do they have together?",
            "{a} collected {d} {c}. {b} collected {e} fewer than that. How many {c} did both \
             collect?",
        ]
    };
    let text = chance.say(
        phrasings,
        &[
            names[0],
            names[1],
            thing,
            &first.to_string(),
            &gap.to_string(),
        ],
    );
    let sign = if more { '+' } else { '-' };
    let sum = first + second;
    (
        text,
        format!("{first}{sign}{gap}={second}, {first}+{second}={sum}. Answer: {sum}."),
    )
}

fn journey(chance: &mut Chance) -> (String, String) {
    let (start, minutes) = (chance.between(1, 11), chance.between(0, 11) * 5);
    let length = chance.between(2, 23) * 5;
    let name = chance.pick(&NAMES);
    let text = chance.say(
        &[
            "A train leaves at {b} and the trip takes {c} minutes. When does it arrive?",
            "A film starts at {b} and lasts {c} minutes. When does it end?",
            "{a} starts to cook at {b} and needs {c} minutes. At what time is the meal ready?",
        ],
        &[name, &format!("{start}:{minutes:02}"), &length.to_string()],
    );
    let sum = minutes + length;
    let (hours, rest) = (sum / 60, sum % 60);
    let end = (start + hours - 1) % 12 + 1;
    (
        text,
        format!(
            "{minutes}+{length}={sum}, {sum}-{}={rest}, {start}+{hours}={}. \
             Answer: {end}:{rest:02}.",
            hours * 60,
            start + hours
        ),
    )
}
