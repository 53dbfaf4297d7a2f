//! A server: what it can do, found out once, and the moves in its own protocol. Everything here waits for
//! answers; [`crate::Remote`] calls it from a thread.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::address::Address;
use crate::client::{Client, Deadline};
use crate::error::RemoteError;
use crate::judge::LETTERS;
use crate::key::Key;
use crate::member::Drawing;
use crate::template::{Said, Template, closing};
use crate::wire::{Choice, Completion, Models, Rendered, Tokens, of_forced, of_ids, of_text};

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
    /// What closes a turn: its ids, where the server counts in those.
    end: Vec<u32>,
    patience: Duration,
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
            patience: options.patience,
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
                    self.end = self.closing(deadline).unwrap_or_default();
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
        let chat = self.choose("Say A.", 2, deadline);
        chat.map(|_| ()).map_err(|error| match error {
            RemoteError::Refused { why, .. } | RemoteError::Nonsense { why, .. } => {
                RemoteError::Useless {
                    host: self.host(),
                    why,
                }
            }
            error => error,
        })
    }

    /// Finds the model among those that the server lists, and whose server it is.
    fn find_model(&mut self, deadline: Deadline) -> Result<(), RemoteError> {
        let listed = self
            .client
            .get(&format!("{}/models", self.address.base()), deadline);
        let models: Models = match listed.and_then(|listed| self.read(listed)) {
            Ok(models) => models,
            // Not all list them.
            Err(RemoteError::Refused { .. } | RemoteError::Nonsense { .. })
                if !self.model.is_empty() =>
            {
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let names: Vec<&str> = models.data.iter().map(|model| model.id.as_str()).collect();
        let found = match self.model.is_empty() {
            true => models.data.first().filter(|_| names.len() == 1),
            false => models.data.iter().find(|model| model.id == self.model),
        };
        let owner = |model: &crate::wire::Model| model.owned_by.clone().unwrap_or_default();
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
        if owner(found) == "llamacpp" {
            self.kind = Kind::LlamaCpp;
        }
        Ok(())
    }

    /// Tries the ways to score in turn.
    fn way_to_score(&self, prefix: &Prefix, deadline: Deadline) -> Scores {
        let ways = match self.kind {
            Kind::Vllm => &[Scores::OfPrompt][..],
            Kind::LlamaCpp => &[Scores::Forced],
            Kind::Plain => &[Scores::Echo { lists: true }, Scores::Echo { lists: false }],
        };
        let texts = ["Yes, it is.", "No."];
        let works = |way: &&Scores| {
            self.score_by(**way, prefix, &texts, &[false; 2], deadline)
                .is_ok()
        };
        ways.iter().find(works).copied().unwrap_or(Scores::None)
    }

    /// The conversation up to where the answer begins.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub(crate) fn prefix(
        &self,
        messages: &[Said],
        deadline: Deadline,
    ) -> Result<Prefix, RemoteError> {
        let thinking = json!({"enable_thinking": false});
        match self.kind {
            Kind::Vllm => {
                let body = json!({"model": self.model, "messages": messages, "add_generation_prompt": true,
                    "add_special_tokens": false, "chat_template_kwargs": thinking});
                let tokens: Tokens = self.post_beside("tokenize", &body, deadline)?;
                Ok(Prefix::Ids(tokens.tokens))
            }
            Kind::LlamaCpp => {
                let body = json!({"messages": messages, "chat_template_kwargs": thinking});
                let rendered: Rendered = self.post_beside("apply-template", &body, deadline)?;
                let body =
                    json!({"content": rendered.prompt, "add_special": true, "parse_special": true});
                let mut ids = self.tokens(&body, deadline)?;
                // What begins a text stands in some templates, too.
                if let [first, second, ..] = ids[..]
                    && first == second
                {
                    ids.remove(0);
                }
                Ok(Prefix::Ids(ids))
            }
            Kind::Plain => match &self.template {
                Some(template) => Ok(Prefix::Text(template.render(messages)?)),
                None => Err(self.nonsense("it has no way to render a conversation")),
            },
        }
    }

    /// Ids of a bare text.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub(crate) fn ids_of(&self, text: &str, deadline: Deadline) -> Result<Vec<u32>, RemoteError> {
        let body = match self.kind {
            Kind::LlamaCpp => {
                json!({"content": text, "add_special": false, "parse_special": false})
            }
            _ => json!({"model": self.model, "prompt": text, "add_special_tokens": false}),
        };
        self.tokens(&body, deadline)
    }

    fn tokens(&self, body: &Value, deadline: Deadline) -> Result<Vec<u32>, RemoteError> {
        let tokens: Tokens = self.post_beside("tokenize", body, deadline)?;
        Ok(tokens.tokens)
    }

    /// The ids of what closes an assistant's turn: the first, as far as a control token does.
    fn closing(&self, deadline: Deadline) -> Result<Vec<u32>, RemoteError> {
        let turns = [
            said("user", "Well?"),
            said("assistant", "Yes."),
            said("user", "Then?"),
        ];
        match self.kind {
            Kind::Vllm => {
                let body = |messages: &[Said], open: bool| {
                    json!({"model": self.model, "messages": messages, "add_generation_prompt": open,
                        "add_special_tokens": false, "chat_template_kwargs": {"enable_thinking": false}})
                };
                let mut said = self.tokens(&body(&turns[..1], true), deadline)?;
                said.extend(self.ids_of("Yes.", deadline)?);
                let whole = self.tokens(&body(&turns[..2], false), deadline)?;
                let rest = whole.strip_prefix(&said[..]).unwrap_or_default();
                Ok(rest.first().copied().into_iter().collect())
            }
            Kind::LlamaCpp => {
                let body =
                    json!({"messages": turns, "chat_template_kwargs": {"enable_thinking": false}});
                let rendered: Rendered = self.post_beside("apply-template", &body, deadline)?;
                let mark = closing(&rendered.prompt, "Yes.", "Then?");
                let body = json!({"content": mark, "add_special": false, "parse_special": true});
                let ids = self.tokens(&body, deadline)?;
                Ok(ids.first().copied().into_iter().collect())
            }
            Kind::Plain => Ok(Vec::new()),
        }
    }

    /// Continues `prefix` by at most `limit` tokens: the text, whether the answer ends behind it, and how
    /// many tokens it is.
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
    ) -> Result<(String, bool, usize), RemoteError> {
        let mut body = json!({"model": self.model, "prompt": prompt(prefix), "max_tokens": limit,
            "temperature": drawing.temperature, "top_p": drawing.top_p, "seed": seed & 0x7fff_ffff});
        let own = match self.kind {
            Kind::Vllm => json!({"top_k": drawing.top_k, "min_p": 0.0, "repetition_penalty": 1.0}),
            Kind::LlamaCpp => {
                json!({"top_k": drawing.top_k, "min_p": 0.0, "repeat_penalty": 1.0, "cache_prompt": true})
            }
            Kind::Plain => json!({}),
        };
        merge(&mut body, own);
        let completion = self.complete(&body, deadline)?;
        let tokens = completion
            .usage
            .as_ref()
            .map_or(limit, |usage| usage.completion_tokens);
        let [choice] = self.choices(completion)?;
        let ended = choice.finish_reason.as_deref() == Some("stop");
        let mut text = choice.text;
        if !ended {
            // A character whose last bytes are still to come is told as this.
            text.truncate(text.trim_end_matches('\u{fffd}').len());
        }
        Ok((text, ended, tokens.min(limit)))
    }

    /// What it thinks of each of `texts` behind `prefix`; where `ends`, of what closes a turn as well, as
    /// a text that is empty is judged by that alone.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub(crate) fn score(
        &self,
        prefix: &Prefix,
        texts: &[&str],
        ends: &[bool],
        deadline: Deadline,
    ) -> Result<Vec<Told>, RemoteError> {
        self.score_by(self.scores, prefix, texts, ends, deadline)
    }

    fn score_by(
        &self,
        way: Scores,
        prefix: &Prefix,
        texts: &[&str],
        ends: &[bool],
        deadline: Deadline,
    ) -> Result<Vec<Told>, RemoteError> {
        match (way, prefix) {
            (Scores::OfPrompt | Scores::Forced, Prefix::Ids(prefix)) => {
                let mut own = Vec::with_capacity(texts.len());
                let mut whole = Vec::with_capacity(texts.len());
                for (text, &ends) in texts.iter().zip(ends) {
                    let ids = match text.is_empty() {
                        true => Vec::new(),
                        false => self.ids_of(text, deadline)?,
                    };
                    let end: &[u32] = if ends || ids.is_empty() {
                        &self.end
                    } else {
                        &[]
                    };
                    if ids.is_empty() && end.is_empty() {
                        return Err(
                            self.nonsense("nobody knows what closes a turn of its template")
                        );
                    }
                    whole.push([prefix, &ids[..], end].concat());
                    own.push(ids);
                }
                let logprobs = match way {
                    Scores::OfPrompt => self.of_prompts(prefix.len(), &whole, deadline)?,
                    _ => whole
                        .iter()
                        .map(|ids| self.forced(prefix.len(), ids, deadline))
                        .collect::<Result<_, _>>()?,
                };
                let told = logprobs.into_iter().zip(own);
                Ok(told
                    .map(|(logprobs, ids)| Told {
                        logprobs,
                        ids: Some(ids),
                    })
                    .collect())
            }
            (Scores::Echo { lists }, Prefix::Text(prefix)) => {
                let mark = self.template.as_ref().map_or("", Template::closing);
                let mut whole = Vec::with_capacity(texts.len());
                for (text, &ends) in texts.iter().zip(ends) {
                    let end = if ends || text.is_empty() { mark } else { "" };
                    if text.is_empty() && end.is_empty() {
                        return Err(
                            self.nonsense("nobody knows what closes a turn of its template")
                        );
                    }
                    whole.push(format!("{prefix}{text}{end}"));
                }
                self.echoed(prefix, &whole, lists, deadline)
            }
            _ => Err(self.nonsense("it tells no log-probabilities")),
        }
    }

    /// All in one request: `prompt_logprobs` of vLLM. 0: of the prompt's own tokens and no others.
    fn of_prompts(
        &self,
        from: usize,
        prompts: &[Vec<u32>],
        deadline: Deadline,
    ) -> Result<Vec<Vec<f64>>, RemoteError> {
        let body = json!({"model": self.model, "prompt": prompts, "max_tokens": 1, "temperature": 0,
            "prompt_logprobs": 0});
        let choices = self.complete(&body, deadline)?.in_order(prompts.len());
        let choices = choices.ok_or_else(|| self.nonsense("not one choice for each prompt"))?;
        let told = choices.iter().zip(prompts);
        told.map(|(choice, ids)| of_ids(&choice.prompt_logprobs, ids, from))
            .collect::<Option<_>>()
            .ok_or_else(|| self.nonsense("it does not tell every token's prompt_logprobs"))
    }

    /// Drawn, but with no choice: a grammar of these tokens, by their ids. What the server tells of each is
    /// the model's own, from before the grammar. It keeps the prefix between the requests.
    fn forced(
        &self,
        from: usize,
        ids: &[u32],
        deadline: Deadline,
    ) -> Result<Vec<f64>, RemoteError> {
        let (prefix, forced) = ids.split_at(from);
        // Behind the last it ends, which it does by the token that closes a turn.
        let ends = self
            .end
            .first()
            .is_some_and(|end| forced.last() == Some(end));
        let written = &forced[..forced.len() - usize::from(ends)];
        let root: Vec<String> = written.iter().map(|id| format!("<[{id}]>")).collect();
        let root = if root.is_empty() {
            "\"\"".to_owned()
        } else {
            root.join(" ")
        };
        let body = json!({"model": self.model, "prompt": prefix, "max_tokens": forced.len(), "temperature": 0,
            "logprobs": 1, "grammar": format!("root ::= {root}"), "cache_prompt": true});
        let [choice] = self.choices(self.complete(&body, deadline)?)?;
        let told = of_forced(&choice.logprobs, forced);
        told.ok_or_else(|| self.nonsense("other tokens than those it was held to"))
    }

    fn echoed(
        &self,
        prefix: &str,
        prompts: &[String],
        lists: bool,
        deadline: Deadline,
    ) -> Result<Vec<Told>, RemoteError> {
        // One token is drawn: of none at all some make an error, others no limit.
        let body = |prompt: Value| {
            json!({"model": self.model, "prompt": prompt, "max_tokens": 1,
            "temperature": 0, "echo": true, "logprobs": 1})
        };
        let choices: Vec<Choice> = match lists {
            true => {
                let completion = self.complete(&body(json!(prompts)), deadline)?;
                let each = completion.in_order(prompts.len());
                each.ok_or_else(|| self.nonsense("not one choice for each prompt"))?
            }
            false => {
                let mut choices = Vec::with_capacity(prompts.len());
                for prompt in prompts {
                    let completion = self.complete(&body(json!(prompt)), deadline)?;
                    let [choice] = self.choices(completion)?;
                    choices.push(choice);
                }
                choices
            }
        };
        let from = prefix.chars().count();
        let told = choices.iter().zip(prompts).map(|(choice, prompt)| {
            choice.text.starts_with(prompt.as_str()).then_some(())?;
            let logprobs = of_text(&choice.logprobs, from, prompt.chars().count())?;
            Some(Told {
                logprobs,
                ids: None,
            })
        });
        told.collect::<Option<_>>()
            .ok_or_else(|| self.nonsense("it does not echo log-probabilities"))
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
        let mut body = json!({"model": self.model, "messages": [said("user", asked)], "max_tokens": 8,
            "temperature": 0});
        let own = match self.kind {
            Kind::LlamaCpp => {
                let quoted: Vec<String> = letters.iter().map(|l| format!("\"{l}\"")).collect();
                json!({"grammar": format!("root ::= {}", quoted.join(" | "))})
            }
            Kind::Vllm => json!({"structured_outputs": {"choice": letters}}),
            Kind::Plain => json!({}),
        };
        merge(&mut body, own);
        let url = format!("{}/chat/completions", self.address.base());
        let completion = self.client.post(&url, &body, deadline)?;
        let [choice] = self.choices(self.read(completion)?)?;
        let content = choice.message.and_then(|message| message.content);
        Ok(crate::judge::named(&content.unwrap_or_default(), count))
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
