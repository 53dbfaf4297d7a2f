//! A server: detection of its abilities, and the moves in its protocol. Everything blocks;
//! [`crate::Remote`] calls it from a thread.

mod judging;
mod reading;
mod scoring;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::address::Address;
use crate::client::{Client, Deadline};
use crate::error::RemoteError;
use crate::key::Key;
use crate::member::{Drafted, Drawing};
use crate::template::{ChatMessage, Template};
use crate::wire::{Choice, Completion, Model, Models};

pub(crate) use judging::Verdict;

/// Question that shows whether a model can judge; the page asks the same (`knowsLetters` in
/// `web/src/worker/remote/judge.ts`).
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
}

impl Default for Options {
    fn default() -> Self {
        Self {
            key: None,
            template: None,
            patience: Duration::from_secs(20),
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
    Plain,
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
    /// Ids of the text, where the server works with ids.
    pub ids: Option<Vec<u32>>,
}

/// Server of the OpenAI interface, and one of its models.
#[derive(Debug)]
pub struct Server {
    client: Client,
    address: Address,
    kind: Kind,
    scores: Scores,
    abilities: Abilities,
    model: String,
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
    /// Finds out what a server can do, without sending anything of a conversation.
    ///
    /// # Errors
    /// [`RemoteError`] if it can't be reached, refuses, lacks the model, or can neither draft nor
    /// judge.
    pub fn connect(address: Address, options: Options) -> Result<Self, RemoteError> {
        if options.key.is_some() && !address.is_private() {
            return Err(RemoteError::Key(
                "it would cross a network in the clear: use https, or an address of this machine",
            ));
        }
        let client = Client::new(address.clone(), options.key);
        let mut server = Self {
            client,
            kind: Kind::Plain,
            scores: Scores::None,
            abilities: Abilities::JudgesOnly,
            model: address.model().to_owned(),
            address,
            template: options.template,
            end: Vec::new(),
            mark: String::new(),
            patience: options.patience,
            later_limit: AtomicBool::new(false),
            reasons: AtomicBool::new(false),
            own_temperature: AtomicBool::new(false),
        };
        server.detect()?;
        Ok(server)
    }

    /// Abilities of the server.
    pub fn abilities(&self) -> Abilities {
        self.abilities
    }

    /// Name of the model.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Host and port.
    pub fn host(&self) -> String {
        self.client.host()
    }

    pub(crate) fn deadline(&self) -> Deadline {
        Deadline::after(self.patience)
    }

    pub(crate) fn nonsense(&self, why: &str) -> RemoteError {
        self.client.nonsense(why)
    }

    fn detect(&mut self) -> Result<(), RemoteError> {
        let deadline = self.deadline();
        self.find_model(deadline)?;
        if self.kind == Kind::Plain && self.ids_of("a", deadline).is_ok_and(|ids| !ids.is_empty()) {
            self.kind = Kind::Vllm;
        }
        // Whether a prompt can be rendered shows whether it can draft.
        let asked = [said("user", "Well?")];
        let prefix = self.prefix(&asked, deadline);
        if self.kind == Kind::Vllm && prefix.is_err() {
            self.kind = Kind::Plain;
        }
        let prefix = match (prefix, &self.template) {
            (Ok(prefix), _) => Some(prefix),
            (Err(_), Some(template)) => Some(Prefix::Text(template.render(&asked)?)),
            (Err(error), None) if error.passes() => return Err(error),
            (Err(_), None) => None,
        };
        if let Some(prefix) = prefix {
            match self.draft(&prefix, 1, &Drawing::greedy(), 0, deadline) {
                Ok(_) => {
                    self.scores = self.way_to_score(&prefix, deadline);
                    (self.end, self.mark) = self.closing(deadline).unwrap_or_default();
                    self.abilities = match self.scores {
                        Scores::None => Abilities::DraftsOnly,
                        _ => Abilities::DraftsAndScores,
                    };
                    return Ok(());
                }
                Err(error) if error.passes() || matches!(error, RemoteError::Denied { .. }) => {
                    return Err(error);
                }
                Err(_) => {}
            }
        }
        let useless = |why| RemoteError::Useless {
            host: self.host(),
            why,
        };
        match self.choose(TRIAL_QUESTION, 2, deadline) {
            Ok(Verdict::Letter(_)) => Ok(()),
            // It would abstain in every round.
            Ok(Verdict::Silence(why)) => Err(useless(why.to_owned())),
            Err(RemoteError::Refused { why, .. } | RemoteError::Nonsense { why, .. }) => {
                Err(useless(format!(
                    "{why}; check the address, which usually ends with /v1, and the model's name \
                    after the #"
                )))
            }
            Err(error) => Err(error),
        }
    }

    /// Finds the model in the server's list, and the kind of server.
    fn find_model(&mut self, deadline: Deadline) -> Result<(), RemoteError> {
        let listed = self
            .client
            .get(&format!("{}/models", self.address.base()), deadline);
        let mut models: Models = match listed.and_then(|listed| self.read(listed)) {
            Ok(models) => models,
            // Some servers do not list models.
            Err(RemoteError::Refused { .. } | RemoteError::Nonsense { .. })
                if !self.model.is_empty() =>
            {
                return Ok(());
            }
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
            return Err(RemoteError::Refused {
                host: self.host(),
                status: 404,
                why: format!("name one of its models after a #: {known}"),
            });
        };
        self.model.clone_from(&found.id);
        match owner(found).as_str() {
            "llamacpp" => self.kind = Kind::LlamaCpp,
            "conclave" => self.kind = Kind::Conclave,
            _ => {}
        }
        Ok(())
    }

    /// Continues `prefix` by at most `limit` tokens.
    pub(crate) fn draft(
        &self,
        prefix: &Prefix,
        limit: usize,
        drawing: &Drawing,
        seed: u64,
        deadline: Deadline,
    ) -> Result<Drafted, RemoteError> {
        let mut body = json!({"model": self.model, "prompt": prompt(prefix), "max_tokens": limit,
            "temperature": drawing.temperature, "top_p": drawing.top_p,
            "seed": seed & 0x7fff_ffff});
        let own = match self.kind {
            // Older versions of vLLM refuse 0 for "any number of tokens".
            Kind::Vllm => {
                let top_k = i64::try_from(drawing.top_k).ok().filter(|&count| count > 0);
                json!({"top_k": top_k.unwrap_or(-1), "min_p": 0.0, "repetition_penalty": 1.0})
            }
            Kind::LlamaCpp => {
                json!({"top_k": drawing.top_k, "min_p": 0.0, "repeat_penalty": 1.0,
                    "cache_prompt": true})
            }
            Kind::Conclave | Kind::Plain => json!({}),
        };
        merge(&mut body, own);
        let completion = self.complete(&body, deadline)?;
        let usage = completion.usage.as_ref();
        let (tokens, prefix_tokens) = usage.map_or((limit, 0), |usage| {
            (usage.completion_tokens, usage.prompt_tokens)
        });
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
        if !ended {
            // An incomplete character at the end is sent as U+FFFD.
            text.truncate(text.trim_end_matches('\u{fffd}').len());
        }
        Ok(Drafted {
            text,
            ended,
            tokens: tokens.min(limit),
            prefix_tokens,
        })
    }

    fn complete(&self, body: &Value, deadline: Deadline) -> Result<Completion, RemoteError> {
        let url = format!("{}/completions", self.address.base());
        let completion = self.client.post(&url, body, deadline)?;
        self.read(completion)
    }

    fn choices(&self, completion: Completion) -> Result<[Choice; 1], RemoteError> {
        let choices = completion.choices.try_into();
        choices.map_err(|_| self.nonsense("not one choice"))
    }

    /// Posts to a path outside of the OpenAI interface.
    fn post_beside<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &Value,
        deadline: Deadline,
    ) -> Result<T, RemoteError> {
        let url = format!("{}/{path}", self.address.root());
        let answer = self.client.post(&url, body, deadline)?;
        self.read(answer)
    }

    fn read<T: DeserializeOwned>(&self, answer: Value) -> Result<T, RemoteError> {
        let read = serde_json::from_value(answer);
        read.map_err(|_| self.nonsense("it has an unexpected shape"))
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
