//! The method's state over one query, as the round loop sees it.

use std::collections::BTreeMap;

use conclave_ensemble::{Candidate, Rule, Score, Settings};
use conclave_surface::{Failure, to_js};
use serde_wasm_bindgen::from_value;
use wasm_bindgen::prelude::*;

/// See `conclave_ensemble::Query`.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Query {
    query: conclave_ensemble::Query,
}

#[wasm_bindgen]
impl Query {
    /// A query to `members` members with equal weights. Throws `Settings`.
    #[wasm_bindgen(constructor)]
    pub fn new(members: u32, settings: JsValue) -> Result<Query, Failure> {
        let settings: Settings = from_value(settings)?;
        let query = conclave_ensemble::Query::new(members as usize, settings)?;
        Ok(Self { query })
    }

    /// Sets each member's strength, NaN if unknown, and whether it chats (1) or is a base model
    /// (0), before the first round.
    pub fn trust(&mut self, strengths: Vec<f64>, chats: Vec<u8>) -> Result<(), Failure> {
        let chats: Vec<bool> = chats.iter().map(|&chats| chats != 0).collect();
        Ok(self.query.trust(&strengths, &chats)?)
    }

    /// Indices of the members still in.
    pub fn active(&self) -> Vec<u32> {
        self.query
            .active()
            .iter()
            .map(|&index| index as u32)
            .collect()
    }

    /// Weights of the active members.
    pub fn weights(&self) -> Vec<f64> {
        self.query.weights().to_vec()
    }

    /// Position of the member that drafts alone now, if any.
    pub fn leader(&self) -> Option<u32> {
        self.query.leader().map(|position| position as u32)
    }

    /// Sets the text so far, before the first round: the texts of the conversation's turns.
    pub fn ask(&mut self, turns: Vec<String>) {
        self.query.ask(turns.iter().map(String::as_str));
    }

    /// Records which members, by position, drafted this round's candidates.
    pub fn drafted(&mut self, positions: Vec<usize>, candidates: JsValue) -> Result<(), Failure> {
        let candidates: Vec<Candidate> = from_value(candidates)?;
        Ok(self.query.drafted(&positions, &candidates)?)
    }

    /// Whether the verifiers of the leader's candidate, a row of one score each, accept it as it
    /// is.
    pub fn trusts(&self, scores: JsValue) -> Result<bool, Failure> {
        let scores: Vec<Vec<Score>> = from_value(scores)?;
        Ok(self.query.trusts(&scores)?)
    }

    /// Position of a candidate that fast mode accepts at once.
    #[wasm_bindgen(js_name = fastWinner)]
    pub fn fast_winner(&self, candidates: JsValue) -> Result<Option<u32>, Failure> {
        let candidates: Vec<Candidate> = from_value(candidates)?;
        Ok(self
            .query
            .fast_winner(&candidates)
            .map(|position| position as u32))
    }

    /// Converts scores to shares, a row for each verifier; empty where it abstains.
    pub fn normalise(&mut self, scores: JsValue) -> Result<JsValue, Failure> {
        let scores: Vec<Vec<Score>> = from_value(scores)?;
        to_js(&self.query.normalise(&scores)?)
    }

    /// Updates the weights: `{counts, rewards, rate, weights}`.
    pub fn feedback(&mut self, shares: JsValue) -> Result<JsValue, Failure> {
        let shares: Vec<Vec<f64>> = from_value(shares)?;
        to_js(&self.query.feedback(&shares)?)
    }

    /// The winner: `{totals, winner}`.
    pub fn select(&mut self, shares: JsValue) -> Result<JsValue, Failure> {
        let shares: Vec<Vec<f64>> = from_value(shares)?;
        to_js(&self.query.select(&shares)?)
    }

    /// Indices of the members that leave after this round.
    pub fn exit(&mut self, winner: u32) -> Result<Vec<u32>, Failure> {
        let leaving = self.query.exit(winner as usize)?;
        Ok(leaving.into_iter().map(|index| index as u32).collect())
    }

    /// Removes a failed member (by index). Throws where no other would be left.
    pub fn leave(&mut self, member: u32) -> Result<(), Failure> {
        Ok(self.query.leave(&[member as usize])?)
    }

    /// Ends the round; returns `ended`, `rounds`, `length` or `silence` if that ends the answer.
    pub fn stop(&mut self, winner: JsValue) -> Result<Option<String>, Failure> {
        let winner: Candidate = from_value(winner)?;
        Ok(self.query.stop(&winner).map(|stop| stop.name().to_owned()))
    }
}

/// Cuts a draft to whole words; see `conclave_ensemble::cut`.
#[wasm_bindgen]
pub fn cut(text: &str, ended: bool) -> String {
    conclave_ensemble::cut(text, ended).to_owned()
}

/// The method's settings by each rule's name: `{harmonic: {…}, leader: {…}, paper: {…}}`.
#[wasm_bindgen]
pub fn rules() -> Result<JsValue, Failure> {
    let rules: BTreeMap<&str, Settings> = Rule::ALL
        .iter()
        .map(|&rule| (rule.name(), Settings::of(rule)))
        .collect();
    to_js(&rules)
}

/// The range of each number in the settings: `{"segmentTokens": {low, high}, "exit.warmup": {…},
/// …}`.
#[wasm_bindgen]
pub fn ranges() -> Result<JsValue, Failure> {
    to_js(&Settings::ranges())
}
