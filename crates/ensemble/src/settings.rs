//! Settings of the method: all options of a query, the presets, and their validation. Names in JSON
//! are camelCase, values kebab-case.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::select::Votes;
use crate::switches::{Rate, Reward, Rule, Scoring, Update};

/// Allowed number of members.
pub const MEMBERS: RangeInclusive<usize> = 1..=8;

/// Model exit: members whose candidates the others keep scoring low leave the query.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(rename = "ExitSettings"))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Exit {
    /// Rounds before any member may leave; 0 to 10 000.
    pub warmup: usize,
    /// T0 of the softmax temperature T = T0·H (equations in `exit.rs`); 0 to 1000. With the
    /// default a member leaves about four standard errors below the others; a higher value is more
    /// patient. In simulated queries of 12 rounds among 3, 5 and 8 equals, a given member was lost
    /// in 10, 8 and 3 % of them (with T0 = 4 in 16, 19 and 13 %), one that scored 30 % lower in
    /// all.
    pub temperature: f64,
    /// A member leaves if its keep-probability falls below `threshold`/n; 0 to 1.
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

/// Leader drafts: one member drafts alone, all verify, and all draft only if a verifier doubts the
/// candidate. The first leads until a round that all drafted has a winner; from then on its drafter
/// does.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(rename = "LeaderSettings"))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Leader {
    /// Surprise in nats above which a verifier doubts a candidate; 0 to 1000. A segment of n tokens
    /// that are all expected has ln(1 + n), some 3 nats.
    pub doubt: f64,
}

impl Default for Leader {
    fn default() -> Self {
        Self { doubt: 5.0 }
    }
}

/// Settings of the method.
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
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Settings {
    /// L, the maximum tokens of its own that a member drafts in a round; 1 to 64. The paper uses 10
    /// and finds 5 to 15 good. Small members are judged better by longer segments.
    pub segment_tokens: usize,
    /// Score of a candidate: by its surprise, its mean raw logit (the paper's), or its mean
    /// log-probability.
    #[cfg_attr(feature = "ts", ts(inline))]
    pub scoring: Scoring,
    /// Whether the score of a candidate that ends the answer includes the tokens that close its
    /// turn, and so rates the end as well. A candidate without text is always scored on those
    /// tokens alone.
    pub score_end: bool,
    /// Exponent of a member's strength in its starting weight: weights begin proportional to
    /// strength^trust (see [`Query::trust`](crate::Query::trust)); 0 to 4. With 0 all start equal,
    /// as in the paper.
    pub trust: f64,
    /// Reward of the feedback: the mean of the others' shares of a candidate, or the number of
    /// times that they prefer it to another (the paper's).
    #[cfg_attr(feature = "ts", ts(inline))]
    pub reward: Reward,
    /// α of the learning rate; 0 (no feedback) to 100.
    pub alpha: f64,
    /// Learning rate of round k among N members: α/(k√N) as in the authors' code, α/(N√k) as
    /// printed in the paper, or the first with a fraction of each weight spread evenly.
    #[cfg_attr(feature = "ts", ts(inline))]
    pub rate: Rate,
    /// λ, the fraction that `fixed-share` spreads; 0 to 1. The other rates ignore it.
    pub fixed_share: f64,
    /// Whether the weights change before or after the selection of the same round.
    #[cfg_attr(feature = "ts", ts(inline))]
    pub update: Update,
    /// Whether a member's vote for its own candidate counts in the selection. Feedback never counts
    /// it.
    pub self_votes: bool,
    /// Whether a verifier's shares are divided by its largest in the selection, so that every
    /// verifier gives its favourite a share of 1. Between two members with equal weights it changes
    /// no winner.
    pub level: bool,
    /// Exponent c by which a verifier counts more if it is sure of its own finished answer; 0 to 8,
    /// where 0 treats all verifiers alike. Its weight is multiplied by (½ + u)^−c, where u is its
    /// surprise at that answer in nats, plus 1 for a base model, and at least 0.8; 2 for an
    /// unfinished answer. While a candidate of the strongest member does not end the answer, the
    /// factor is not applied.
    pub confidence: f64,
    /// Limit on the margin by which a member's drawn token is more probable than the best other
    /// token; 0 to 1, where 0 turns second candidates off. It is applied in the first round, to
    /// drafts that end the answer, at the least probable of the first tokens of their words. If the
    /// margin there is smaller than the limit, the member drafts a second candidate: its draft up
    /// to that token, then the other token (AdaFuse, arXiv 2601.06022).
    pub branch: f64,
    /// Limit in nats on the surprise of the strongest member at its own draft, up to which it
    /// answers without the others; 0 to 1000, where 0 always lets them draft and vote. The draft
    /// has to end the answer, and the member must have no second candidate. It applies to the first
    /// round, if one member is the strongest. In a conversation the draft must have a word that no
    /// turn has: a member can be sure of something only because it stood in an earlier answer.
    pub alone: f64,
    /// Whether a weaker member's unfinished draft is left out of the vote once the strongest
    /// member's draft ends the answer, unless it agrees with a draft that ends (see
    /// [`mod@crate::agreement`]). Such a draft almost never wins, and scoring it costs more than
    /// scoring all others.
    pub ended_only: bool,
    /// Whether candidates that say the same in another form share their votes in the selection (see
    /// [`mod@crate::agreement`]).
    pub agree: bool,
    /// Factor on the total of a discounted candidate; 0 to 1, where 1 turns discounts off. There
    /// are three cases. The candidate only repeats (see [`mod@crate::repetition`]). Or it ends the
    /// answer while an equally strong or stronger member continues, and its drafter is unsure of it
    /// ([`sure`](Self::sure)). Or it ends the answer so after the first round, and the strongest
    /// member that continues is more surprised by the end than by its own continuation.
    pub discount: f64,
    /// Limit in nats on a drafter's surprise at its own candidate, for a candidate that ends the
    /// answer while an equally strong or stronger member continues; above the limit the candidate
    /// is discounted; 0 to 1000. Members that know a short answer are sure of its end. A member
    /// that is asked for an explanation and has none ends unsure.
    pub sure: f64,
    /// Model exit; without it every member stays to the end.
    pub exit: Option<Exit>,
    /// Share of the vote above which the winner's drafter drafts the next segments alone, if the
    /// winner does not end the answer; 0 to 1, where 1 lets all draft in every round. It leads
    /// while the members' weighted mean surprise at its segments is at most 4 nats. The others
    /// could outvote such a member only where it is unsure.
    pub lead: f64,
    /// Leader drafts from the first round on; without them all draft, except under
    /// [`lead`](Self::lead).
    pub leader: Option<Leader>,
    /// Fast mode: a candidate that ends the answer is accepted at once, unverified. It applies to
    /// the first drafts of a round, including a leader's, but not to the drafts of others after it
    /// is doubted.
    pub fast: bool,
    /// Maximum rounds of an answer; 1 to 10 000.
    pub max_rounds: usize,
    /// The answer ends after this many rounds in a row in which every candidate only repeats (see
    /// [`mod@crate::repetition`]); 1 to 10 000. In the last but one of these rounds the members
    /// draft again. From then on their drafts must not repeat the answer. It needs a
    /// [`discount`](Self::discount) below 1.
    pub max_repeats: usize,
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
            trust: 0.75,
            reward: Reward::Shares,
            alpha: 1.0,
            rate: Rate::Code,
            fixed_share: 0.05,
            update: Update::Before,
            self_votes: true,
            level: true,
            confidence: 0.5,
            branch: 0.2,
            alone: 1.5,
            ended_only: true,
            agree: true,
            discount: 0.5,
            sure: 2.6,
            lead: 0.53,
            exit: None,
            leader: None,
            fast: false,
            max_rounds: 64,
            max_repeats: 3,
            max_characters: 4096,
        }
    }
}

impl Settings {
    /// [`max_repeats`](Self::max_repeats) of answers that may repeat themselves.
    pub const MOST_REPEATS: usize = 10_000;

    /// Settings of `rule`.
    ///
    /// ```
    /// use conclave_ensemble::{Rule, Scoring, Settings};
    ///
    /// assert_eq!(Settings::preset(Rule::Harmonic), Settings::default());
    /// assert_eq!(Settings::preset(Rule::Paper).scoring, Scoring::Logit);
    /// ```
    pub fn preset(rule: Rule) -> Self {
        match rule {
            Rule::Harmonic => Self::default(),
            Rule::Leader => Self {
                leader: Some(Leader::default()),
                ..Self::default()
            },
            // Every setting is explicit, so that later defaults don't change it.
            Rule::Paper => Self {
                segment_tokens: 10,
                scoring: Scoring::Logit,
                score_end: false,
                trust: 0.0,
                reward: Reward::Counts,
                alpha: 1.0,
                rate: Rate::Code,
                update: Update::Before,
                self_votes: true,
                level: false,
                confidence: 0.0,
                branch: 0.0,
                alone: 0.0,
                ended_only: false,
                agree: false,
                discount: 1.0,
                sure: 1000.0,
                lead: 1.0,
                exit: None,
                leader: None,
                fast: false,
                ..Self::default()
            },
        }
    }

    /// Whether verifiers need log-probabilities, which take the whole output matrix for each token.
    pub fn needs_logprobs(&self) -> bool {
        let judged = self.leader.is_some() || self.lead < 1.0 || self.alone > 0.0;
        self.scoring != Scoring::Logit || judged
    }

    /// Whether any candidate is discounted.
    pub(crate) fn discounts(&self) -> bool {
        self.discount < 1.0
    }

    /// Whether the selection needs the words of the conversation and of the answer.
    pub(crate) fn reads(&self) -> bool {
        self.agree || self.discounts()
    }

    /// Which votes count in the selection, and by how much.
    pub fn votes(&self) -> Votes {
        Votes {
            own: self.self_votes,
            level: self.level,
        }
    }

    /// Range of every number, by its name in JSON.
    pub fn ranges() -> BTreeMap<&'static str, SettingRange> {
        NUMBERS
            .into_iter()
            .map(|(name, range, _)| (name, range))
            .collect()
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`SettingsError::Range`] for the first setting out of its range (NaN is out of every
    /// range).
    pub fn validate(&self) -> Result<(), SettingsError> {
        for (setting, SettingRange { low, high }, number) in NUMBERS {
            if let Some(value) = number(self).filter(|value| !(low..=high).contains(value)) {
                return Err(SettingsError::Range {
                    setting,
                    value: value.to_string(),
                    low: low.to_string(),
                    high: high.to_string(),
                });
            }
        }
        Ok(())
    }
}

/// Range of a number, ends included.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct SettingRange {
    /// Smallest allowed value.
    pub low: f64,
    /// Largest allowed value.
    pub high: f64,
}

/// A number's name in JSON, its range, and its getter, `None` where it is absent.
type Number = (&'static str, SettingRange, fn(&Settings) -> Option<f64>);

const fn range(low: f64, high: f64) -> SettingRange {
    SettingRange { low, high }
}

/// All numbers of the settings.
const NUMBERS: [Number; 17] = [
    ("segmentTokens", range(1.0, 64.0), |s| {
        Some(s.segment_tokens as f64)
    }),
    ("trust", range(0.0, 4.0), |s| Some(s.trust)),
    ("confidence", range(0.0, 8.0), |s| Some(s.confidence)),
    ("branch", range(0.0, 1.0), |s| Some(s.branch)),
    ("alone", range(0.0, 1000.0), |s| Some(s.alone)),
    ("discount", range(0.0, 1.0), |s| Some(s.discount)),
    ("sure", range(0.0, 1000.0), |s| Some(s.sure)),
    ("lead", range(0.0, 1.0), |s| Some(s.lead)),
    ("alpha", range(0.0, 100.0), |s| Some(s.alpha)),
    ("fixedShare", range(0.0, 1.0), |s| Some(s.fixed_share)),
    ("maxRounds", range(1.0, 10_000.0), |s| {
        Some(s.max_rounds as f64)
    }),
    (
        "maxRepeats",
        range(1.0, Settings::MOST_REPEATS as f64),
        |s| Some(s.max_repeats as f64),
    ),
    ("maxCharacters", range(1.0, 1_000_000.0), |s| {
        Some(s.max_characters as f64)
    }),
    ("exit.warmup", range(0.0, 10_000.0), |s| {
        s.exit.map(|exit| exit.warmup as f64)
    }),
    ("exit.temperature", range(0.0, 1000.0), |s| {
        s.exit.map(|exit| exit.temperature)
    }),
    ("exit.threshold", range(0.0, 1.0), |s| {
        s.exit.map(|exit| exit.threshold)
    }),
    ("leader.doubt", range(0.0, 1000.0), |s| {
        s.leader.map(|leader| leader.doubt)
    }),
];

/// Invalid setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// Too few or too many members.
    #[error("an ensemble has 1 to 8 members, this one {0}: choose other members")]
    Members(usize),
    /// A number out of its range.
    #[error("{setting} is {value}: choose a value from {low} to {high}")]
    Range {
        /// Name in JSON.
        setting: &'static str,
        /// Its value.
        value: String,
        /// Smallest allowed value.
        low: String,
        /// Largest allowed value.
        high: String,
    },
    /// An unknown value of a switch.
    #[error("{setting} can't be \"{value}\": choose one of {known}")]
    Unknown {
        /// Name in JSON.
        setting: &'static str,
        /// The unknown value.
        value: String,
        /// Known values.
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
                "segmentTokens": 32, "scoring": "harmonic", "scoreEnd": true, "trust": 0.75,
                "reward": "shares",
                "alpha": 1.0, "rate": "code",
                "fixedShare": 0.05, "update": "before", "selfVotes": true, "level": true,
                "confidence": 0.5, "branch": 0.2, "alone": 1.5, "endedOnly": true, "agree": true,
                "discount": 0.5, "sure": 2.6, "lead": 0.53, "exit": null, "leader": null,
                "fast": false, "maxRounds": 64, "maxRepeats": 3, "maxCharacters": 4096,
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

    /// A changed default must not change the paper's rule.
    #[test]
    fn the_paper_keeps_its_own_settings() {
        let paper = serde_json::to_value(Settings::preset(Rule::Paper)).unwrap();
        assert_eq!(
            paper,
            serde_json::json!({
                "segmentTokens": 10, "scoring": "logit", "scoreEnd": false, "trust": 0.0,
                "reward": "counts",
                "alpha": 1.0, "rate": "code",
                "fixedShare": 0.05, "update": "before", "selfVotes": true, "level": false,
                "confidence": 0.0, "branch": 0.0, "alone": 0.0, "endedOnly": false, "agree": false,
                "discount": 1.0, "sure": 1000.0, "lead": 1.0, "exit": null, "leader": null,
                "fast": false, "maxRounds": 64, "maxRepeats": 3, "maxCharacters": 4096,
            })
        );
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
    fn every_range_is_the_documented_one_and_nan_is_out_of_all() {
        let range = |low: f64, high: f64| serde_json::json!({"low": low, "high": high});
        assert_eq!(
            serde_json::to_value(Settings::ranges()).unwrap(),
            serde_json::json!({
                "segmentTokens": range(1.0, 64.0), "trust": range(0.0, 4.0),
                "confidence": range(0.0, 8.0), "branch": range(0.0, 1.0), "alone": range(0.0, 1e3),
                "discount": range(0.0, 1.0), "sure": range(0.0, 1e3), "lead": range(0.0, 1.0),
                "alpha": range(0.0, 100.0), "fixedShare": range(0.0, 1.0),
                "maxRounds": range(1.0, 1e4), "maxRepeats": range(1.0, 1e4),
                "maxCharacters": range(1.0, 1e6), "exit.warmup": range(0.0, 1e4),
                "exit.temperature": range(0.0, 1e3), "exit.threshold": range(0.0, 1.0),
                "leader.doubt": range(0.0, 1e3),
            })
        );
        let sound = Settings {
            exit: Some(Exit::default()),
            leader: Some(Leader::default()),
            ..Settings::default()
        };
        let json = serde_json::to_value(&sound).unwrap();
        let out_of_range = |settings: &Settings| match settings.validate() {
            Err(SettingsError::Range { setting, .. }) => Some(setting),
            _ => None,
        };
        for (name, SettingRange { low, high }) in Settings::ranges() {
            let with = |number: f64| {
                let mut json = json.clone();
                let place = json.pointer_mut(&format!("/{}", name.replace('.', "/")));
                *place.unwrap() = serde_json::json!(number as i64);
                serde_json::from_value::<Settings>(json)
            };
            for within in [low, high] {
                assert_eq!(with(within).unwrap().validate(), Ok(()), "{name}");
            }
            // Counts can't go below 0.
            for beyond in [low - 1.0, high + 1.0].map(with).iter().flatten() {
                assert_eq!(out_of_range(beyond), Some(name));
            }
        }
        type Spoil = fn(&mut Settings);
        let spoilt: [(Spoil, &str); 5] = [
            (|s| s.alpha = f64::NAN, "alpha"),
            (|s| s.alpha = f64::INFINITY, "alpha"),
            (|s| s.fixed_share = 1.1, "fixedShare"),
            (
                |s| s.exit.as_mut().unwrap().temperature = f64::NAN,
                "exit.temperature",
            ),
            (
                |s| s.leader = Some(Leader { doubt: f64::NAN }),
                "leader.doubt",
            ),
        ];
        for (spoil, name) in spoilt {
            let mut settings = sound.clone();
            spoil(&mut settings);
            assert_eq!(out_of_range(&settings), Some(name));
        }
        // A number without a range would never be checked.
        let mut numbers = 0;
        for (name, value) in json.as_object().unwrap() {
            let inner = value.as_object().into_iter().flatten();
            let inner = inner.map(|(inner, value)| (format!("{name}.{inner}"), value));
            for (name, _) in std::iter::once((name.clone(), value))
                .chain(inner)
                .filter(|(_, value)| value.is_number())
            {
                assert!(Settings::ranges().contains_key(&name[..]), "{name}");
                numbers += 1;
            }
        }
        assert_eq!(Settings::ranges().len(), numbers);
    }
}
