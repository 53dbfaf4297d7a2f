//! Settings of the method: every switch of a query, the presets, and their
//! validation. Names in JSON are camelCase, values kebab-case.

use std::{fmt, ops::RangeInclusive, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::select::Votes;

/// How many members an ensemble may have.
pub const MEMBERS: RangeInclusive<usize> = 1..=8;

/// Declares a switch: an enum whose values have one name in JSON, on the command line and in
/// errors.
macro_rules! switch {
    ($(#[$doc:meta])* $switch:ident, $setting:literal { $($(#[$about:meta])* $value:ident = $name:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
        pub enum $switch {
            $($(#[$about])* #[serde(rename = $name)] $value,)+
        }

        impl $switch {
            /// Every value, the default first.
            pub const ALL: &'static [Self] = &[$(Self::$value),+];

            /// The name used in JSON and on the command line.
            pub fn name(self) -> &'static str {
                match self { $(Self::$value => $name),+ }
            }
        }

        impl fmt::Display for $switch {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $switch {
            type Err = SettingsError;

            fn from_str(name: &str) -> Result<Self, SettingsError> {
                Self::ALL.iter().copied().find(|value| value.name() == name).ok_or_else(|| {
                    SettingsError::Unknown {
                        setting: $setting,
                        value: name.to_owned(),
                        known: [$($name),+].join(", "),
                    }
                })
            }
        }
    };
}

switch! {
    /// What a verifier's score of a candidate is, and how a row of scores becomes shares.
    Scoring, "scoring" {
        /// s = 1 / ln(1 + Σ_t 1/p_t) over the candidate's tokens, which its least likely ones decide;
        /// share = score over the row's sum (Eq. 3).
        #[default]
        Harmonic = "harmonic",
        /// The paper's: the mean raw logit; share = score over the row's sum (Eq. 3), guarded against
        /// rows that are not positive (see [`crate::score`]).
        Logit = "logit",
        /// The mean log-probability; shares are its softmax over the candidates.
        Likelihood = "likelihood",
    }
}

switch! {
    /// What a round's feedback rewards (Eq. 5).
    Reward, "reward" {
        /// r_j = the mean of the others' shares of j's candidate: it moves the weights of two members
        /// too, each of which would have a count of 1 in every round.
        #[default]
        Shares = "shares",
        /// The paper's: r_j = c_j / (N−1)², how often another member prefers j to some other candidate.
        Counts = "counts",
    }
}

switch! {
    /// A preset of all switches: see [`Settings::of`].
    Rule, "rule" {
        /// The rule that does best where it was measured (tests/eval-log.md).
        #[default]
        Harmonic = "harmonic",
        /// `Harmonic`, but one member drafts for all while nobody doubts it ([`Leader`]).
        Leader = "leader",
        /// The method as its authors published it.
        Paper = "paper",
    }
}

switch! {
    /// The learning rate η of round k among N members (Eq. 5), and what is done with it.
    Rate, "rate" {
        /// η = α / (k·√N), the form of the authors' code, which reproduces their printed weights.
        #[default]
        Code = "code",
        /// η = α / (N·√k), the form that the paper prints. Weights part much faster.
        Printed = "printed",
        /// The code form, and after every update a little of each weight is shared out evenly:
        /// w ← (1 − λ)·w + λ/N with λ = [`Settings::fixed_share`]. A floor of λ/N under every
        /// weight, and a way back for a member that was weak in an earlier part of the answer.
        FixedShare = "fixed-share",
    }
}

switch! {
    /// Whether the weights are updated before or after the selection of the same round.
    Update, "update" {
        /// Before, as the authors' code does.
        #[default]
        Before = "before",
        /// After, the natural reading of Eq. 4.
        After = "after",
    }
}

/// Model exit: when a member whose candidates the others keep scoring low leaves the query.
/// See [`crate::exit`] for the equations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Exit {
    /// Rounds that have to be over before anyone leaves.
    pub warmup: usize,
    /// T0 of the softmax temperature T = T0·H; 0 to 1000. With the default a member leaves once it
    /// lies about four standard errors behind the others; higher is more patient. In simulated
    /// queries of 12 rounds among 3, 5 and 8 equals, a given member was lost in 10, 8 and 3 % of
    /// them (with T0 = 4 in 16, 18 and 13 %), one that scored 30 % lower in all.
    pub temperature: f64,
    /// A member leaves when its keep-probability falls below `threshold`/n; 0 to 1.
    pub threshold: f64,
}

impl Default for Exit {
    fn default() -> Self {
        Self {
            warmup: 3,
            temperature: 6.0,
            threshold: 0.5,
        }
    }
}

/// Leader drafts: one member drafts alone, all verify, and only what a verifier doubts is drafted by
/// all. The first leads until a round that all drafted has a winner; from then on its drafter does.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Leader {
    /// A candidate that surprises a verifier by more than this is doubted, in nats of
    /// [`Score::surprise`](crate::Score::surprise); 0 to 1000. A segment of n tokens that are all
    /// expected has ln(1 + n), some 3 nats.
    pub doubt: f64,
}

impl Default for Leader {
    fn default() -> Self {
        Self { doubt: 5.0 }
    }
}

/// Every switch of the method.
///
/// ```
/// use conclave_ensemble::{Rate, Settings};
///
/// let settings = Settings { rate: Rate::FixedShare, ..Settings::default() };
/// settings.validate()?;
/// let wrong = Settings { segment_tokens: 0, ..Settings::default() };
/// assert!(wrong.validate().unwrap_err().to_string().contains("segmentTokens"));
/// # Ok::<(), conclave_ensemble::SettingsError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Settings {
    /// L, the most tokens of its own that a member drafts in a round; 1 to 64. The paper uses 10
    /// and finds 5 to 15 good; small members are judged better by segments that come to a point.
    pub segment_tokens: usize,
    /// What a score is and how it becomes a share.
    pub scoring: Scoring,
    /// Whether a candidate that ends the answer is scored on what closes a turn as well: whether it
    /// should end there. One without text is scored on that alone in any case.
    pub score_end: bool,
    /// What feedback rewards.
    pub reward: Reward,
    /// α of the learning rate; 0 (no feedback) to 100.
    pub alpha: f64,
    /// The form of the learning rate.
    pub rate: Rate,
    /// λ of [`Rate::FixedShare`]; 0 to 1. The other rates ignore it.
    pub fixed_share: f64,
    /// Weights before or after selection.
    pub update: Update,
    /// Whether a member's vote for its own candidate counts in the selection. Feedback never
    /// counts it.
    pub self_votes: bool,
    /// Whether a verifier's shares are divided by its largest in the selection, so that all say as
    /// much for what they like best, however sure they are of it. Of two members with equal weights
    /// it changes no winner.
    pub level: bool,
    /// Model exit; `None` keeps every member to the end.
    pub exit: Option<Exit>,
    /// Leader drafts; `None` lets all draft in every round.
    pub leader: Option<Leader>,
    /// Fast mode: a candidate that ends the answer is accepted at once, unverified; of those that
    /// a round begins with, so a leader's, but none that others draft once it is doubted.
    pub fast: bool,
    /// The most rounds of an answer; 1 to 10 000.
    pub max_rounds: usize,
    /// The answer ends with the segment that brings it to this many characters (Unicode scalar
    /// values); 1 to 1 000 000. Segments are never cut for it.
    pub max_characters: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            segment_tokens: 32,
            scoring: Scoring::Harmonic,
            score_end: true,
            reward: Reward::Shares,
            alpha: 1.0,
            rate: Rate::Code,
            fixed_share: 0.05,
            update: Update::Before,
            self_votes: true,
            level: true,
            exit: None,
            leader: None,
            fast: false,
            max_rounds: 64,
            max_characters: 4096,
        }
    }
}

impl Settings {
    /// All switches as `rule` has them.
    ///
    /// ```
    /// use conclave_ensemble::{Rule, Scoring, Settings};
    ///
    /// assert_eq!(Settings::of(Rule::Harmonic), Settings::default());
    /// assert_eq!(Settings::of(Rule::Paper).scoring, Scoring::Logit);
    /// ```
    pub fn of(rule: Rule) -> Self {
        match rule {
            Rule::Harmonic => Self::default(),
            Rule::Leader => Self {
                leader: Some(Leader::default()),
                ..Self::default()
            },
            Rule::Paper => Self {
                segment_tokens: 10,
                scoring: Scoring::Logit,
                score_end: false,
                reward: Reward::Counts,
                level: false,
                ..Self::default()
            },
        }
    }

    /// Whether verifiers look at log-probabilities, which take the whole output matrix a token.
    pub fn needs_logprobs(&self) -> bool {
        self.scoring != Scoring::Logit || self.leader.is_some()
    }

    /// Which votes count in the selection, and by how much.
    pub fn votes(&self) -> Votes {
        Votes {
            own: self.self_votes,
            level: self.level,
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`SettingsError::Range`] for the first setting out of its range (NaN is out of every
    /// range).
    pub fn validate(&self) -> Result<(), SettingsError> {
        whole("segmentTokens", self.segment_tokens, 1..=64)?;
        real("alpha", self.alpha, 0.0..=100.0)?;
        real("fixedShare", self.fixed_share, 0.0..=1.0)?;
        whole("maxRounds", self.max_rounds, 1..=10_000)?;
        whole("maxCharacters", self.max_characters, 1..=1_000_000)?;
        if let Some(exit) = self.exit {
            whole("exit.warmup", exit.warmup, 0..=10_000)?;
            real("exit.temperature", exit.temperature, 0.0..=1000.0)?;
            real("exit.threshold", exit.threshold, 0.0..=1.0)?;
        }
        if let Some(leader) = self.leader {
            real("leader.doubt", leader.doubt, 0.0..=1000.0)?;
        }
        Ok(())
    }
}

fn whole(
    setting: &'static str,
    value: usize,
    range: RangeInclusive<usize>,
) -> Result<(), SettingsError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(SettingsError::Range {
        setting,
        value: value.to_string(),
        low: range.start().to_string(),
        high: range.end().to_string(),
    })
}

fn real(
    setting: &'static str,
    value: f64,
    range: RangeInclusive<f64>,
) -> Result<(), SettingsError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(SettingsError::Range {
        setting,
        value: value.to_string(),
        low: range.start().to_string(),
        high: range.end().to_string(),
    })
}

/// A setting that the method can't run under.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// Too few or too many members.
    #[error("an ensemble has 1 to 8 members, this one {0}: choose other members")]
    Members(usize),
    /// A number out of its range.
    #[error("{setting} is {value}: choose a value from {low} to {high}")]
    Range {
        /// The setting's name in JSON.
        setting: &'static str,
        /// The value that was given.
        value: String,
        /// The smallest value allowed.
        low: String,
        /// The largest value allowed.
        high: String,
    },
    /// A name that the switch doesn't have.
    #[error("{setting} can't be \"{value}\": choose one of {known}")]
    Unknown {
        /// The setting's name in JSON.
        setting: &'static str,
        /// The name that was given.
        value: String,
        /// The names it has.
        known: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_defaults_are_those_of_the_documented_json() {
        let json = serde_json::to_value(Settings::default()).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "segmentTokens": 32, "scoring": "harmonic", "scoreEnd": true, "reward": "shares",
                "alpha": 1.0, "rate": "code",
                "fixedShare": 0.05, "update": "before", "selfVotes": true, "level": true, "exit": null, "leader": null,
                "fast": false, "maxRounds": 64, "maxCharacters": 4096,
            })
        );
        let given: Settings = serde_json::from_str(
            r#"{"rate": "fixed-share", "scoring": "likelihood", "update": "after", "exit": {"warmup": 5}}"#,
        )
        .unwrap();
        assert_eq!(given.rate, Rate::FixedShare);
        assert_eq!(given.scoring, Scoring::Likelihood);
        assert_eq!(given.update, Update::After);
        assert_eq!(
            given.exit,
            Some(Exit {
                warmup: 5,
                ..Exit::default()
            })
        );
        assert!(serde_json::from_str::<Settings>(r#"{"segmentToken": 9}"#).is_err());
    }

    #[test]
    fn switches_parse_their_own_names_and_name_the_known_ones() {
        for rate in Rate::ALL {
            assert_eq!(rate.name().parse::<Rate>().as_ref(), Ok(rate));
            assert_eq!(
                serde_json::to_value(rate).unwrap(),
                serde_json::json!(rate.name())
            );
        }
        let error = "loud".parse::<Rate>().unwrap_err().to_string();
        assert!(error.contains("code, printed, fixed-share"), "{error}");
    }

    #[test]
    fn every_range_is_checked_and_nan_is_out_of_all() {
        let wrong: [fn(&mut Settings); 13] = [
            |s| s.segment_tokens = 0,
            |s| s.segment_tokens = 65,
            |s| s.alpha = -0.1,
            |s| s.alpha = f64::NAN,
            |s| s.alpha = f64::INFINITY,
            |s| s.fixed_share = 1.1,
            |s| s.max_rounds = 0,
            |s| s.max_characters = 0,
            |s| s.exit.as_mut().unwrap().temperature = f64::NAN,
            |s| s.exit.as_mut().unwrap().temperature = -1.0,
            |s| s.exit.as_mut().unwrap().threshold = 1.5,
            |s| s.exit.as_mut().unwrap().warmup = 20_000,
            |s| s.leader = Some(Leader { doubt: -1.0 }),
        ];
        let sound = Settings {
            exit: Some(Exit::default()),
            ..Settings::default()
        };
        assert_eq!(sound.validate(), Ok(()));
        for (index, spoil) in wrong.iter().enumerate() {
            let mut settings = sound.clone();
            spoil(&mut settings);
            assert!(settings.validate().is_err(), "case {index}");
        }
    }
}
