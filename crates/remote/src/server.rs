//! A server: detection of its abilities, and the moves in its protocol, over any [`Transport`].

mod judging;
mod reading;
mod scoring;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::{Value, json};

use crate::address::Address;
use crate::asking::Asking;
use crate::error::RemoteError;
use crate::key::Key;
use crate::member::{Drafted, Drawing};
use crate::template::{ChatMessage, Template};
use crate::transport::Transport;
use crate::wire::{Choice, Completion, Facts, Model, Models};

pub(crate) use judging::Verdict;

/// Question that shows whether a model can judge.
const TRIAL_QUESTION: &str =
    "Which is a fruit?\n\nA: an apple\nB: a stone\n\nReply with A or B and nothing else.";

/// Maximum characters of a draft: per token, plus some for a token that is a line of spaces.
const MAX_TOKEN_CHARS: usize = 32;
const EXTRA_CHARS: usize = 256;

/// Abilities of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Abilities {
    /// Continues texts, and reports log-probabilities of given ones.
    DraftsAndScores,
    /// Continues texts, but does not report log-probabilities of given ones.
    DraftsOnly,
    /// Answers questions, and so names the candidate that it likes best.
    JudgesOnly,
}

impl Abilities {
    /// Description: `drafts and scores`, `drafts only`, `judges only`.
    pub fn name(self) -> &'static str {
        match self {
            Self::DraftsAndScores => "drafts and scores",
            Self::DraftsOnly => "drafts only",
            Self::JudgesOnly => "judges only",
        }
    }
}

/// Connection options.
#[derive(Debug, Clone)]
pub struct Options {
    /// Server's key.
    pub key: Option<Key>,
    /// Chat template, for servers that render none.
    pub template: Option<Template>,
    /// How long a round waits.
    pub patience: Duration,
    /// How long [`Server::connect`] waits, if that is longer: a server may load its model first.
    pub joining: Duration,
    /// Whether it only judges, whatever the server can do.
    pub only_judges: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            key: None,
            template: None,
            patience: Duration::from_secs(20),
            joining: Duration::ZERO,
            only_judges: false,
        }
    }
}

/// Reason why a server's abilities are limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// No template renders its conversations.
    Template,
    /// It has no completions.
    Completions,
    /// It reports no log-probabilities of given texts.
    Logprobs,
}

impl Lack {
    /// Part of a sentence about the server.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Template => "it does not tell its chat template: give one to have it draft",
            Self::Completions => "it continues no text",
            Self::Logprobs => "it gives no log-probabilities of a text back",
        }
    }
}

/// Kind of server, by its protocol beyond OpenAI's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Vllm,
    LlamaCpp,
    /// `conclave serve`: an ensemble, or one of its members.
    Conclave,
    /// A browser's own language model, which a page presents as a server that only chats.
    Browser,
    Plain,
}

impl Kind {
    /// Returns whether a sampling option is known: servers may refuse those that are not OpenAI's.
    fn knows(self, option: &str) -> bool {
        ["temperature", "top_p"].contains(&option)
            || matches!(self, Self::Vllm | Self::LlamaCpp | Self::Conclave)
    }
}

/// How log-probabilities of a given text are obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scores {
    /// vLLM's `prompt_logprobs`.
    OfPrompt,
    /// Sampling under a grammar that leaves no choice: llama.cpp's.
    Forced,
    /// `echo` of a list of prompts, or of one at a time.
    Echo {
        lists: bool,
    },
    None,
}

/// Text before a candidate, as the server reads it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Prefix {
    Ids(Vec<u32>),
    Text(String),
}

/// Scores of a candidate's tokens.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scored {
    /// Log-probability of each token, in nats.
    pub logprobs: Vec<f64>,
    /// Number of the text's tokens, without those that close a turn.
    pub tokens: usize,
    /// Ids of the text, where the server works with ids.
    pub ids: Option<Vec<u32>>,
}

/// Server of the OpenAI interface, and one of its models.
#[derive(Debug)]
pub struct Server {
    address: Address,
    key: Option<Key>,
    kind: Kind,
    scores: Scores,
    abilities: Abilities,
    lack: Option<Lack>,
    model: String,
    facts: Facts,
    template: Option<Template>,
    /// End of a turn: as ids where the server works with ids, else as text. Empty if unknown.
    end: Vec<u32>,
    mark: String,
    patience: Duration,
    /// Its chats are limited by `max_completion_tokens`, as newer services want it.
    later_limit: AtomicBool,
    /// Its model thinks before it names a letter.
    reasons: AtomicBool,
    /// It allows no other temperature than its own.
    own_temperature: AtomicBool,
}

impl Server {
    /// Finds out what a server can do, without sending anything of a conversation. Blocks.
    ///
    /// # Errors
    /// [`RemoteError`] if it can't be reached, refuses, lacks the model, or can neither draft nor
    /// judge.
    #[cfg(feature = "client")]
    pub fn connect(address: Address, options: Options) -> Result<Self, RemoteError> {
        let client = crate::client::Client::new();
        pollster::block_on(Self::connect_by(&client, address, options))
    }

    /// Finds out what a server can do, by requests of `transport`.
    ///
    /// # Errors
    /// [`RemoteError`] if it can't be reached, refuses, lacks the model, or can neither draft nor
    /// judge.
    pub async fn connect_by(
        transport: &impl Transport,
        address: Address,
        options: Options,
    ) -> Result<Self, RemoteError> {
        if options.key.is_some() && !address.is_private() {
            return Err(RemoteError::Key(
                "it would cross a network in the clear: use https, or an address of this machine",
            ));
        }
        let mut server = Self {
            kind: Kind::Plain,
            key: options.key,
            scores: Scores::None,
            abilities: Abilities::JudgesOnly,
            lack: None,
            model: address.model().to_owned(),
            facts: Facts::default(),
            address,
            template: options.template,
            end: Vec::new(),
            mark: String::new(),
            patience: options.patience,
            later_limit: AtomicBool::new(false),
            reasons: AtomicBool::new(false),
            own_temperature: AtomicBool::new(false),
        };
        let asking = Asking::within(transport, options.patience.max(options.joining));
        server.find_model(asking).await?;
        if options.only_judges || !server.finds_drafts(asking).await? {
            server.find_verdicts(asking).await?;
        }
        Ok(server)
    }

    /// Abilities of the server.
    pub fn abilities(&self) -> Abilities {
        self.abilities
    }

    /// Reason why they are limited, if they are.
    pub fn lack(&self) -> Option<Lack> {
        self.lack
    }

    /// Name of the model.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Facts of the model, as its server reports them.
    pub fn facts(&self) -> Facts {
        self.facts
    }

    /// Host and port.
    pub fn host(&self) -> String {
        self.address.host().to_owned()
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn key(&self) -> Option<&Key> {
        self.key.as_ref()
    }

    /// Requests of one move.
    pub(crate) fn asking<'a, T: Transport>(&self, transport: &'a T) -> Asking<'a, T> {
        Asking::within(transport, self.patience)
    }

    /// Returns whether it drafts, and finds how it scores.
    async fn finds_drafts(
        &mut self,
        asking: Asking<'_, impl Transport>,
    ) -> Result<bool, RemoteError> {
        if self.kind == Kind::Plain
            && self
                .ids_of("a", asking)
                .await
                .is_ok_and(|ids| !ids.is_empty())
        {
            self.kind = Kind::Vllm;
        }
        // Whether a prompt can be rendered shows whether it can draft.
        let asked = [said("user", "Well?")];
        let prefix = self.prefix(&asked, asking).await;
        if self.kind == Kind::Vllm && prefix.is_err() {
            self.kind = Kind::Plain;
        }
        let prefix = match (prefix, &self.template) {
            (Ok(prefix), _) => prefix,
            (Err(_), Some(template)) => Prefix::Text(template.render(&asked)?),
            (Err(error), None) if error.passes() || error == RemoteError::Stopped => {
                return Err(error);
            }
            (Err(_), None) => {
                self.lack = Some(Lack::Template);
                return Ok(false);
            }
        };
        match self.draft(&prefix, 1, &Drawing::greedy(), 0, asking).await {
            Ok(_) => {}
            Err(RemoteError::Refused { .. } | RemoteError::Nonsense { .. }) => {
                self.lack = Some(Lack::Completions);
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        self.scores = self.way_to_score(&prefix, asking).await?;
        (self.end, self.mark) = self.closing(asking).await.unwrap_or_default();
        (self.abilities, self.lack) = match self.scores {
            Scores::None => (Abilities::DraftsOnly, Some(Lack::Logprobs)),
            _ => (Abilities::DraftsAndScores, None),
        };
        Ok(true)
    }

    /// Checks that it names a letter where it is asked for one.
    async fn find_verdicts(&self, asking: Asking<'_, impl Transport>) -> Result<(), RemoteError> {
        let useless = |why: &str| RemoteError::Useless {
            host: self.host(),
            why: match self.lack {
                Some(lack) => format!("{}; {why}", lack.reason()),
                None => why.to_owned(),
            },
        };
        match self.choose(TRIAL_QUESTION, 2, asking).await {
            Ok(Verdict::Letter(_)) => Ok(()),
            // It would abstain in every round.
            Ok(Verdict::Silence(why)) => Err(useless(why)),
            Err(RemoteError::Refused { why, .. } | RemoteError::Nonsense { why, .. }) => {
                Err(RemoteError::Useless {
                    host: self.host(),
                    why: format!(
                        "{why}; check the address, which usually ends with /v1, and the model's \
                         name"
                    ),
                })
            }
            Err(error) => Err(error),
        }
    }

    /// Finds the model in the server's list, and the kind of server.
    async fn find_model(&mut self, asking: Asking<'_, impl Transport>) -> Result<(), RemoteError> {
        let host = self.host();
        let unknown = |known| RemoteError::Model { host, known };
        let mut models: Models = match self.get("models", asking).await {
            Ok(models) => models,
            // Some servers do not list models.
            Err(RemoteError::Refused { .. } | RemoteError::Nonsense { .. })
                if !self.model.is_empty() =>
            {
                return Ok(());
            }
            Err(RemoteError::Refused { .. }) => return Err(unknown(String::new())),
            Err(error) => return Err(error),
        };
        // Names are displayed: control characters could drive a terminal.
        let shown = |model: &Model| model.id.len() <= 300 && !model.id.contains(char::is_control);
        models.data.retain(shown);
        let names: Vec<&str> = models.data.iter().map(|model| model.id.as_str()).collect();
        let owner = |model: &Model| model.owned_by.clone().unwrap_or_default();
        let found = match self.model.is_empty() {
            // `conclave serve` lists the ensemble first.
            true => models
                .data
                .first()
                .filter(|first| names.len() == 1 || owner(first) == "conclave"),
            false => models.data.iter().find(|model| model.id == self.model),
        };
        // llama.cpp's server has one model, under any name.
        let found = found.or_else(|| {
            let only = models.data.first().filter(|_| names.len() == 1);
            only.filter(|model| owner(model) == "llamacpp")
        });
        let Some(found) = found else {
            let known = names
                .iter()
                .take(12)
                .copied()
                .collect::<Vec<_>>()
                .join(", ");
            return Err(unknown(known));
        };
        self.model.clone_from(&found.id);
        self.facts = found.facts();
        match owner(found).as_str() {
            "llamacpp" => self.kind = Kind::LlamaCpp,
            "conclave" => self.kind = Kind::Conclave,
            "browser" => self.kind = Kind::Browser,
            _ => {}
        }
        Ok(())
    }

    /// Continues `prefix` by at most `limit` tokens.
    pub(crate) async fn draft(
        &self,
        prefix: &Prefix,
        limit: usize,
        drawing: &Drawing,
        seed: u64,
        asking: Asking<'_, impl Transport>,
    ) -> Result<Drafted, RemoteError> {
        let mut body = json!({"model": self.model, "prompt": prompt(prefix), "max_tokens": limit,
            "seed": seed & 0x7fff_ffff});
        // Their defaults differ from the ensemble's.
        let own = match self.kind {
            Kind::Vllm => json!({"repetition_penalty": 1.0}),
            Kind::LlamaCpp => json!({"repeat_penalty": 1.0, "cache_prompt": true}),
            Kind::Conclave | Kind::Browser | Kind::Plain => json!({}),
        };
        merge(&mut body, own);
        for (name, value) in &drawing.options {
            if self.kind.knows(name) {
                // Older versions of vLLM refuse 0 for "any number of tokens".
                let off = self.kind == Kind::Vllm && name == "top_k" && *value == 0;
                body[name] = if off { json!(-1) } else { value.clone() };
            }
        }
        // A model may go on after a mark that its server does not know as an end.
        if matches!(prefix, Prefix::Text(_)) && !self.mark.is_empty() {
            merge(&mut body, json!({"stop": [self.mark]}));
        }
        let completion = self.complete(&body, asking).await?;
        let used = completion.counted("completion_tokens");
        let prefix_tokens = completion.counted("prompt_tokens").unwrap_or(0);
        let [choice] = self.choices(completion)?;
        let ended = choice.finish_reason.as_deref() == Some("stop");
        let mut text = choice.text;
        // Every member must read it: a server that ignores the limit would fill their contexts.
        if text.chars().count()
            > limit
                .saturating_mul(MAX_TOKEN_CHARS)
                .saturating_add(EXTRA_CHARS)
        {
            return Err(self.nonsense("it drafts more tokens than it was asked for"));
        }
        // Some servers report 0 for every draft: the answer would have no limit.
        let used = used.filter(|&used| used > 0 || text.is_empty());
        // An incomplete character at the end is sent as U+FFFD, and left to the next round.
        text.truncate(text.trim_end_matches('\u{fffd}').len());
        // The server counts the token that ends an answer.
        let tokens = used.map_or(limit, |used| used.min(limit).saturating_sub(ended.into()));
        Ok(Drafted {
            text,
            ended,
            tokens,
            prefix_tokens,
        })
    }

    async fn complete(
        &self,
        body: &Value,
        asking: Asking<'_, impl Transport>,
    ) -> Result<Completion, RemoteError> {
        self.post("completions", body, asking).await
    }

    fn choices(&self, completion: Completion) -> Result<[Choice; 1], RemoteError> {
        let choices = completion.choices.try_into();
        choices.map_err(|_| self.nonsense("not one choice"))
    }
}

fn prompt(prefix: &Prefix) -> Value {
    match prefix {
        Prefix::Ids(ids) => json!(ids),
        Prefix::Text(text) => json!(text),
    }
}

fn merge(body: &mut Value, own: Value) {
    if let (Value::Object(body), Value::Object(own)) = (body, own) {
        body.extend(own);
    }
}

fn said(role: &str, content: &str) -> ChatMessage {
    ChatMessage {
        role: role.to_owned(),
        content: content.to_owned(),
    }
}
