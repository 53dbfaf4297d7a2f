//! A server: what it can do, found out once, and the moves in its own protocol. Everything here
//! waits for answers; [`crate::Remote`] calls it from a thread.

mod reading;
mod scoring;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::address::Address;
use crate::client::{Client, Deadline};
use crate::error::RemoteError;
use crate::judge::LETTERS;
use crate::key::Key;
use crate::member::{Drafted, Drawing};
use crate::template::{Said, Template};
use crate::wire::{Choice, Completion, Model, Models};

/// What shows whether it can judge, as the page asks it (`knowsLetters` in
/// `web/src/worker/remote/judge.ts`).
const CHOICE: &str =
    "Which is a fruit?\n\nA: an apple\nB: a stone\n\nReply with A or B and nothing else.";

/// Characters of a draft: so many a token, and some more for one that is a line of spaces.
const TOKEN: usize = 32;
const SLACK: usize = 256;

/// What a server can do for a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Abilities {
    /// It continues texts, and tells how likely others are.
    DraftsAndScores,
    /// It continues texts; nobody knows what it thinks of others.
    DraftsOnly,
    /// It answers questions, and so names the candidate that it likes best.
    JudgesOnly,
}

impl Abilities {
    /// In words: `drafts and scores`, `drafts only`, `judges only`.
    pub fn name(self) -> &'static str {
        match self {
            Self::DraftsAndScores => "drafts and scores",
            Self::DraftsOnly => "drafts only",
            Self::JudgesOnly => "judges only",
        }
    }
}

/// How a server is spoken to.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its key.
    pub key: Option<Key>,
    /// The chat template, for servers that render none.
    pub template: Option<Template>,
    /// How long a round waits for it.
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

/// Whose protocol it speaks beside OpenAI's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Vllm,
    LlamaCpp,
    /// `conclave serve`: an ensemble, or one member of it.
    Conclave,
    Plain,
}

/// How it tells log-probabilities of a given text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scores {
    /// vLLM's `prompt_logprobs`.
    OfPrompt,
    /// It draws a text that a grammar leaves no choice of: llama.cpp's.
    Forced,
    /// `echo` of a list of prompts, or of one at a time.
    Echo {
        lists: bool,
    },
    None,
}

/// What stands before a candidate, as the server reads it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Prefix {
    Ids(Vec<u32>),
    Text(String),
}

/// What was scored of a candidate.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Told {
    /// Of each of its tokens, in nats.
    pub logprobs: Vec<f64>,
    /// The ids of its text, where the server counts in those.
    pub ids: Option<Vec<u32>>,
}

/// A server of the OpenAI interface, and one model of it.
#[derive(Debug)]
pub struct Server {
    client: Client,
    address: Address,
    kind: Kind,
    scores: Scores,
    abilities: Abilities,
    model: String,
    template: Option<Template>,
    /// What closes a turn: its ids, where the server counts in those, and else its text. Empty
    /// where nobody knows.
    end: Vec<u32>,
    mark: String,
    patience: Duration,
    /// Its chats are limited by `max_completion_tokens`, as newer services want it.
    later_limit: AtomicBool,
}

impl Server {
    /// Asks what a server can do. Nothing of a conversation is sent.
    ///
    /// # Errors
    /// [`RemoteError`]: it can't be reached, refuses, has no such model, or can neither draft nor judge.
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
        };
        server.look()?;
        Ok(server)
    }

    /// What it can do.
    pub fn abilities(&self) -> Abilities {
        self.abilities
    }

    /// The model that is asked.
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

    fn look(&mut self) -> Result<(), RemoteError> {
        let deadline = self.deadline();
        self.find_model(deadline)?;
        if self.kind == Kind::Plain && self.ids_of("a", deadline).is_ok_and(|ids| !ids.is_empty()) {
            self.kind = Kind::Vllm;
        }
        // The prompt of a question is what shows whether it can draft at all.
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
        match self.choose(CHOICE, 2, deadline) {
            Ok(Some(_)) => Ok(()),
            // It would abstain in every round.
            Ok(None) => Err(useless(
                "it names no letter where it is asked for one; take another model".to_owned(),
            )),
            Err(RemoteError::Refused { why, .. } | RemoteError::Nonsense { why, .. }) => {
                Err(useless(format!(
                    "{why}; check the address, which usually ends with /v1, and the model's name behind the #"
                )))
            }
            Err(error) => Err(error),
        }
    }

    /// Finds the model among those that the server lists, and whose server it is.
    fn find_model(&mut self, deadline: Deadline) -> Result<(), RemoteError> {
        let listed = self
            .client
            .get(&format!("{}/models", self.address.base()), deadline);
        let mut models: Models = match listed.and_then(|listed| self.read(listed)) {
            Ok(models) => models,
            // Not all list them.
            Err(RemoteError::Refused { .. } | RemoteError::Nonsense { .. })
                if !self.model.is_empty() =>
            {
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        // They are shown, and a terminal takes some characters for commands.
        let shown = |model: &Model| model.id.len() <= 300 && !model.id.contains(char::is_control);
        models.data.retain(shown);
        let names: Vec<&str> = models.data.iter().map(|model| model.id.as_str()).collect();
        let owner = |model: &Model| model.owned_by.clone().unwrap_or_default();
        let found = match self.model.is_empty() {
            // What `conclave serve` lists first is the ensemble.
            true => models
                .data
                .first()
                .filter(|first| names.len() == 1 || owner(first) == "conclave"),
            false => models.data.iter().find(|model| model.id == self.model),
        };
        // llama.cpp's server has one model, whatever it is called.
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
                why: format!("name one of its models behind a #: {known}"),
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
    ///
    /// # Errors
    /// [`RemoteError`].
    pub(crate) fn draft(
        &self,
        prefix: &Prefix,
        limit: usize,
        drawing: &Drawing,
        seed: u64,
        deadline: Deadline,
    ) -> Result<Drafted, RemoteError> {
        let mut body = json!({"model": self.model, "prompt": prompt(prefix), "max_tokens": limit,
            "temperature": drawing.temperature, "top_p": drawing.top_p, "seed": seed & 0x7fff_ffff});
        let own = match self.kind {
            Kind::Vllm => json!({"top_k": drawing.top_k, "min_p": 0.0, "repetition_penalty": 1.0}),
            Kind::LlamaCpp => {
                json!({"top_k": drawing.top_k, "min_p": 0.0, "repeat_penalty": 1.0, "cache_prompt": true})
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
        // All members have to read it: one that keeps to no limit would fill their contexts.
        if text.chars().count() > limit.saturating_mul(TOKEN).saturating_add(SLACK) {
            return Err(self.nonsense("it drafts more tokens than it was asked for"));
        }
        if !ended {
            // A character whose last bytes are still to come is told as this.
            text.truncate(text.trim_end_matches('\u{fffd}').len());
        }
        Ok(Drafted {
            text,
            ended,
            tokens: tokens.min(limit),
            prefix_tokens,
        })
    }

    /// Which of `count` letters it names.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub(crate) fn choose(
        &self,
        asked: &str,
        count: usize,
        deadline: Deadline,
    ) -> Result<Option<usize>, RemoteError> {
        let letters = &LETTERS[..count.min(LETTERS.len())];
        let letters: Vec<String> = letters.iter().map(|&l| char::from(l).to_string()).collect();
        let mut body =
            json!({"model": self.model, "messages": [said("user", asked)], "temperature": 0});
        let thinking = json!({"enable_thinking": false});
        let own = match self.kind {
            Kind::LlamaCpp => {
                let quoted: Vec<String> = letters.iter().map(|l| format!("\"{l}\"")).collect();
                json!({"grammar": format!("root ::= {}", quoted.join(" | ")), "chat_template_kwargs": thinking})
            }
            Kind::Vllm => {
                json!({"structured_outputs": {"choice": letters}, "chat_template_kwargs": thinking})
            }
            Kind::Conclave | Kind::Plain => json!({}),
        };
        merge(&mut body, own);
        let url = format!("{}/chat/completions", self.address.base());
        let completion = self.limited(&url, body, 16, deadline)?;
        let [choice] = self.choices(self.read(completion)?)?;
        let content = choice.message.and_then(|message| message.content);
        Ok(crate::judge::letter_in(&content.unwrap_or_default(), count))
    }

    /// Asks for a chat's answer of at most `tokens`, by the name of that limit that the server knows.
    fn limited(
        &self,
        url: &str,
        body: Value,
        tokens: usize,
        deadline: Deadline,
    ) -> Result<Value, RemoteError> {
        const NAMES: [&str; 2] = ["max_tokens", "max_completion_tokens"];
        let later = self.later_limit.load(Ordering::Relaxed);
        let name = |later| NAMES[usize::from(later)];
        let post = |later| {
            let mut body = body.clone();
            body[name(later)] = json!(tokens);
            self.client.post(url, &body, deadline)
        };
        match post(later) {
            Err(RemoteError::Refused { why, .. }) if why.contains(name(later)) => {
                let answer = post(!later)?;
                self.later_limit.store(!later, Ordering::Relaxed);
                Ok(answer)
            }
            outcome => outcome,
        }
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

    /// What stands beside the OpenAI interface.
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
        read.map_err(|_| self.nonsense("it has another shape than was due"))
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

fn said(role: &str, content: &str) -> Said {
    Said {
        role: role.to_owned(),
        content: content.to_owned(),
    }
}
