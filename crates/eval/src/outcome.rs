//! Outcome of one question: every answer to it, and its cost.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::conversation::Message;

/// Maximum number of samples that an equal cost may buy from one member.
const MOST_SAMPLES: usize = 64;

/// Answer to a question.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Answer {
    /// Text of the answer.
    pub text: String,
    /// Whether it is right.
    pub right: bool,
    /// Vote of the answer, compared with other answers to the same question.
    pub key: String,
    /// Tokens run for it by all members, drafting and verifying, without the prompt's.
    pub tokens: usize,
    /// Time it took, without prompt processing.
    pub seconds: f64,
    /// Whether a limit ended it: of tokens, rounds, characters or the context.
    pub cut: bool,
    /// Its probability under the reference member, if measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub surprise: Option<Surprise>,
    /// Reason why there is no answer. Counts as wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Log-probability of an answer under a member, in the member's tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Surprise {
    /// −ln p of the answer.
    pub nats: f64,
    /// Number of tokens.
    pub tokens: usize,
    /// Number of bytes.
    pub bytes: usize,
}

/// Answers of one member alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Alone {
    /// Greedy answer.
    pub greedy: Answer,
    /// Answer sampled with the ensemble's settings, unless these are greedy.
    pub sampled: Option<Answer>,
    /// Further samples, for a vote.
    pub samples: Vec<Answer>,
    /// Mean −ln p of the question's tokens, if measured.
    pub surprise: Option<f64>,
}

/// Answer of the ensemble under one rule.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Together {
    /// The answer.
    #[serde(flatten)]
    pub answer: Answer,
    /// Number of rounds.
    pub rounds: usize,
    /// Member-rounds: rounds × members if no member leaves.
    pub calls: usize,
    /// Segments of each member in the answer.
    pub won: Vec<usize>,
    /// Reason why the answer ended.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stopped: String,
    /// The rounds in full.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub played: Vec<Played>,
}

impl Together {
    /// Seconds until the first accepted text; `None` if none was accepted.
    pub fn first_seconds(&self) -> Option<f64> {
        let first = self.played.iter().find(|round| !round.text.is_empty());
        first.map(|round| round.seconds)
    }
}

/// Round of an answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Played {
    /// Index of the member whose candidate won.
    pub writer: usize,
    /// Seconds from the start of the answer to the end of the round.
    pub seconds: f64,
    /// Accepted text.
    pub text: String,
    /// Everything else: drafters, candidates, scores, shares, totals, weights.
    pub round: Value,
}

/// Answers sampled with one seed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Draw {
    /// The seed.
    pub seed: u64,
    /// Answer of every member alone.
    pub alone: Vec<Answer>,
    /// Answer of the ensemble under each rule.
    pub rules: Vec<Together>,
}

/// All answers to one question.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Task file or skill.
    pub group: String,
    /// Name of the question within its group.
    pub id: String,
    /// The user's last message.
    pub question: String,
    /// The whole conversation, if it has more than the question.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
    /// Whether the question is open: no answer is right or wrong.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
    /// Digest of the test that the answers' code was run with, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Answers of every member alone.
    pub alone: Vec<Alone>,
    /// Answer of the ensemble under each rule.
    pub rules: Vec<Together>,
    /// All of these answers, sampled once for each further seed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub draws: Vec<Draw>,
}

impl Outcome {
    /// The conversation that was answered.
    pub fn conversation(&self) -> Cow<'_, [Message]> {
        match self.messages.as_slice() {
            [] => vec![Message::user(&self.question)].into(),
            messages => messages.into(),
        }
    }

    /// Every answer.
    pub fn answers(&mut self) -> impl Iterator<Item = &mut Answer> {
        let own = self.alone.iter_mut().flat_map(|alone| {
            let sampled = alone.sampled.iter_mut().chain(&mut alone.samples);
            sampled.chain(std::iter::once(&mut alone.greedy))
        });
        let drawn = self.draws.iter_mut().flat_map(|draw| {
            let rules = draw.rules.iter_mut().map(|rule| &mut rule.answer);
            draw.alone.iter_mut().chain(rules)
        });
        let rules = self.rules.iter_mut().map(|rule| &mut rule.answer);
        own.chain(rules).chain(drawn)
    }

    /// Sets `right` and `key` of every answer. Equal texts are judged once.
    ///
    /// # Errors
    /// The first error of `right`.
    pub fn judge<E>(
        &mut self,
        right: impl Fn(&str) -> Result<bool, E>,
        key: impl Fn(&str) -> String,
    ) -> Result<(), E> {
        let mut known: HashMap<String, bool> = HashMap::new();
        for answer in self.answers() {
            if answer.error.is_some() {
                (answer.right, answer.key) = (false, String::new());
                continue;
            }
            answer.right = match known.get(&answer.text) {
                Some(&right) => right,
                None => right(&answer.text)?,
            };
            known.insert(answer.text.clone(), answer.right);
            answer.key = key(&answer.text);
        }
        Ok(())
    }
}

/// Number of samples of a member that vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Samples {
    /// A fixed number of samples.
    Count(usize),
    /// Enough to run as many tokens as the ensemble under the first rule; the last may exceed.
    EqualTokens,
    /// Enough to take as long as the ensemble under the first rule.
    EqualTime,
}

impl Samples {
    /// Returns whether `taken` suffice beside the `ensemble`'s answer. At least one is always
    /// taken.
    pub fn enough<'a>(
        self,
        taken: impl Iterator<Item = &'a Answer> + Clone,
        ensemble: &Answer,
    ) -> bool {
        let count = taken.clone().count();
        match self {
            Self::Count(wanted) => count >= wanted,
            _ if count == 0 => false,
            _ if count >= MOST_SAMPLES => true,
            Self::EqualTokens => taken.map(|one| one.tokens).sum::<usize>() >= ensemble.tokens,
            Self::EqualTime => taken.map(|one| one.seconds).sum::<f64>() >= ensemble.seconds,
        }
    }
}

impl FromStr for Samples {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let count = || text.parse().ok().filter(|k| (1..=1000).contains(k));
        match text {
            "equal" => Ok(Self::EqualTokens),
            "equal-time" => Ok(Self::EqualTime),
            _ => count().map(Self::Count).ok_or_else(|| {
                "choose a number from 1 to 1000, or `equal` (as many as run the ensemble's \
                tokens) or `equal-time`"
                    .to_owned()
            }),
        }
    }
}

impl fmt::Display for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::EqualTokens => f.write_str("equal"),
            Self::EqualTime => f.write_str("equal-time"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(tokens: usize, seconds: f64) -> Answer {
        Answer {
            tokens,
            seconds,
            ..Answer::default()
        }
    }

    #[test]
    fn equal_cost_is_counted_in_tokens_or_in_seconds() {
        let ensemble = answer(30, 2.0);
        let taken = [answer(10, 1.5), answer(10, 0.4), answer(10, 0.3)];
        let enough = |samples: Samples| {
            (0..=3)
                .find(|&count| samples.enough(taken[..count].iter(), &ensemble))
                .unwrap()
        };
        assert_eq!(enough(Samples::EqualTokens), 3);
        assert_eq!(enough(Samples::EqualTime), 3);
        assert_eq!(enough(Samples::Count(2)), 2);
        let cheap = answer(0, 0.0);
        assert!(!Samples::EqualTokens.enough([].iter(), &cheap));
        assert!(Samples::EqualTokens.enough(taken[..1].iter(), &cheap));
        let many = vec![answer(0, 0.0); MOST_SAMPLES];
        assert!(Samples::EqualTime.enough(many.iter(), &ensemble));
    }

    #[test]
    fn samples_have_names() {
        for name in ["equal", "equal-time", "5"] {
            assert_eq!(name.parse::<Samples>().unwrap().to_string(), name);
        }
        for wrong in ["0", "-1", "all", "1001"] {
            assert!(
                wrong.parse::<Samples>().unwrap_err().contains("equal"),
                "{wrong}"
            );
        }
    }

    #[test]
    fn every_answer_is_judged_and_none_that_failed() {
        let failed = Answer {
            text: "Paris".to_owned(),
            error: Some("full".to_owned()),
            ..Answer::default()
        };
        let said = |text: &str| Answer {
            text: text.to_owned(),
            ..Answer::default()
        };
        let mut outcome = Outcome {
            alone: vec![Alone {
                greedy: said("Paris"),
                sampled: Some(said("Rome")),
                samples: vec![said("Paris"), failed],
                surprise: None,
            }],
            rules: vec![Together {
                answer: said("Paris"),
                ..Together::default()
            }],
            ..Outcome::default()
        };
        let right = |text: &str| Ok::<_, ()>(text == "Paris");
        outcome.judge(right, str::to_uppercase).unwrap();
        let alone = &outcome.alone[0];
        assert!(alone.greedy.right && alone.greedy.key == "PARIS");
        assert!(!alone.sampled.as_ref().unwrap().right);
        assert!(alone.samples[0].right);
        assert!(!alone.samples[1].right && alone.samples[1].key.is_empty());
        assert!(outcome.rules[0].answer.right);
        let line = serde_json::to_string(&outcome).unwrap();
        assert_eq!(serde_json::from_str::<Outcome>(&line).unwrap(), outcome);
    }
}
