//! Training conversations of one to four turns, drawn from a mix of skills.

use super::chance::Chance;
use super::{Purpose, Question, Skill, ask};

/// Role of a speaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Author of standing instructions.
    System,
    /// Author of questions.
    User,
    /// Author of answers.
    Assistant,
}

impl Role {
    /// Name in chat templates.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// Message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Role of the speaker.
    pub role: Role,
    /// Text.
    pub content: String,
}

/// Conversation, with the questions it consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    /// One question per turn.
    pub questions: Vec<Question>,
    /// The messages, with small talk around follow-up questions.
    pub messages: Vec<Message>,
}

/// Relative frequency of each skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix(Vec<(Skill, u32)>);

impl Mix {
    /// Creates a mix of relative shares; `None` if all are zero.
    pub fn new(shares: Vec<(Skill, u32)>) -> Option<Self> {
        shares
            .iter()
            .any(|&(_, share)| share > 0)
            .then_some(Self(shares))
    }

    /// Every skill equally often.
    pub fn even() -> Self {
        Self(Skill::all().map(|skill| (skill, 1)).collect())
    }

    fn draw(&self, chance: &mut Chance) -> Skill {
        let total: u32 = self.0.iter().map(|&(_, share)| share).sum();
        let mut left = chance.below(total as usize) as u32;
        for &(skill, share) in &self.0 {
            if left < share {
                return skill;
            }
            left -= share;
        }
        self.0[0].0
    }
}

/// Training conversation number `index` of `seed`: 84 % have one turn, 12 % two, the rest three or
/// four; 4 % begin with a system message.
pub fn conversation(seed: u64, index: u64, mix: &Mix) -> Conversation {
    let mut chance = Chance::new(Purpose::Training, seed, index);
    let turns = match chance.below(100) {
        0..84 => 1,
        84..96 => 2,
        96..99 => 3,
        _ => 4,
    };
    let mut questions = Vec::new();
    let mut messages = Vec::new();
    if chance.percent(4) {
        let content = chance.pick(&[
            "You are a helpful assistant.",
            "Answer briefly and show your working.",
            "You are a friendly helper.",
        ]);
        messages.push(Message {
            role: Role::System,
            content: content.to_string(),
        });
    }
    for turn in 0..turns {
        let skill = mix.draw(&mut chance);
        let question = ask(skill, &mut chance);
        let lead = if turn > 0 && chance.percent(30) {
            chance.pick(&["Thanks! ", "And now: ", "Next: ", "Good. ", "One more: "])
        } else {
            ""
        };
        messages.push(Message {
            role: Role::User,
            content: format!("{lead}{}", question.text),
        });
        messages.push(Message {
            role: Role::Assistant,
            content: question.answer.clone(),
        });
        questions.push(question);
    }
    Conversation {
        questions,
        messages,
    }
}
