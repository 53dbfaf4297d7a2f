//! Verdicts of a judge: the letter that its reply names, however much it thinks before.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::{Kind, Server, merge, said};
use crate::asking::Asking;
use crate::error::RemoteError;
use crate::judge::{self, LETTERS};
use crate::transport::Transport;
use crate::wire::Completion;

/// Tokens of a verdict: a letter, perhaps with some words around it.
const VERDICT_TOKENS: usize = 16;

/// The same for a model that thinks first, since its thoughts count. It ends by itself before.
const REASONED_TOKENS: usize = 4096;

/// Reasons of a judge's silence, and what to do.
const THINKS_TOO_LONG: &str = "its thoughts took its whole reply; take a model that thinks \
    less, or turn its thinking off at the server";
const SAYS_NOTHING: &str = "its reply is empty; take another model";
const NAMES_NO_LETTER: &str = "it names no letter where it is asked for one; take another model";

/// A judge's reply.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Verdict {
    /// Index of the letter that it names.
    Letter(usize),
    /// Reason why there is none, and what to do.
    Silence(&'static str),
}

impl Verdict {
    /// Index of the letter that it names, if any.
    pub fn letter(self) -> Option<usize> {
        match self {
            Self::Letter(letter) => Some(letter),
            Self::Silence(_) => None,
        }
    }
}

impl Server {
    /// Asks a question whose answer is one of the first `count` letters.
    pub(crate) async fn choose(
        &self,
        asked: &str,
        count: usize,
        asking: Asking<'_, impl Transport>,
    ) -> Result<Verdict, RemoteError> {
        let letters = &LETTERS[..count.min(LETTERS.len())];
        let letters: Vec<String> = letters.iter().map(|&l| char::from(l).to_string()).collect();
        let mut body =
            json!({"model": self.model, "messages": [said("user", asked)], "temperature": 0});
        let thinking = json!({"enable_thinking": false});
        let own = match self.kind {
            Kind::LlamaCpp => {
                let quoted: Vec<String> = letters.iter().map(|l| format!("\"{l}\"")).collect();
                json!({"grammar": format!("root ::= {}", quoted.join(" | ")),
                    "chat_template_kwargs": thinking})
            }
            Kind::Vllm => {
                json!({"structured_outputs": {"choice": letters}, "chat_template_kwargs": thinking})
            }
            Kind::Browser => json!({"structured_outputs": {"choice": letters}}),
            Kind::Conclave | Kind::Plain => json!({}),
        };
        merge(&mut body, own);
        loop {
            let (completion, tokens) = self.limited(&body, asking).await?;
            let [choice] = self.choices(completion)?;
            let cut = choice.finish_reason.as_deref() == Some("length");
            let content = choice.message.and_then(|message| message.content);
            let content = content.unwrap_or_default();
            if let Some(letter) = judge::letter_in(&content, count) {
                return Ok(Verdict::Letter(letter));
            }
            let only_thought = judge::without_thought(&content).trim().is_empty();
            match (cut, only_thought) {
                (true, true) if tokens < REASONED_TOKENS => {
                    self.reasons.store(true, Ordering::Relaxed);
                }
                (true, true) => return Ok(Verdict::Silence(THINKS_TOO_LONG)),
                (_, true) => return Ok(Verdict::Silence(SAYS_NOTHING)),
                _ => return Ok(Verdict::Silence(NAMES_NO_LETTER)),
            }
        }
    }

    /// Asks for a chat's short answer, limited by the name that the server knows, and at the
    /// server's own temperature if it allows no other. Returns the limit, too.
    async fn limited(
        &self,
        body: &Value,
        asking: Asking<'_, impl Transport>,
    ) -> Result<(Completion, usize), RemoteError> {
        const NAMES: [&str; 2] = ["max_tokens", "max_completion_tokens"];
        const TEMPERATURE: &str = "temperature";
        let known = self.later_limit.load(Ordering::Relaxed);
        let (mut later, mut own) = (known, self.own_temperature.load(Ordering::Relaxed));
        loop {
            let name = NAMES[usize::from(later)];
            let mut body = body.clone();
            // Services that insist on the later name do so for models that think.
            let tokens = match later || self.reasons.load(Ordering::Relaxed) {
                true => REASONED_TOKENS,
                false => VERDICT_TOKENS,
            };
            body[name] = json!(tokens);
            if own && let Some(fields) = body.as_object_mut() {
                fields.remove(TEMPERATURE);
            }
            match self.post("chat/completions", &body, asking).await {
                Err(RemoteError::Refused { why, .. }) if later == known && why.contains(name) => {
                    later = !later;
                }
                Err(RemoteError::Refused { why, .. }) if !own && why.contains(TEMPERATURE) => {
                    own = true;
                }
                outcome => {
                    if outcome.is_ok() {
                        self.later_limit.store(later, Ordering::Relaxed);
                        self.own_temperature.store(own, Ordering::Relaxed);
                    }
                    return outcome.map(|reply| (reply, tokens));
                }
            }
        }
    }
}
