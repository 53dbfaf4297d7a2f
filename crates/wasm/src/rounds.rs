//! The rounds of one answer, for the driver in JavaScript, and the method's settings.

use std::collections::BTreeMap;

use crate::{Failure, to_js};
use conclave_ensemble::{Event, Limits, Query, Rule, Settings};
use serde::Deserialize;
use serde_wasm_bindgen::from_value;
use wasm_bindgen::prelude::*;

/// Options of an answer (`RoundsOptions` in `engine.ts`).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Options {
    settings: Settings,
    strengths: Vec<f64>,
    chats: Vec<bool>,
    turns: Vec<String>,
    limits: Limits,
    on_one_device: bool,
}

/// The rounds of one answer as a state machine; see `conclave_ensemble::Rounds`.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Rounds {
    rounds: conclave_ensemble::Rounds,
}

#[wasm_bindgen]
impl Rounds {
    /// The rounds of one answer. Throws `Settings`.
    #[wasm_bindgen(constructor)]
    pub fn new(options: JsValue) -> Result<Self, Failure> {
        let options: Options = from_value(options)?;
        let mut query = Query::new(options.strengths.len(), options.settings)?;
        query.trust(&options.strengths, &options.chats)?;
        query.ask(options.turns.iter().map(String::as_str));
        let rounds = conclave_ensemble::Rounds::new(query, options.limits, options.on_one_device);
        Ok(Self { rounds })
    }

    /// Takes the members' results of the last move; returns the next move.
    pub fn next(&mut self, event: JsValue) -> Result<JsValue, Failure> {
        let event: Event = from_value(event)?;
        to_js(&self.rounds.next(event)?)
    }

    /// Adds a segment that was accepted earlier, before the first move. Returns the text that is
    /// now final.
    pub fn resume(&mut self, text: &str, tokens: u32) -> String {
        self.rounds.resume(text, tokens as usize)
    }

    /// Weights of the active members.
    pub fn weights(&self) -> Vec<f64> {
        self.rounds.weights().to_vec()
    }

    /// Tokens of the accepted segments.
    pub fn tokens(&self) -> u32 {
        self.rounds.tokens() as u32
    }

    /// Takes the accepted text that was withheld because it may begin a stop text.
    pub fn rest(&mut self) -> String {
        self.rounds.rest()
    }
}

/// The settings of the method under each rule, by its name:
/// `{harmonic: {…}, leader: {…}, paper: {…}}`.
#[wasm_bindgen]
pub fn rules() -> Result<JsValue, Failure> {
    let rules: BTreeMap<&str, Settings> = Rule::ALL
        .iter()
        .map(|&rule| (rule.name(), Settings::preset(rule)))
        .collect();
    to_js(&rules)
}

/// The range of each number of the settings: `{"segmentTokens": {low, high}, "exit.warmup": {…},
/// …}`.
#[wasm_bindgen]
pub fn ranges() -> Result<JsValue, Failure> {
    to_js(&Settings::ranges())
}
