//! Skills that the bundled members learn and are examined on: a seeded generator of plain-English
//! questions with worked answers, and a checker of final answers.
//!
//! Every answer shows short steps and ends in `Answer: X.`, so that members can continue each
//! other's text and a program can check the result without judging the steps. There are far more
//! questions than any training run draws, so they can't be memorised.
//!
//! Main items: [`question`] draws examination questions, [`conversation`] training text under a
//! [`Mix`] of [`Skill`]s, and [`check()`] judges a reply.
//!
//! ```
//! use conclave_eval::skills::{check, question};
//! let asked = question(7, 0);
//! assert!(check(&asked, &asked.answer));
//! assert!(!check(&asked, "Answer: no idea."));
//! ```

mod arithmetic;
mod calendar;
mod chance;
mod chat;
mod check;
mod convert;
mod letters;
mod lists;
mod problems;
mod stories;
mod words;

pub use self::chat::{Conversation, Message, Mix, Role, conversation};
pub use self::check::{check, final_answer};

use self::chance::Chance;

/// Skill that a question needs. All but [`Skill::Story`] can be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Skill {
    /// Column addition, digit by digit.
    Add,
    /// Column subtraction, digit by digit.
    Subtract,
    /// Times, lengths, weights and dozens in other units.
    Convert,
    /// Words in alphabetical order, numbers by size.
    Sort,
    /// Items of a list that satisfy a condition.
    Filter,
    /// Letters and vowels of words, counted one by one.
    Count,
    /// Weekdays, months and dates, forward or back.
    Calendar,
    /// Word problems of one to three steps.
    Problem,
    /// A free-form short story; not checked.
    Story,
}

impl Skill {
    /// Skills with checkable answers, in the order of [`question`].
    pub const CHECKED: [Self; 8] = [
        Self::Add,
        Self::Subtract,
        Self::Convert,
        Self::Sort,
        Self::Filter,
        Self::Count,
        Self::Calendar,
        Self::Problem,
    ];

    /// All skills; the unchecked one is last.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::CHECKED.into_iter().chain([Self::Story])
    }

    /// Short lower-case name for tables and command lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Subtract => "subtract",
            Self::Convert => "convert",
            Self::Sort => "sort",
            Self::Filter => "filter",
            Self::Count => "count",
            Self::Calendar => "calendar",
            Self::Problem => "problem",
            Self::Story => "story",
        }
    }

    /// Finds a skill by its name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|skill| skill.name() == name)
    }
}

/// A question and its reference answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Skill that it needs.
    pub skill: Skill,
    /// Question as a visitor would type it.
    pub text: String,
    /// Reference answer with its steps; ends in `Answer: X.` unless the skill is [`Skill::Story`].
    pub answer: String,
}

/// Disjoint streams of random draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Training,
    Examination,
}

/// Examination question number `index` of `seed`. Skills take turns: each run of
/// [`Skill::CHECKED`]`.len()` indices has each of them once.
///
/// Training text ([`conversation`]) comes from separate streams for any seed.
pub fn question(seed: u64, index: u64) -> Question {
    let skill = Skill::CHECKED[(index % Skill::CHECKED.len() as u64) as usize];
    let mut chance = Chance::new(Purpose::Examination, seed, index);
    ask(skill, &mut chance)
}

/// Draws a question of a skill.
fn ask(skill: Skill, chance: &mut Chance) -> Question {
    let (text, answer) = match skill {
        Skill::Add => arithmetic::add(chance),
        Skill::Subtract => arithmetic::subtract(chance),
        Skill::Convert => convert::convert(chance),
        Skill::Sort => lists::sort(chance),
        Skill::Filter => lists::filter(chance),
        Skill::Count => letters::count(chance),
        Skill::Calendar => calendar::calendar(chance),
        Skill::Problem => problems::problem(chance),
        Skill::Story => stories::story(chance),
    };
    Question {
        skill,
        text: chance.colloquial(&text),
        answer,
    }
}
