//! The skills the bundled members learn and are examined on: a seeded
//! generator of plain-English questions with worked answers, and the checker
//! that decides whether a reply's final answer is right.
//!
//! Every answer shows its working in short steps and ends in `Answer: X.`, so
//! that members can continue each other's text and a program can check the
//! result without judging the working. Questions are drawn from spaces far
//! larger than any training run, so they cannot be learned by heart.
//!
//! ```
//! use conclave_skills::{check, question};
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

pub use chat::{Conversation, Message, Mix, Role, conversation};
pub use check::{check, final_answer};

use chance::Chance;

/// What a question asks for. All but [`Skill::Story`] can be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Skill {
    /// Column addition, spelled out digit by digit.
    Add,
    /// Column subtraction, spelled out digit by digit.
    Subtract,
    /// Times, lengths, weights and dozens in other units.
    Convert,
    /// Words into alphabetical order, numbers by size.
    Sort,
    /// The items of a list that satisfy a condition.
    Filter,
    /// Letters and vowels of words, counted one by one.
    Count,
    /// Weekdays, months and dates, so many steps on or back.
    Calendar,
    /// Small word problems of one to three steps.
    Problem,
    /// A free-form short story; not checked.
    Story,
}

impl Skill {
    /// The skills whose answers can be checked, in the order [`question`] asks them.
    pub const CHECKED: [Skill; 8] = [
        Skill::Add,
        Skill::Subtract,
        Skill::Convert,
        Skill::Sort,
        Skill::Filter,
        Skill::Count,
        Skill::Calendar,
        Skill::Problem,
    ];

    /// All skills, the unchecked one last.
    pub fn all() -> impl Iterator<Item = Skill> {
        Skill::CHECKED.into_iter().chain([Skill::Story])
    }

    /// A short lower-case name, as used in tables and on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Skill::Add => "add",
            Skill::Subtract => "subtract",
            Skill::Convert => "convert",
            Skill::Sort => "sort",
            Skill::Filter => "filter",
            Skill::Count => "count",
            Skill::Calendar => "calendar",
            Skill::Problem => "problem",
            Skill::Story => "story",
        }
    }

    /// The skill of that name.
    pub fn from_name(name: &str) -> Option<Skill> {
        Skill::all().find(|skill| skill.name() == name)
    }
}

/// One question and its reference answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// What it asks for.
    pub skill: Skill,
    /// The question as a visitor would type it.
    pub text: String,
    /// The reference answer with its working; ends in `Answer: X.` unless the
    /// skill is [`Skill::Story`].
    pub answer: String,
}

/// Which of the disjoint streams a random draw belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Training,
    Examination,
}

/// Examination question number `index` of `seed`. The skills take turns, so
/// every run of [`Skill::CHECKED`]`.len()` indices asks each of them once.
///
/// Training text ([`conversation`]) comes from other streams whatever the seed.
pub fn question(seed: u64, index: u64) -> Question {
    let skill = Skill::CHECKED[(index % Skill::CHECKED.len() as u64) as usize];
    let mut chance = Chance::new(Purpose::Examination, seed, index);
    ask(skill, &mut chance)
}

/// A question of the given skill.
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
