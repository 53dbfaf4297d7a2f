//! Replies of `/v1/responses`, whole or as the events that OpenAI's clients expect. Both come from
//! one account of the answer's items.

use std::sync::Arc;

use axum::response::sse;
use axum::response::{IntoResponse, Json, Response};
use conclave_member::Message;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::calls::{CallReader, Piece};
use crate::error::ApiError;
use crate::recent::{self, Recent};
use crate::reply::{Head, finish_of};
use crate::streaming::Writer;
use crate::work::{Event, Missing};

/// Account of an answer: the response so far, and its open item.
pub(crate) struct Items {
    head: Head,
    /// Fields of the response.
    response: Map<String, Value>,
    output: Vec<Value>,
    /// Text of the open item: a message's, or a call's arguments.
    open: Option<String>,
    reader: CallReader,
    segments: Vec<Value>,
    /// Number of the next event.
    number: u64,
    over: bool,
    /// Keeps the response with its conversation, unless the client has asked not to.
    keep: Option<(Arc<Recent>, Vec<Message>)>,
}

/// Collects the reply into one object.
///
/// # Errors
/// The members' error, or 503 if the server ends first.
pub(crate) async fn whole(
    mut items: Items,
    mut events: UnboundedReceiver<Event>,
) -> Result<Response, ApiError> {
    while let Some(event) = events.recv().await {
        if let Event::Failed(error) = event {
            return Err(error.of_text_format());
        }
        items.tell(Some(event));
        if items.over {
            return Ok(Json(items.response).into_response());
        }
    }
    Err(ApiError::closing())
}

impl Writer for Items {
    fn write(&mut self, event: Option<Event>) -> Vec<sse::Event> {
        let told = self.tell(event).into_iter();
        told.map(|one| {
            let kind = one["type"].as_str().unwrap_or_default();
            sse::Event::default().event(kind).data(one.to_string())
        })
        .collect()
    }

    fn is_over(&self) -> bool {
        self.over
    }
}

impl Items {
    /// Begins an answer to the conversation `input`, kept as one of the `recent` if `store` is true
    /// in `echo`, the options that the response repeats.
    pub fn new(
        head: Head,
        echo: Map<String, Value>,
        input: Vec<Message>,
        recent: &Arc<Recent>,
    ) -> Self {
        let stores = echo.get("store").is_some_and(|store| *store == true);
        let mut response = Map::new();
        for (name, value) in [
            ("id", json!(head.id)),
            ("object", json!("response")),
            ("created_at", json!(head.created)),
            ("status", json!("in_progress")),
            ("error", Value::Null),
            ("incomplete_details", Value::Null),
            ("model", json!(head.model)),
            ("output", json!([])),
            ("usage", Value::Null),
        ] {
            response.insert(name.to_owned(), value);
        }
        response.extend(echo);
        Self {
            reader: CallReader::new(head.calls.clone()),
            head,
            response,
            output: Vec::new(),
            open: None,
            segments: Vec::new(),
            number: 0,
            over: false,
            keep: stores.then(|| (Arc::clone(recent), input)),
        }
    }

    /// Takes an event of the members; returns the events that tell it.
    fn tell(&mut self, event: Option<Event>) -> Vec<Value> {
        let mut told = Vec::new();
        match event {
            Some(Event::Begun { .. }) => {
                for kind in ["response.created", "response.in_progress"] {
                    let response = self.response.clone();
                    self.push(&mut told, kind, json!({ "response": response }));
                }
            }
            Some(Event::Read { .. } | Event::Rendered(_) | Event::Embedded(_)) => {}
            Some(Event::Text { text, vote, .. }) => {
                self.segments.extend(vote.map(|vote| vote.segment(&text)));
                for piece in self.reader.push(&text) {
                    self.take(&mut told, piece);
                }
            }
            Some(Event::Over { stop, missing, .. }) => {
                for piece in self.reader.rest() {
                    self.take(&mut told, piece);
                }
                let cut = finish_of(stop) == "length" || self.reader.is_within();
                if self.output.is_empty() {
                    // An answer without text is still a message.
                    self.take(&mut told, Piece::Text(String::new()));
                }
                self.close(&mut told, if cut { "incomplete" } else { "completed" });
                if cut {
                    let why = json!({ "reason": "max_output_tokens" });
                    self.response.insert("incomplete_details".to_owned(), why);
                }
                let status = if cut { "incomplete" } else { "completed" };
                self.response.insert("status".to_owned(), json!(status));
                let mut about = Missing::fields(&missing);
                about.insert("stop".to_owned(), json!(stop));
                let segments = std::mem::take(&mut self.segments);
                about.insert("segments".to_owned(), json!(segments));
                self.response
                    .insert("conclave".to_owned(), Value::Object(about));
            }
            Some(Event::End(usage)) => {
                let usage = json!({
                    "input_tokens": usage.prompt,
                    "input_tokens_details": { "cached_tokens": 0 },
                    "output_tokens": usage.answer,
                    "output_tokens_details": { "reasoning_tokens": 0 },
                    "total_tokens": usage.prompt + usage.answer,
                });
                self.response.insert("usage".to_owned(), usage);
                let output = std::mem::take(&mut self.output);
                self.response.insert("output".to_owned(), json!(output));
                if let Some((recent, input)) = self.keep.take() {
                    let id = self.head.id.clone();
                    recent.keep(recent::Response { id, input, output });
                }
                let kind = match self.response["status"] == "incomplete" {
                    true => "response.incomplete",
                    false => "response.completed",
                };
                let response = self.response.clone();
                self.push(&mut told, kind, json!({ "response": response }));
                self.over = true;
            }
            Some(Event::Failed(error)) => {
                self.fail(&mut told, error.of_text_format());
            }
            None => self.fail(&mut told, ApiError::closing()),
        }
        told
    }

    /// Ends the answer with an error.
    fn fail(&mut self, told: &mut Vec<Value>, error: ApiError) {
        let code = error.code.unwrap_or("server_error");
        let why = json!({ "code": code, "message": error.message });
        self.response.insert("error".to_owned(), why);
        self.response.insert("status".to_owned(), json!("failed"));
        let response = self.response.clone();
        self.push(told, "response.failed", json!({ "response": response }));
        self.over = true;
    }

    /// Adds an event.
    fn push(&mut self, told: &mut Vec<Value>, kind: &str, fields: Value) {
        let mut event = json!({ "type": kind, "sequence_number": self.number });
        if let (Some(event), Value::Object(fields)) = (event.as_object_mut(), fields) {
            event.extend(fields);
        }
        self.number += 1;
        told.push(event);
    }

    /// Adds an event of the last item.
    fn push_of_item(&mut self, told: &mut Vec<Value>, kind: &str, mut fields: Value) {
        let index = self.output.len().saturating_sub(1);
        fields["output_index"] = json!(index);
        if fields.get("item").is_none() {
            fields["item_id"] = self.output[index]["id"].clone();
        }
        self.push(told, kind, fields);
    }

    /// Begins an item.
    fn open(&mut self, told: &mut Vec<Value>, item: Value) {
        self.close(told, "completed");
        self.output.push(item.clone());
        self.open = Some(String::new());
        self.push_of_item(told, "response.output_item.added", json!({ "item": item }));
    }

    fn is_message(&self) -> bool {
        self.open.is_some()
            && self
                .output
                .last()
                .is_some_and(|last| last["type"] == "message")
    }

    fn take(&mut self, told: &mut Vec<Value>, piece: Piece) {
        let number = self.output.len();
        match piece {
            Piece::Text(text) => {
                if !self.is_message() {
                    let item = json!({
                        "id": self.head.item_id("msg", number), "type": "message",
                        "status": "in_progress", "role": "assistant", "content": [],
                    });
                    self.open(told, item);
                    let part = json!({ "content_index": 0, "part": text_part("") });
                    self.push_of_item(told, "response.content_part.added", part);
                }
                if !text.is_empty() {
                    let delta = json!({ "content_index": 0, "delta": text, "logprobs": [] });
                    self.push_of_item(told, "response.output_text.delta", delta);
                }
                self.open.get_or_insert_default().push_str(&text);
            }
            Piece::Call(name) => {
                let item = json!({
                    "id": self.head.item_id("fc", number), "type": "function_call",
                    "status": "in_progress", "call_id": self.head.call_id(0, number),
                    "name": name, "arguments": "",
                });
                self.open(told, item);
            }
            Piece::Arguments(text) => {
                let delta = json!({ "delta": text });
                self.push_of_item(told, "response.function_call_arguments.delta", delta);
                self.open.get_or_insert_default().push_str(&text);
            }
            Piece::Called => self.close(told, "completed"),
        }
    }

    /// Ends the open item, if there is one.
    fn close(&mut self, told: &mut Vec<Value>, status: &str) {
        let is_message = self.is_message();
        let Some(text) = self.open.take() else {
            return;
        };
        if is_message {
            let done = json!({ "content_index": 0, "text": text, "logprobs": [] });
            self.push_of_item(told, "response.output_text.done", done);
            let part = json!({ "content_index": 0, "part": text_part(&text) });
            self.push_of_item(told, "response.content_part.done", part);
        }
        let Some(item) = self.output.last_mut() else {
            return;
        };
        item["status"] = json!(status);
        match is_message {
            true => item["content"] = json!([text_part(&text)]),
            false => item["arguments"] = json!(text),
        }
        let item = item.clone();
        if !is_message {
            let done = json!({ "arguments": text, "name": item["name"] });
            self.push_of_item(told, "response.function_call_arguments.done", done);
        }
        self.push_of_item(told, "response.output_item.done", json!({ "item": item }));
    }
}

fn text_part(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })
}
