//! What one question came to: every answer that was given to it, and what each cost.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::conversation::Message;

/// The most samples that an equal cost may buy of one member.
const MOST_SAMPLES: usize = 64;

/// One answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Given {
    /// What was said.
    pub text: String,
    /// Whether it is right.
    pub right: bool,
    /// What it votes for, to be compared with other answers to the same question.
    pub key: String,
    /// Tokens run for it by all members together, drafting and verifying; not those of the prompt.
    pub tokens: usize,
    /// How long it took, without the reading of the prompt.
    pub seconds: f64,
    /// It came to the limit and not to an end.
    pub cut: bool,
    /// How probable the reference member finds it, where it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub surprise: Option<Surprise>,
    /// Why there is no answer. It counts as a wrong one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How probable a member finds an answer, in its own tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Surprise {
    /// −ln p of the answer.
    pub nats: f64,
    /// Its tokens.
    pub tokens: usize,
    /// Its bytes.
    pub bytes: usize,
}

/// What one member answers alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Alone {
    /// Always its most probable token.
    pub greedy: Given,
    /// Drawn as the ensemble draws, where that is not greedy.
    pub sampled: Option<Given>,
    /// Drawn again and again, for a vote.
    pub samples: Vec<Given>,
    /// Mean −ln p of the question's tokens, where it was asked for.
    pub surprise: Option<f64>,
}

/// What the ensemble answers under one rule.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Together {
    /// The answer.
    #[serde(flatten)]
    pub given: Given,
    /// Its rounds.
    pub rounds: usize,
    /// Members that took part, over all rounds: rounds × members where nobody leaves.
    pub calls: usize,
    /// Segments of each member in the answer.
    pub won: Vec<usize>,
    /// Why it ended.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stopped: String,
    /// Its rounds in full.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub played: Vec<Played>,
}

impl Together {
    /// Seconds until the first text was kept; `None` if none was.
    pub fn first_seconds(&self) -> Option<f64> {
        let first = self.played.iter().find(|round| !round.text.is_empty());
        first.map(|round| round.seconds)
    }
}

/// A round of an answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Played {
    /// The member (by index) whose candidate won.
    pub writer: usize,
    /// Seconds from the beginning of the answer to the end of the round.
    pub seconds: f64,
    /// The text that was kept.
    pub text: String,
    /// Everything else: drafters, candidates, scores, shares, totals, weights.
    pub round: Value,
}

/// The answers that were sampled with one seed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Draw {
    /// The seed.
    pub seed: u64,
    /// Every member's alone.
    pub alone: Vec<Given>,
    /// The ensemble's under each rule.
    pub rules: Vec<Together>,
}

/// All answers to one question.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The task file, or the skill.
    pub group: String,
    /// The question's name within it.
    pub id: String,
    /// The user's last message.
    pub question: String,
    /// The whole conversation, where it has more than the question.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
    /// No answer is right or wrong.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
    /// A digest of the test that the answers' code was run with, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Every member's.
    pub alone: Vec<Alone>,
    /// The ensemble's under each rule.
    pub rules: Vec<Together>,
    /// All of them sampled, once for each further seed.
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

    /// Every answer there is.
    pub fn answers(&mut self) -> impl Iterator<Item = &mut Given> {
        let own = self.alone.iter_mut().flat_map(|alone| {
            let sampled = alone.sampled.iter_mut().chain(&mut alone.samples);
            sampled.chain(std::iter::once(&mut alone.greedy))
        });
        let drawn = self.draws.iter_mut().flat_map(|draw| {
            let rules = draw.rules.iter_mut().map(|rule| &mut rule.given);
            draw.alone.iter_mut().chain(rules)
        });
        let rules = self.rules.iter_mut().map(|rule| &mut rule.given);
        own.chain(rules).chain(drawn)
    }

    /// Says of every answer whether it is `right`, and what its `key` is. Equal texts are judged
    /// once.
    ///
    /// # Errors
    /// The first of `right`.
    pub fn judge<E>(
        &mut self,
        right: impl Fn(&str) -> Result<bool, E>,
        key: impl Fn(&str) -> String,
    ) -> Result<(), E> {
        let mut known: HashMap<String, bool> = HashMap::new();
        for given in self.answers() {
            if given.error.is_some() {
                (given.right, given.key) = (false, String::new());
                continue;
            }
            given.right = match known.get(&given.text) {
                Some(&right) => right,
                None => right(&given.text)?,
            };
            known.insert(given.text.clone(), given.right);
            given.key = key(&given.text);
        }
        Ok(())
    }
}

/// How many samples of a member vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Samples {
    /// So many.
    Count(usize),
    /// As many as run the tokens that the ensemble runs under the first rule: the last one may go
    /// beyond.
    EqualTokens,
    /// As many as take the time that the ensemble takes under the first rule.
    EqualTime,
}

impl Samples {
    /// Whether `taken` are enough beside the `ensemble`'s answer. One always is taken.
    pub fn enough<'a>(
        self,
        taken: impl Iterator<Item = &'a Given> + Clone,
        ensemble: &Given,
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
                "choose a number from 1 to 1000, or `equal` (as many as run the ensemble's tokens) or `equal-time`"
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

    fn given(tokens: usize, seconds: f64) -> Given {
        Given {
            tokens,
            seconds,
            ..Given::default()
        }
    }

    #[test]
    fn equal_cost_is_counted_in_tokens_or_in_seconds() {
        let ensemble = given(30, 2.0);
        let taken = [given(10, 1.5), given(10, 0.4), given(10, 0.3)];
        let enough = |samples: Samples| {
            (0..=3)
                .find(|&count| samples.enough(taken[..count].iter(), &ensemble))
                .unwrap()
        };
        assert_eq!(enough(Samples::EqualTokens), 3);
        assert_eq!(enough(Samples::EqualTime), 3);
        assert_eq!(enough(Samples::Count(2)), 2);
        let cheap = given(0, 0.0);
        assert!(!Samples::EqualTokens.enough([].iter(), &cheap));
        assert!(Samples::EqualTokens.enough(taken[..1].iter(), &cheap));
        let many = vec![given(0, 0.0); MOST_SAMPLES];
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
        let failed = Given {
            text: "Paris".to_owned(),
            error: Some("full".to_owned()),
            ..Given::default()
        };
        let said = |text: &str| Given {
            text: text.to_owned(),
            ..Given::default()
        };
        let mut outcome = Outcome {
            alone: vec![Alone {
                greedy: said("Paris"),
                sampled: Some(said("Rome")),
                samples: vec![said("Paris"), failed],
                surprise: None,
            }],
            rules: vec![Together {
                given: said("Paris"),
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
        assert!(outcome.rules[0].given.right);
        let line = serde_json::to_string(&outcome).unwrap();
        assert_eq!(serde_json::from_str::<Outcome>(&line).unwrap(), outcome);
    }
}
