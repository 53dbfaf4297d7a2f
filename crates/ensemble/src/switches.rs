//! Switches of the method: settings with a few named values.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::settings::SettingsError;

/// Declares a switch: an enum whose values have one name in JSON, on the command line and in
/// errors.
macro_rules! switch {
    (
        $(#[$doc:meta])* $switch:ident, $setting:literal {
            $($(#[$about:meta])* $value:ident = $name:literal),+ $(,)?
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
        #[cfg_attr(feature = "ts", derive(ts_rs::TS))]
        pub enum $switch {
            $($(#[$about])* #[serde(rename = $name)] $value,)+
        }

        impl $switch {
            /// All values, the default first.
            pub const ALL: &'static [Self] = &[$(Self::$value),+];

            /// Name used in JSON and on the command line.
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
    /// Kind of a verifier's score of a candidate, and normalisation of a row of scores to shares.
    Scoring, "scoring" {
        /// s = 1 / (0.5 + ln(1 + Σ_t (1/p_t − 1))) over the candidate's tokens, dominated by the
        /// least likely ones; share = score over the row's sum (Eq. 3).
        #[default]
        Harmonic = "harmonic",
        /// The paper's: the mean raw logit; share = score over the row's sum (Eq. 3), guarded
        /// against rows that are not positive (see [`crate::score`]).
        Logit = "logit",
        /// Mean log-probability; shares are its softmax over the candidates (Eq. 3 of the geometric
        /// means of the probabilities).
        Likelihood = "likelihood",
    }
}

switch! {
    /// Reward of a round's feedback (Eq. 5).
    Reward, "reward" {
        /// r_j = the mean of the others' shares of j's candidate: it also changes the weights of
        /// two members, for which the counts would be 1 in every round.
        #[default]
        Shares = "shares",
        /// The paper's: r_j = c_j / (N−1)², how often another member prefers j to some other
        /// candidate.
        Counts = "counts",
    }
}

switch! {
    /// Preset of all settings: the best where it was measured, the same with leader drafts, and the
    /// method as published.
    Rule, "rule" {
        /// Best where it was measured (tests/eval-log.md).
        #[default]
        Harmonic = "harmonic",
        /// `Harmonic`, but one member drafts for all while no other doubts it
        /// ([`Leader`](crate::Leader)).
        Leader = "leader",
        /// The method as its authors published it.
        Paper = "paper",
    }
}

switch! {
    /// Learning rate η of round k among N members (Eq. 5), and its use.
    Rate, "rate" {
        /// η = α / (k·√N), the form of the authors' code, which reproduces their printed
        /// weights.
        #[default]
        Code = "code",
        /// η = α / (N·√k), the form printed in the paper. Weights diverge much faster.
        Printed = "printed",
        /// The code form, and after every update a fraction of each weight is spread evenly:
        /// w ← (1 − λ)·w + λ/N with λ = [`fixed_share`](crate::Settings::fixed_share). It
        /// keeps every weight at λ/N or more, and lets a member that was weak in an earlier part
        /// of the answer recover.
        FixedShare = "fixed-share",
    }
}

switch! {
    /// Whether the weights are updated before or after the selection of the same round.
    Update, "update" {
        /// Before, as in the authors' code.
        #[default]
        Before = "before",
        /// After, the natural reading of Eq. 4.
        After = "after",
    }
}
