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
use crate::files::told;
use crate::to_js;

/// A model in a conversation; see `conclave_member::Member`.
#[wasm_bindgen]
pub struct Member {
    member: conclave_member::Member,
}

/// What an engine says of a member that it has loaded.
#[derive(Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ModelAbout"))]
pub(crate) struct About<'a> {
    /// What it is called.
    name: &'a str,
    /// Its family's name in GGUF.
    architecture: &'a str,
    /// How many weights its files have.
    parameters: u64,
    /// The format of most of the weights.
    quantisation: &'a str,
    /// Bytes of the weights in its files.
    bytes: u64,
    /// Room for the conversation, in its tokens.
    context: usize,
    /// Tokens that it knows.
    vocabulary: usize,
    /// Its blocks, one after another.
    layers: usize,
    /// Numbers of a hidden state.
    hidden: usize,
    /// It came with a chat template. One without is a base model as a rule: it is shown questions
    /// with their answers, and answers in one paragraph.
    template: bool,
    /// How strong it is in a vote; only the ratio to other members' counts. Left out where nothing
    /// is known of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    strength: Option<f64>,
    /// What becomes of the matrices of each format in its files.
    formats: Vec<FormatInMemory>,
    /// What it takes of a GPU's memory.
    memory: Memory,
}

/// What becomes of the matrices of a format on a GPU.
#[derive(Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct FormatInMemory {
    /// As they are stored.
    stored: &'static str,
    /// As they are kept; null: no kernel reads them.
    kept: Option<&'static str>,
}

impl Member {
    /// A member as JavaScript sees it.
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

    /// What its model is.
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

    /// Tokens of the conversation, of which nothing is run, where it is to be begun with `thinking`
    /// (`off`, `on` or `auto`; left out, `off`). Throws `ContextFull` where they leave no room for
    /// an answer, or `Template`.
    pub async fn measure(&mut self, messages: JsValue, thinking: JsValue) -> Result<u32, Failure> {
        let messages: Vec<Message> = serde_wasm_bindgen::from_value(messages)?;
        let thinking: Option<Thinking> = serde_wasm_bindgen::from_value(thinking)?;
        self.member.set_thinking(thinking.unwrap_or_default());
        Ok(self.member.measure(&messages)? as u32)
    }

    /// What the prefix of the conversation's system prompt is found by among those of earlier
    /// visits; undefined where it is not worth it. Throws `Template`.
    #[wasm_bindgen(js_name = systemKey)]
    pub fn system_key(&mut self, messages: JsValue) -> Result<Option<Vec<u8>>, Failure> {
        let messages: Vec<Message> = serde_wasm_bindgen::from_value(messages)?;
        Ok(self.member.system_key(&messages)?)
    }

    /// The prefix of the system prompt that `systemKey` was asked for last, once it has been read;
    /// undefined where it can't be given away.
    #[wasm_bindgen(js_name = giveSystem)]
    pub async fn give_system(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        Ok(self.member.give_system().await?)
    }

    /// Takes such a prefix, for conversations that begin with it. Throws `Engine` where it is of
    /// another model or build, or damaged.
    #[wasm_bindgen(js_name = takePrefix)]
    pub fn take_prefix(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        Ok(self.member.take_prefix(bytes)?)
    }

    /// Takes in the conversation: `{prefix, run, stopped}`, in tokens. Throws `ContextFull` or
    /// `Template`. `stream` keeps members with the same seed from drawing the same numbers. After
    /// each step `onProgress` hears `(done, total)` tokens; the next waits for what it returns or
    /// promises, and there is none after `false`. It must not call the member.
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
        let begun = begun.await?;
        if let Some(thrown) = failed {
            return Err(Failure::engine(told(&thrown)));
        }
        to_js(&begun)
    }

    /// Thinks behind the conversation, as far as the last `measure` lets it: `{text, tokens,
    /// stopped}`. After every few tokens `onThinking` hears what came; the next wait for what it
    /// returns or promises, and there are none after `false`. It must not call the member.
    pub async fn think(
        &mut self,
        #[wasm_bindgen(js_name = onThinking)] on_thinking: Function,
    ) -> Result<JsValue, Failure> {
        let mut failed = None;
        let go_on = async |news: &str| {
            let told = on_thinking.call1(&JsValue::UNDEFINED, &news.into());
            promised(told).await.unwrap_or_else(|thrown| {
                failed = Some(thrown);
                false
            })
        };
        let thought = self.member.think_while(go_on).await?;
        if let Some(thrown) = failed {
            return Err(Failure::engine(told(&thrown)));
        }
        to_js(&thought)
    }

    /// Holds what it drafts to the constraint, which follows the one answer that begins now; left
    /// out, to nothing.
    pub fn constrain(&mut self, constraint: Option<Constraint>) {
        self.member.constrain(constraint.map(Constraint::held));
    }

    /// What its tokens show as, for whoever makes constraints: of each two bytes of length, the low
    /// one first, and its bytes.
    pub fn vocabulary(&self) -> Vec<u8> {
        self.member.vocabulary()
    }

    /// Draws up to `limit` tokens: `{text, ended, tokens}`.
    pub async fn draft(&mut self, limit: u32) -> Result<JsValue, Failure> {
        let draft = self.member.draft(limit as usize).await?;
        to_js(&draft)
    }

    /// Scores all candidates in one in-line pass: `[{meanLogit, meanLogprob?, harmonic?, tokens},
    /// …]`, as the settings of the method say.
    pub async fn verify(
        &mut self,
        candidates: JsValue,
        settings: JsValue,
    ) -> Result<JsValue, Failure> {
        let candidates: Vec<Candidate> = serde_wasm_bindgen::from_value(candidates)?;
        let settings: Settings = serde_wasm_bindgen::from_value(settings)?;
        let scores = self.member.verify(&candidates, &settings).await?;
        to_js(&scores)
    }

    /// Makes candidate `winner` part of the text.
    pub async fn keep(&mut self, winner: u32) -> Result<(), Failure> {
        Ok(self.member.keep(winner as usize).await?)
    }

    /// Logits of the token behind the text so far, one a token of the vocabulary.
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

/// Tells the page how far a prompt is; gives what it says, or throws.
async fn goes_on(listener: &Function, done: usize, total: usize) -> Result<bool, JsValue> {
    let (done, total) = (JsValue::from(done as f64), JsValue::from(total as f64));
    promised(listener.call2(&JsValue::UNDEFINED, &done, &total)).await
}

/// What a listener returns or promises: whether to go on.
async fn promised(said: Result<JsValue, JsValue>) -> Result<bool, JsValue> {
    let said = JsFuture::from(Promise::resolve(&said?)).await?;
    Ok(said != JsValue::FALSE)
}
