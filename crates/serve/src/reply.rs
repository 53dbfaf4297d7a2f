//! Replies in the format of OpenAI's API, whole or streamed. The field `conclave` extends it, as in
//! the page's library (`web/src/library/openai.ts`).

use std::convert::Infallible;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Json, Response};
use conclave_member::JudgedToken;
use futures_lite::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::error::ApiError;
use crate::work::{Event, Missing, Usage};

/// Endpoint that replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Chat,
    Text,
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
}

impl Head {
    /// Creates the head of a request; `number` is unique.
    pub fn new(kind: Kind, number: u64, model: String, include_usage: bool) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default();
        let prefix = match kind {
            Kind::Chat => "chatcmpl",
            Kind::Text => "cmpl",
        };
        Self {
            kind,
            id: format!("{prefix}-{:x}-{number:x}", now.as_nanos()),
            created: now.as_secs(),
            model,
            include_usage,
        }
    }

    /// Returns an object with these choices.
    fn object(&self, chunk: bool, choices: Value) -> Value {
        let object = match (self.kind, chunk) {
            (Kind::Chat, false) => "chat.completion",
            (Kind::Chat, true) => "chat.completion.chunk",
            (Kind::Text, _) => "text_completion",
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
    fn chunk(
        &self,
        choice: usize,
        text: Option<&str>,
        finish: Option<&str>,
        logprobs: Value,
    ) -> Value {
        let mut one = match self.kind {
            Kind::Chat => {
                let delta = match text {
                    Some(text) => json!({ "content": text }),
                    None => json!({}),
                };
                json!({ "index": choice, "delta": delta })
            }
            Kind::Text => json!({ "index": choice, "text": text.unwrap_or_default() }),
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

/// Maps a stop reason; any limit (of the client, the method or the context) is `length`.
fn finish_of(stop: &str) -> &'static str {
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

/// Log-probabilities of `tokens`, which begin `offset` characters into the text.
fn logprobs_of(tokens: Option<&[JudgedToken]>, mut offset: usize) -> Value {
    let Some(tokens) = tokens else {
        return Value::Null;
    };
    let mut offsets = Vec::with_capacity(tokens.len());
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
    while let Some(event) = events.recv().await {
        match event {
            Event::Begun { .. } | Event::Rendered(_) => {}
            Event::Text { text, vote, .. } => {
                content.push_str(&text);
                segments.extend(vote.map(|vote| vote.segment(&text)));
            }
            Event::Over {
                choice,
                stop,
                tokens,
                missing,
            } => {
                let content = std::mem::take(&mut content);
                let mut one = match head.kind {
                    Kind::Chat => {
                        let message =
                            json!({ "role": "assistant", "content": content, "refusal": null });
                        json!({ "index": choice, "message": message })
                    }
                    Kind::Text => json!({ "index": choice, "text": content }),
                };
                one["finish_reason"] = json!(finish_of(stop));
                one["logprobs"] = logprobs_of(tokens.as_deref(), 0);
                let mut told = Missing::fields(&missing);
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

/// Time a stream waits for the first event before it sends headers. Errors within it set the
/// status; later ones are events of the stream.
const AT_ONCE: Duration = Duration::from_millis(500);

/// Interval of comments in an idle stream; proxies time out after a minute.
const SIGN_OF_LIFE: Duration = Duration::from_secs(10);

/// Streams the reply in chunks. Headers and a comment go out within [`AT_ONCE`], however long the
/// prompt takes.
///
/// # Errors
/// The members' error before that, or 503 if the server ends first.
pub(crate) async fn streamed(
    head: Head,
    mut events: UnboundedReceiver<Event>,
) -> Result<Response, ApiError> {
    let first = match tokio::time::timeout(AT_ONCE, events.recv()).await {
        Ok(Some(Event::Failed(error))) => return Err(error),
        Ok(None) => return Err(ApiError::closing()),
        Ok(first) => first,
        Err(_) => None,
    };
    let mut stream = Stream {
        head,
        events: Some(events),
        due: Vec::new(),
    };
    if first.is_some() {
        stream.due = stream.chunks_of(first);
    }
    let chunks = stream::unfold(stream, |mut stream| async {
        let data = stream.next().await?;
        Some((
            Ok::<_, Infallible>(sse::Event::default().data(data)),
            stream,
        ))
    });
    let begun = stream::once(Ok(sse::Event::default().comment("")));
    let alive = KeepAlive::new().interval(SIGN_OF_LIFE);
    let reply = Sse::new(begun.chain(chunks)).keep_alive(alive);
    Ok(([("x-accel-buffering", "no")], reply).into_response())
}

/// State of a stream.
struct Stream {
    head: Head,
    /// `None` after the last event.
    events: Option<UnboundedReceiver<Event>>,
    /// Chunks to send next, in reverse order.
    due: Vec<String>,
}

impl Stream {
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(data) = self.due.pop() {
                return Some(data);
            }
            let event = self.events.as_mut()?.recv().await;
            self.due = self.chunks_of(event);
            self.due.reverse();
        }
    }

    /// Returns the chunks of an event; `None` means that the sender is gone.
    fn chunks_of(&mut self, event: Option<Event>) -> Vec<String> {
        match event {
            Some(Event::Begun { choice }) if self.head.kind == Kind::Chat => {
                let mut chunk = self.head.chunk(choice, Some(""), None, Value::Null);
                chunk["choices"][0]["delta"]["role"] = json!("assistant");
                vec![chunk.to_string()]
            }
            Some(Event::Begun { .. } | Event::Rendered(_)) => Vec::new(),
            Some(Event::Text { choice, text, vote }) => {
                let mut chunk = self.head.chunk(choice, Some(&text), None, Value::Null);
                if let Some(vote) = vote {
                    chunk["conclave"] = vote.segment(&text);
                }
                vec![chunk.to_string()]
            }
            Some(Event::Over {
                choice,
                stop,
                tokens,
                missing,
            }) => {
                let logprobs = logprobs_of(tokens.as_deref(), 0);
                let mut chunk = self
                    .head
                    .chunk(choice, None, Some(finish_of(stop)), logprobs);
                let told = Missing::fields(&missing);
                if !told.is_empty() {
                    chunk["conclave"] = Value::Object(told);
                }
                vec![chunk.to_string()]
            }
            Some(Event::End(usage)) => {
                self.events = None;
                let mut last = Vec::new();
                if self.head.include_usage {
                    let mut chunk = self.head.object(true, json!([]));
                    chunk["usage"] = usage_of(usage);
                    last.push(chunk.to_string());
                }
                last.push("[DONE]".to_owned());
                last
            }
            Some(Event::Failed(error)) => {
                self.events = None;
                vec![error.body().to_string()]
            }
            None => {
                self.events = None;
                vec![ApiError::closing().body().to_string()]
            }
        }
    }
}
