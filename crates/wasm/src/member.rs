//! A member, as the round loop sees it.

use conclave_ensemble::{Candidate, Settings};
use conclave_member::{Message, Thinking};
use conclave_model::{Memory, Sampling};
use js_sys::{Function, Promise};
use serde::Serialize;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

use crate::constraint::Constraint;
use crate::failure::Failure;
use crate::files::message;
use crate::{once, to_js};

/// A model in a conversation; see `conclave_member::Member`.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Member {
    member: conclave_member::Member,
}

/// Description of a loaded member.
#[derive(Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ModelAbout"))]
pub(crate) struct About<'a> {
    /// Its name.
    name: &'a str,
    /// Its family's name in GGUF.
    architecture: &'a str,
    /// Number of weights in its files.
    parameters: u64,
    /// The format of most of the weights.
    quantisation: &'a str,
    /// Bytes of the weights in its files.
    bytes: u64,
    /// Room for the conversation, in its tokens.
    context: usize,
    /// Number of its tokens.
    vocabulary: usize,
    /// Number of its blocks.
    layers: usize,
    /// Width of a hidden state.
    hidden: usize,
    /// Whether it came with a chat template. A model without one is usually a base model: its
    /// prompt is a list of questions and answers, and its answer ends with the paragraph.
    template: bool,
    /// Its strength in a vote; only the ratio to other members' counts. Absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    strength: Option<f64>,
    /// Format in memory of each format in its files.
    formats: Vec<FormatInMemory>,
    /// GPU memory it takes.
    memory: Memory,
}

/// GPU format of matrices stored in a format.
#[derive(Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct FormatInMemory {
    /// Format in the file.
    stored: &'static str,
    /// Format in memory; null if no kernel reads it.
    kept: Option<&'static str>,
}

impl Member {
    /// Wraps a member for JavaScript.
    pub fn new(member: conclave_member::Member) -> Self {
        Self { member }
    }
}

#[wasm_bindgen]
impl Member {
    /// Its name.
    #[wasm_bindgen(getter)]
    pub fn name(&self) -> String {
        self.member.name().to_owned()
    }

    /// Description of its model.
    pub fn about(&self) -> Result<JsValue, Failure> {
        let about = self.member.about();
        to_js(&About {
            name: self.member.name(),
            architecture: &about.config.architecture,
            parameters: about.parameters,
            quantisation: &about.quantisation,
            bytes: about.bytes,
            context: about.context,
            vocabulary: about.config.vocabulary,
            layers: about.config.layers.len(),
            hidden: about.config.hidden,
            template: self.member.has_template(),
            strength: Some(self.member.strength()),
            formats: about
                .formats
                .iter()
                .map(
                    |&conclave_model::FormatInMemory { stored, kept, .. }| FormatInMemory {
                        stored,
                        kept,
                    },
                )
                .collect(),
            memory: about.memory,
        })
    }

    /// Tokens of the conversation with `thinking` (`off`, `on` or `auto`; default `off`), without
    /// running any. Throws `ContextFull` where they leave no room for an answer, or `Template`.
    pub async fn measure(&mut self, messages: JsValue, thinking: JsValue) -> Result<u32, Failure> {
        let messages: Vec<Message> = serde_wasm_bindgen::from_value(messages)?;
        let thinking: Option<Thinking> = serde_wasm_bindgen::from_value(thinking)?;
        self.member.set_thinking(thinking.unwrap_or_default());
        Ok(self.member.measure(&messages)? as u32)
    }

    /// Key under which to keep the prefix of the conversation's system prompt for later visits;
    /// undefined if it is not worth keeping. Throws `Template`.
    #[wasm_bindgen(js_name = systemKey)]
    pub fn system_key(&mut self, messages: JsValue) -> Result<Option<Vec<u8>>, Failure> {
        let messages: Vec<Message> = serde_wasm_bindgen::from_value(messages)?;
        Ok(self.member.system_key(&messages)?)
    }

    /// Bytes of the prefix of the last `systemKey`'s system prompt, once a conversation has read
    /// it; undefined if the prefix cannot be saved.
    #[wasm_bindgen(js_name = giveSystem)]
    pub async fn give_system(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        Ok(self.member.give_system().await?)
    }

    /// Takes bytes from an earlier `giveSystem`, for conversations that begin with that system
    /// prompt. Throws `Engine` if they are of another model or build, or damaged.
    #[wasm_bindgen(js_name = takePrefix)]
    pub fn take_prefix(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        Ok(self.member.take_prefix(bytes)?)
    }

    /// Reads the conversation: `{prefix, run, stopped}`, in tokens. Throws `ContextFull` or
    /// `Template`. `stream` keeps members with the same seed from drawing the same numbers. After
    /// each step `onProgress` receives `(done, total)` tokens; the next step awaits its result, and
    /// `false` stops. It must not call the member.
    pub async fn begin(
        &mut self,
        messages: JsValue,
        sampling: JsValue,
        stream: u32,
        #[wasm_bindgen(js_name = onProgress)] on_progress: Option<Function>,
    ) -> Result<JsValue, Failure> {
        let messages: Vec<Message> = serde_wasm_bindgen::from_value(messages)?;
        let sampling: Sampling = serde_wasm_bindgen::from_value(sampling)?;
        let mut failed = None;
        let go_on = async |done, total| match &on_progress {
            Some(listener) => goes_on(listener, done, total)
                .await
                .unwrap_or_else(|thrown| {
                    failed = Some(thrown);
                    false
                }),
            None => true,
        };
        let stream = u64::from(stream);
        let begun = self.member.begin_while(&messages, sampling, stream, go_on);
        let begun = once(begun).await?;
        if let Some(thrown) = failed {
            return Err(Failure::engine(message(&thrown)));
        }
        to_js(&begun)
    }

    /// Thinks after the conversation, as the last `measure` allows: `{text, tokens, stopped}`.
    /// After every few tokens `onThinking` receives the new text; the next tokens await its result,
    /// and `false` stops. It must not call the member.
    pub async fn think(
        &mut self,
        #[wasm_bindgen(js_name = onThinking)] on_thinking: Function,
    ) -> Result<JsValue, Failure> {
        let mut failed = None;
        let go_on = async |news: &str| {
            let said = on_thinking.call1(&JsValue::UNDEFINED, &news.into());
            promised(said).await.unwrap_or_else(|thrown| {
                failed = Some(thrown);
                false
            })
        };
        let thought = once(self.member.think_while(go_on)).await?;
        if let Some(thrown) = failed {
            return Err(Failure::engine(message(&thrown)));
        }
        to_js(&thought)
    }

    /// Sets the constraint on its drafts, for the one answer that begins now; if absent, removes
    /// it.
    pub fn constrain(&mut self, constraint: Option<Constraint>) {
        self.member
            .constrain(constraint.map(Constraint::into_boxed));
    }

    /// The text of each token, for makers of constraints: two bytes of length, the low one first,
    /// then its bytes.
    pub fn vocabulary(&self) -> Vec<u8> {
        self.member.vocabulary()
    }

    /// Draws up to `limit` tokens: `{text, ended, tokens, second?}`; the second draft where two
    /// tokens' probabilities differ by less than `branch`. A `novel` draft repeats no run of six
    /// tokens of the answer.
    pub async fn draft(
        &mut self,
        limit: u32,
        branch: Option<f64>,
        novel: Option<bool>,
    ) -> Result<JsValue, Failure> {
        let (branch, novel) = (branch.unwrap_or(0.0), novel.unwrap_or(false));
        let draft = self.member.draft_for_round(limit as usize, branch, novel);
        to_js(&once(draft).await?)
    }

    /// Scores all candidates in one in-line pass: `[{meanLogit, meanLogprob?, harmonic?, tokens},
    /// …]`, by the settings of the method.
    pub async fn verify(
        &mut self,
        candidates: JsValue,
        settings: JsValue,
    ) -> Result<JsValue, Failure> {
        let candidates: Vec<Candidate> = serde_wasm_bindgen::from_value(candidates)?;
        let settings: Settings = serde_wasm_bindgen::from_value(settings)?;
        let scores = self.member.verify(&candidates, &settings);
        to_js(&once(scores).await?)
    }

    /// Appends candidate `winner` to the text.
    pub async fn keep(&mut self, winner: u32) -> Result<(), Failure> {
        Ok(once(self.member.keep(winner as usize)).await?)
    }

    /// Logits of the next token after the text so far, one for each token of the vocabulary.
    #[wasm_bindgen(js_name = nextLogits)]
    pub async fn next_logits(&mut self) -> Result<Vec<f32>, Failure> {
        Ok(self.member.next_logits().await?)
    }

    /// Tokens run so far: `{prefix, prefillTokens, draftTokens, verifyTokens}`.
    pub fn counters(&self) -> Result<JsValue, Failure> {
        to_js(&self.member.counters())
    }

    /// Leaves the query: frees the KV cache until the next `begin`.
    pub fn release(&mut self) {
        self.member.release();
    }
}

/// Reports progress on a prompt to the page; returns its answer, or throws.
async fn goes_on(listener: &Function, done: usize, total: usize) -> Result<bool, JsValue> {
    let (done, total) = (JsValue::from(done as f64), JsValue::from(total as f64));
    promised(listener.call2(&JsValue::UNDEFINED, &done, &total)).await
}

/// A listener's result, awaited if it is a promise: whether to continue.
async fn promised(said: Result<JsValue, JsValue>) -> Result<bool, JsValue> {
    let said = JsFuture::from(Promise::resolve(&said?)).await?;
    Ok(said != JsValue::FALSE)
}
