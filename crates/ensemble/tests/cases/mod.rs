//! The cases of `tests/rounds/cases.json`, for the machine and for its native driver.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use conclave_ensemble::{Failure, Limits, Settings};
use serde::Deserialize;
use serde_json::Value;

/// Settings of all cases: short drafts, and no leader unless a case names one.
const BASE: &str = r#"{"segmentTokens": 10, "lead": 1, "branch": 0}"#;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Case {
    pub name: String,
    pub members: Vec<Script>,
    /// Settings beside [`BASE`] and the defaults.
    #[serde(default)]
    pub settings: serde_json::Map<String, Value>,
    /// The conversation's texts, the last being the question.
    #[serde(default = "question")]
    pub turns: Vec<String>,
    #[serde(default)]
    pub limits: Limits,
    #[serde(default)]
    pub on_one_device: bool,
    /// Segments that were accepted before.
    #[serde(default)]
    pub accepted: Vec<String>,
    /// Calls of members, in their order.
    pub calls: Vec<String>,
    /// Rounds and departures, a line each.
    pub told: Vec<String>,
    pub text: String,
    /// Reason of the end, or the last member that failed.
    pub end: String,
    #[serde(default)]
    pub moves: Vec<[Value; 2]>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Script {
    /// Drafted texts, in order; the last repeats. A text with a full stop at its end ends the
    /// answer; null abstains.
    pub drafts: Vec<Option<String>>,
    /// Second candidates by draft, given where the machine asks for one.
    #[serde(default)]
    pub seconds: BTreeMap<String, String>,
    /// Nats of its surprise at candidates, 2 if not listed.
    #[serde(default)]
    pub surprises: BTreeMap<String, f64>,
    /// Its strength in the vote; 1 if not set.
    #[serde(default)]
    pub strength: Option<f64>,
    #[serde(default)]
    pub judges_only: bool,
    /// Verifications in which it abstains, by number; the first is 1.
    #[serde(default)]
    pub silent: Vec<usize>,
    /// Failures by call: `"draft 2"` is the second draft.
    #[serde(default)]
    pub fails: BTreeMap<String, Failure>,
    /// The call in which the caller stops the answer.
    #[serde(default)]
    pub stops: Option<String>,
}

fn question() -> Vec<String> {
    vec!["Why?".to_owned()]
}

impl Script {
    /// Its strength in the vote.
    pub fn strength(&self) -> f64 {
        self.strength.unwrap_or(1.0)
    }
}

impl Case {
    /// The defaults, [`BASE`] and the case's own settings.
    pub fn settings(&self) -> Settings {
        let base: serde_json::Map<String, Value> = serde_json::from_str(BASE).unwrap();
        let mut settings = serde_json::to_value(Settings::default()).unwrap();
        let named = settings.as_object_mut().unwrap();
        named.extend(base.into_iter().chain(self.settings.clone()));
        serde_json::from_value(settings).unwrap()
    }
}

/// The file of the cases; every crate lies two folders below the root.
pub fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/rounds/cases.json")
}
