//! Remote members: the protocol of `conclave-remote` over the page's requests. The page
//! fetches this module for the first such member, and for the browser's own language model, which
//! it presents as a server that only chats. Errors have the names of the page's, and say what a
//! visitor can do.

mod failure;
mod wire;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use conclave_ensemble::Candidate;
use conclave_remote::{
    Address, ChatMessage, Drawing, Key, Options, Remote, RemoteError, Server, Template, read_json,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::future_to_promise;

use failure::Failing;
use wire::{PageTransport, Wire};

/// Time that a server has to load its model before it first answers.
const JOINING: Duration = Duration::from_secs(30);

/// Runs when the module is instantiated.
#[wasm_bindgen(start)]
pub fn start() {
    console_error_panic_hook::set_once();
}

/// Server of a member (`RemoteOptions` in `engine.ts`).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Joining {
    /// The member's name, for messages.
    name: String,
    /// `https://host/v1`.
    base: String,
    /// Model at the server; empty for its only one.
    #[serde(default)]
    model: String,
    key: Option<String>,
    /// Format of a turn.
    turn: Option<String>,
    #[serde(default)]
    judge: bool,
    /// Time of a move, in ms.
    timeout: f64,
    /// The server's name in messages, if not its host.
    place: Option<String>,
}

/// A member in its conversation. Moves run on a copy, whose state is taken unless something has
/// happened to the member meanwhile; so a move that was given up is of no consequence.
#[derive(Debug)]
struct Held {
    member: Remote,
    /// Number of changes.
    changes: u64,
}

impl Held {
    fn change(&mut self) -> &mut Remote {
        self.changes += 1;
        &mut self.member
    }
}

/// Remote member. Structured values cross as JSON texts.
#[wasm_bindgen]
#[derive(Debug)]
pub struct RemoteMember {
    held: Rc<RefCell<Held>>,
    failing: Rc<Failing>,
}

#[wasm_bindgen]
impl RemoteMember {
    /// Finds out what a server can do, and makes a member of it.
    pub async fn connect(options: String, wire: Wire) -> Result<Self, JsValue> {
        let joining: Joining = read(&options)?;
        let failing = Failing {
            place: joining.place.clone().unwrap_or_default(),
            name: joining.name.clone(),
        };
        let member = join(joining, &PageTransport(wire)).await;
        let member = member.map_err(|error| failing.thrown(&error))?;
        Ok(Self {
            held: Rc::new(RefCell::new(Held { member, changes: 0 })),
            failing: Rc::new(failing),
        })
    }

    /// Its server, as JSON: `model`, `can`, `note`, `context`, `parameters`, `vocabulary`.
    pub fn about(&self) -> String {
        let held = self.held.borrow();
        let server = held.member.server();
        let facts = server.facts();
        let about = json!({
            "model": server.model(),
            "can": server.abilities().name(),
            "note": server.lack().map_or("", |lack| lack.reason()),
            "context": facts.context,
            "parameters": facts.parameters,
            "vocabulary": facts.vocabulary,
        });
        about.to_string()
    }

    /// Starts a conversation (messages and [`Drawing`] as JSON), without a request. With
    /// `only_judges` it does not draft in it.
    pub fn begin(&self, messages: &str, drawing: &str, only_judges: bool) -> Result<(), JsValue> {
        let messages: Vec<ChatMessage> = read(messages)?;
        let drawing: Drawing = read(drawing)?;
        let mut held = self.held.borrow_mut();
        let member = held.change();
        member.only_judge(only_judges);
        member.begin(messages, drawing);
        Ok(())
    }

    /// Lets the server render the conversation, which the first move does otherwise.
    #[wasm_bindgen(unchecked_return_type = "Promise<void>")]
    pub fn read(&self, wire: Wire) -> js_sys::Promise {
        self.moves(async move |member| {
            member.read_by(&PageTransport(wire)).await;
            Ok(JsValue::UNDEFINED)
        })
    }

    /// Returns whether it drafts.
    pub fn drafts(&self) -> bool {
        self.held.borrow().member.drafts()
    }

    /// Draft of at most `tokens` tokens, as JSON; undefined if it abstains.
    #[wasm_bindgen(unchecked_return_type = "Promise<string | undefined>")]
    pub fn draft(&self, tokens: u32, wire: Wire) -> js_sys::Promise {
        self.moves(async move |member| {
            let drafted = member
                .draft_by(&PageTransport(wire), tokens as usize)
                .await?;
            let (text, ended) = (drafted.text, drafted.ended);
            let draft = json!({"text": text, "ended": ended, "tokens": drafted.tokens});
            Ok(draft.to_string().into())
        })
    }

    /// Scores of candidates (JSON), as JSON; undefined if it abstains.
    #[wasm_bindgen(unchecked_return_type = "Promise<string | undefined>")]
    pub fn verify(
        &self,
        candidates: &str,
        score_end: bool,
        wire: Wire,
    ) -> Result<js_sys::Promise, JsValue> {
        let candidates: Vec<Candidate> = read(candidates)?;
        Ok(self.moves(async move |member| {
            let transport = PageTransport(wire);
            let row = member.verify_by(&transport, &candidates, score_end).await?;
            let score = |one: &conclave_remote::Verified| {
                let mut score = json!(one.score);
                score["tokens"] = json!(one.tokens);
                score
            };
            let row: Vec<Value> = row.iter().map(score).collect();
            Ok(Value::from(row).to_string().into())
        }))
    }

    /// Appends a candidate of the last `verify` to the answer.
    pub fn keep(&self, winner: usize) {
        self.held.borrow_mut().change().keep(winner);
    }

    /// Appends a segment that was accepted earlier.
    pub fn take(&self, text: &str) {
        self.held.borrow_mut().change().take(text);
    }

    /// Drops the conversation.
    pub fn release(&self) {
        self.held.borrow_mut().change().release();
    }

    /// Makes a move; undefined if it failed for this round only.
    fn moves(
        &self,
        work: impl AsyncFnOnce(&mut Remote) -> Result<JsValue, RemoteError> + 'static,
    ) -> js_sys::Promise {
        let (held, failing) = (Rc::clone(&self.held), Rc::clone(&self.failing));
        future_to_promise(async move {
            let (mut member, changes) = {
                let mut held = held.borrow_mut();
                held.changes += 1;
                (held.member.clone(), held.changes)
            };
            let outcome = work(&mut member).await;
            let mut held = held.borrow_mut();
            if held.changes == changes {
                held.member = member;
            }
            match outcome {
                Err(error) if error.passes() => Ok(JsValue::UNDEFINED),
                outcome => outcome.map_err(|error| failing.thrown(&error)),
            }
        })
    }
}

async fn join(joining: Joining, transport: &PageTransport) -> Result<Remote, RemoteError> {
    let address = Address::read(&format!("{}#{}", joining.base, joining.model))?;
    let options = Options {
        key: joining.key.as_deref().map(Key::new).transpose()?,
        template: joining.turn.as_deref().map(Template::turns).transpose()?,
        patience: Duration::from_secs_f64(joining.timeout.clamp(0.0, 1e9) / 1e3),
        joining: JOINING,
        only_judges: joining.judge,
    };
    let server = Server::connect_by(transport, address, options).await?;
    Ok(Remote::new(&joining.name, server))
}

/// A value that the page hands over as JSON, in which half a surrogate pair is U+FFFD.
fn read<T: DeserializeOwned>(text: &str) -> Result<T, JsValue> {
    let value = read_json(text.as_bytes()).and_then(serde_json::from_value);
    value.map_err(|error| {
        let message = format!("What the page handed over is not of its type: {error}.");
        failure::thrown("Settings", &message)
    })
}
