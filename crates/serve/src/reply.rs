//! Replies in the format of OpenAI's API, whole or streamed. The field `conclave` extends it, as in
//! the page's library (`web/src/library/openai.ts`).

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::response::sse;
use axum::response::{IntoResponse, Json, Response};
use conclave_member::JudgedToken;
use conclave_rounds::Calls;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::calls::{CallReader, Piece};
use crate::error::ApiError;
use crate::functions;
use crate::streaming::Writer;
use crate::work::{Event, Logprobs, Missing, Timings, Usage};

/// Endpoint that replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Chat,
    Text,
    /// `/v1/responses`, which writes its replies itself.
    Response,
}

/// Fields common to all chunks of a reply.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub kind: Kind,
    pub id: String,
    pub created: u64,
    pub model: String,
    /// The stream ends with the usage.
    pub include_usage: bool,
    /// Form of answers that may call functions.
    pub calls: Option<Arc<Calls>>,
    /// Calls are told as the older `function_call`.
    pub older: bool,
}

impl Head {
    /// Creates the head of a request; `number` is unique.
    pub fn new(
        kind: Kind,
        number: u64,
        model: String,
        include_usage: bool,
        calls: Option<Arc<Calls>>,
    ) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default();
        let prefix = match kind {
            Kind::Chat => "chatcmpl",
            Kind::Text => "cmpl",
            Kind::Response => "resp",
        };
        Self {
            kind,
            id: match kind {
                // Whoever knows it may refer to the response: a keyed hash can't be guessed.
                Kind::Response => format!(
                    "{prefix}_{:016x}{number:x}",
                    RandomState::new().hash_one(now)
                ),
                _ => format!("{prefix}-{:x}-{number:x}", now.as_nanos()),
            },
            created: now.as_secs(),
            model,
            include_usage,
            calls,
            older: false,
        }
    }

    /// Returns the identifier of a choice's call.
    pub fn call_id(&self, choice: usize, call: usize) -> String {
        self.item_id("call", choice * 1000 + call)
    }

    /// Returns the identifier of a part of the reply.
    pub fn item_id(&self, prefix: &str, number: usize) -> String {
        let unique = self.id.split_once(['-', '_']);
        let unique = unique.map_or("", |(_, unique)| unique).replace('-', "");
        format!("{prefix}_{unique}{number:04}")
    }

    /// Returns an object with these choices.
    fn object(&self, chunk: bool, choices: Value) -> Value {
        let object = match (self.kind, chunk) {
            (Kind::Chat, false) => "chat.completion",
            (Kind::Chat, true) => "chat.completion.chunk",
            (Kind::Text | Kind::Response, _) => "text_completion",
        };
        json!({
            "id": self.id,
            "object": object,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        })
    }

    /// Returns a chunk of one choice.
    fn chunk(&self, choice: usize, delta: Delta, finish: Option<&str>, logprobs: Value) -> Value {
        let mut one = match (self.kind, delta) {
            (Kind::Chat, Delta::Text(text)) => {
                json!({ "index": choice, "delta": { "content": text } })
            }
            (Kind::Chat, Delta::Other(delta)) => json!({ "index": choice, "delta": delta }),
            (_, Delta::Text(text)) => json!({ "index": choice, "text": text }),
            (_, Delta::Other(_)) => json!({ "index": choice, "text": "" }),
        };
        one["finish_reason"] = json!(finish);
        one["logprobs"] = logprobs;
        let mut chunk = self.object(true, json!([one]));
        if self.include_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }
}

/// Change of a choice.
enum Delta {
    Text(String),
    /// Object for a chat; nothing for a text.
    Other(Value),
}

/// Finish of a choice whose answer stopped so: complete calls come first, and an incomplete one is
/// cut like any other answer.
fn finish_with(head: &Head, reader: &CallReader, stop: &str) -> &'static str {
    match (reader.is_within(), finish_of(stop)) {
        (true, _) => "length",
        (false, "stop") if reader.calls > 0 && head.older => "function_call",
        (false, "stop") if reader.calls > 0 => "tool_calls",
        (false, finish) => finish,
    }
}

/// Maps a stop reason; any limit (of the client, the method or the context) is `length`.
pub(crate) fn finish_of(stop: &str) -> &'static str {
    match stop {
        "ended" | "stop" | "silence" => "stop",
        _ => "length",
    }
}

fn usage_of(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.answer,
        "total_tokens": usage.prompt + usage.answer,
    })
}

/// Returns the first fields of a choice's `conclave`: the members that were missing, and the one
/// whose log-probabilities these are.
fn told_of(missing: &[Missing], tokens: Option<&Logprobs>) -> Map<String, Value> {
    let mut told = Missing::fields(missing);
    if let Some(Logprobs::Text { member, .. }) = tokens {
        told.insert("logprobs".to_owned(), json!(member));
    }
    told
}

fn logprobs_of(tokens: Option<&Logprobs>) -> Value {
    match tokens {
        None => Value::Null,
        Some(Logprobs::Text { tokens, .. }) => logprobs_of_text(tokens),
        Some(Logprobs::Chat(tokens)) => {
            let content = tokens.iter().map(|token| {
                let mut one = token_of(&token.bytes, token.logprob);
                let likeliest = token.likeliest.iter();
                let likeliest = likeliest.map(|(bytes, logprob)| token_of(bytes, *logprob));
                one["top_logprobs"] = likeliest.collect();
                one
            });
            json!({ "content": content.collect::<Value>(), "refusal": null })
        }
    }
}

fn token_of(bytes: &[u8], logprob: f64) -> Value {
    let text = String::from_utf8_lossy(bytes);
    // JSON has no infinity; OpenAI's API has this number for it.
    json!({ "token": text, "logprob": logprob.max(-9999.0), "bytes": bytes })
}

fn logprobs_of_text(tokens: &[JudgedToken]) -> Value {
    let (mut offsets, mut offset) = (Vec::with_capacity(tokens.len()), 0);
    for token in tokens {
        offsets.push(offset);
        offset += token.text.chars().count();
    }
    let texts = tokens.iter().map(|token| token.text.as_str());
    let logprobs = tokens.iter().map(|token| token.logprob);
    json!({
        "tokens": texts.collect::<Vec<_>>(),
        "token_logprobs": logprobs.collect::<Vec<_>>(),
        // A pass yields only the probabilities of the text's own tokens.
        "top_logprobs": null,
        "text_offset": offsets,
    })
}

/// Collects the reply into one object.
///
/// # Errors
/// The members' error, or 503 if the server ends first.
pub(crate) async fn whole(
    head: Head,
    mut events: UnboundedReceiver<Event>,
) -> Result<Response, ApiError> {
    let mut choices = Vec::new();
    let (mut content, mut segments) = (String::new(), Vec::new());
    let mut times = None;
    while let Some(event) = events.recv().await {
        match event {
            Event::Begun { .. } | Event::Read { .. } | Event::Rendered(_) | Event::Embedded(_) => {}
            Event::Text { text, vote, .. } => {
                content.push_str(&text);
                segments.extend(vote.map(|vote| vote.segment(&text)));
            }
            Event::Over {
                choice,
                stop,
                tokens,
                missing,
                timings,
            } => {
                times = timings;
                let content = std::mem::take(&mut content);
                let (mut one, finish) = match head.kind {
                    Kind::Chat => {
                        let (message, finish) = message_of(&head, choice, &content, stop);
                        (json!({ "index": choice, "message": message }), finish)
                    }
                    _ => (json!({ "index": choice, "text": content }), finish_of(stop)),
                };
                one["finish_reason"] = json!(finish);
                one["logprobs"] = logprobs_of(tokens.as_ref());
                let mut told = told_of(&missing, tokens.as_ref());
                told.insert("stop".to_owned(), json!(stop));
                told.insert("segments".to_owned(), json!(std::mem::take(&mut segments)));
                one["conclave"] = Value::Object(told);
                choices.push(one);
            }
            Event::End(usage) => {
                // As in the page's library, which has a single choice.
                let of_one = match choices.as_mut_slice() {
                    [Value::Object(one)] => one.remove("conclave"),
                    _ => None,
                };
                let mut object = head.object(false, json!(choices));
                object["usage"] = usage_of(usage);
                if let Some(times) = times {
                    object["timings"] = times.json();
                }
                if let Some(of_one) = of_one {
                    object["conclave"] = of_one;
                }
                return Ok(Json(object).into_response());
            }
            Event::Failed(error) => return Err(error),
        }
    }
    Err(ApiError::closing())
}

/// A choice's message and finish.
fn message_of(head: &Head, choice: usize, answer: &str, stop: &str) -> (Value, &'static str) {
    let mut reader = CallReader::new(head.calls.clone());
    let (mut text, mut calls) = (String::new(), Vec::new());
    for piece in reader.push(answer).into_iter().chain(reader.rest()) {
        match piece {
            Piece::Text(more) => text.push_str(&more),
            Piece::Call(name) => calls.push((name, String::new())),
            Piece::Arguments(more) => {
                if let Some((_, arguments)) = calls.last_mut() {
                    arguments.push_str(&more);
                }
            }
            Piece::Called => {}
        }
    }
    let content = match text.is_empty() && !calls.is_empty() {
        true => Value::Null,
        false => json!(text),
    };
    let mut message = json!({ "role": "assistant", "content": content, "refusal": null });
    if head.older {
        if let (Some((name, arguments)), Some(fields)) = (calls.pop(), message.as_object_mut()) {
            fields.extend(functions::call(Some(&name), &arguments));
        }
    } else if !calls.is_empty() {
        let calls = calls.into_iter().enumerate();
        let calls = calls.map(|(call, (name, arguments))| {
            json!({
                "id": head.call_id(choice, call),
                "type": "function",
                "function": { "name": name, "arguments": arguments },
            })
        });
        message["tool_calls"] = calls.collect();
    }
    (message, finish_with(head, &reader, stop))
}

/// Writer of a stream's chunks.
pub(crate) struct Chunks {
    head: Head,
    /// Reader of the current choice.
    reader: CallReader,
    /// Number of calls of it that have begun.
    begun: usize,
    /// Times for the chunk of the usage.
    timings: Option<Timings>,
    over: bool,
}

impl Writer for Chunks {
    fn write(&mut self, event: Option<Event>) -> Vec<sse::Event> {
        let chunks = self.chunks_of(event).into_iter();
        chunks
            .map(|data| sse::Event::default().data(data))
            .collect()
    }

    fn is_over(&self) -> bool {
        self.over
    }
}

impl Chunks {
    /// Creates the writer of a reply.
    pub fn new(head: Head) -> Self {
        Self {
            head,
            reader: CallReader::default(),
            begun: 0,
            timings: None,
            over: false,
        }
    }

    /// Returns the chunks of an event; `None` means that the sender is gone.
    fn chunks_of(&mut self, event: Option<Event>) -> Vec<String> {
        match event {
            Some(Event::Begun { choice }) => {
                self.reader = CallReader::new(self.head.calls.clone());
                self.begun = 0;
                let role = Delta::Other(json!({ "content": "", "role": "assistant" }));
                match self.head.kind {
                    Kind::Chat => {
                        vec![self.head.chunk(choice, role, None, Value::Null).to_string()]
                    }
                    _ => Vec::new(),
                }
            }
            Some(Event::Read { choice, progress }) => {
                let nothing = Delta::Other(json!({}));
                let mut chunk = self.head.chunk(choice, nothing, None, Value::Null);
                chunk["prompt_progress"] = progress;
                vec![chunk.to_string()]
            }
            Some(Event::Rendered(_) | Event::Embedded(_)) => Vec::new(),
            Some(Event::Text { choice, text, vote }) => {
                let pieces = self.reader.push(&text);
                let mut chunks = self.chunks(choice, pieces);
                if let Some(vote) = vote {
                    if chunks.is_empty() {
                        let nothing = Delta::Other(json!({}));
                        chunks.push(self.head.chunk(choice, nothing, None, Value::Null));
                    }
                    chunks[0]["conclave"] = vote.segment(&text);
                }
                chunks.iter().map(Value::to_string).collect()
            }
            Some(Event::Over {
                choice,
                stop,
                tokens,
                missing,
                timings,
            }) => {
                let rest = self.reader.rest();
                let mut chunks = self.chunks(choice, rest);
                let logprobs = logprobs_of(tokens.as_ref());
                let finish = finish_with(&self.head, &self.reader, stop);
                let nothing = Delta::Other(json!({}));
                let mut chunk = self.head.chunk(choice, nothing, Some(finish), logprobs);
                let told = told_of(&missing, tokens.as_ref());
                if !told.is_empty() {
                    chunk["conclave"] = Value::Object(told);
                }
                match timings {
                    Some(timings) if !self.head.include_usage => {
                        chunk["timings"] = timings.json();
                    }
                    timings => self.timings = timings,
                }
                chunks.push(chunk);
                chunks.iter().map(Value::to_string).collect()
            }
            Some(Event::End(usage)) => {
                self.over = true;
                let mut last = Vec::new();
                if self.head.include_usage {
                    let mut chunk = self.head.object(true, json!([]));
                    chunk["usage"] = usage_of(usage);
                    if let Some(timings) = self.timings {
                        chunk["timings"] = timings.json();
                    }
                    last.push(chunk.to_string());
                }
                last.push("[DONE]".to_owned());
                last
            }
            Some(Event::Failed(error)) => {
                self.over = true;
                vec![error.body().to_string()]
            }
            None => {
                self.over = true;
                vec![ApiError::closing().body().to_string()]
            }
        }
    }

    /// Returns a chunk for each part of a choice's answer.
    fn chunks(&mut self, choice: usize, pieces: impl IntoIterator<Item = Piece>) -> Vec<Value> {
        let mut chunks = Vec::new();
        for piece in pieces {
            let delta = match piece {
                Piece::Text(text) => Delta::Text(text),
                Piece::Call(name) if self.head.older => {
                    Delta::Other(functions::call(Some(&name), "").into())
                }
                Piece::Arguments(text) if self.head.older => {
                    Delta::Other(functions::call(None, &text).into())
                }
                Piece::Call(name) => {
                    self.begun += 1;
                    let call = self.begun - 1;
                    Delta::Other(json!({ "tool_calls": [{
                        "index": call,
                        "id": self.head.call_id(choice, call),
                        "type": "function",
                        "function": { "name": name, "arguments": "" },
                    }] }))
                }
                Piece::Arguments(text) => Delta::Other(json!({ "tool_calls": [{
                    "index": self.begun.saturating_sub(1),
                    "function": { "arguments": text },
                }] })),
                Piece::Called => continue,
            };
            chunks.push(self.head.chunk(choice, delta, None, Value::Null));
        }
        chunks
    }
}
