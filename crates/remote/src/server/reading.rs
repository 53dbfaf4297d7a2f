//! Texts and conversations as a server reads them: as ids where it offers them, else as text.

use serde_json::{Value, json};

use super::{Kind, Prefix, Server, said};
use crate::asking::Asking;
use crate::error::RemoteError;
use crate::template::{ChatMessage, closing};
use crate::transport::Transport;
use crate::wire::{Pieces, Rendered, Tokens};

impl Server {
    /// Renders the conversation up to where the answer begins.
    pub(crate) async fn prefix(
        &self,
        messages: &[ChatMessage],
        asking: Asking<'_, impl Transport>,
    ) -> Result<Prefix, RemoteError> {
        let thinking = json!({"enable_thinking": false});
        match self.kind {
            Kind::Vllm => {
                let body = json!({"model": self.model, "messages": messages,
                    "add_generation_prompt": true, "add_special_tokens": false,
                    "chat_template_kwargs": thinking});
                let tokens: Tokens = self.post_beside("tokenize", &body, asking).await?;
                Ok(Prefix::Ids(tokens.tokens))
            }
            Kind::LlamaCpp => {
                let prompt = self.rendered(messages, asking).await?;
                let body = json!({"content": prompt, "add_special": true, "parse_special": true});
                let mut ids = self.tokens(&body, asking).await?;
                // The beginning-of-sequence token may also be in the template.
                if let [first, second, ..] = ids[..]
                    && first == second
                {
                    ids.remove(0);
                }
                Ok(Prefix::Ids(ids))
            }
            Kind::Conclave | Kind::Browser | Kind::Plain => match &self.template {
                Some(template) => Ok(Prefix::Text(template.render(messages)?)),
                None => Ok(Prefix::Text(self.rendered(messages, asking).await?)),
            },
        }
    }

    /// Renders the conversation as text on the server, as llama.cpp's and Conclave's can.
    async fn rendered(
        &self,
        messages: &[ChatMessage],
        asking: Asking<'_, impl Transport>,
    ) -> Result<String, RemoteError> {
        let body = json!({"model": self.model, "messages": messages,
            "chat_template_kwargs": {"enable_thinking": false}});
        let rendered: Rendered = self.post_beside("apply-template", &body, asking).await?;
        Ok(rendered.prompt)
    }

    /// Tokenises a text without special tokens.
    pub(crate) async fn ids_of(
        &self,
        text: &str,
        asking: Asking<'_, impl Transport>,
    ) -> Result<Vec<u32>, RemoteError> {
        let body = match self.kind {
            Kind::LlamaCpp => {
                json!({"content": text, "add_special": false, "parse_special": false})
            }
            _ => json!({"model": self.model, "prompt": text, "add_special_tokens": false}),
        };
        self.tokens(&body, asking).await
    }

    /// Tokenises a text, and tells whether a llama.cpp grammar can name its tokens: it fails on a
    /// token that is part of a character.
    pub(super) async fn nameable(
        &self,
        text: &str,
        asking: Asking<'_, impl Transport>,
    ) -> Result<(Vec<u32>, bool), RemoteError> {
        if self.kind != Kind::LlamaCpp {
            return Ok((self.ids_of(text, asking).await?, true));
        }
        let body = json!({"content": text, "add_special": false, "parse_special": false,
            "with_pieces": true});
        let pieces: Pieces = self.post_beside("tokenize", &body, asking).await?;
        let whole = pieces.tokens.iter().all(|token| token.piece.is_string());
        Ok((pieces.tokens.iter().map(|token| token.id).collect(), whole))
    }

    async fn tokens(
        &self,
        body: &Value,
        asking: Asking<'_, impl Transport>,
    ) -> Result<Vec<u32>, RemoteError> {
        let tokens: Tokens = self.post_beside("tokenize", body, asking).await?;
        Ok(tokens.tokens)
    }

    /// End of an assistant's turn: where the server works with ids, the first id if it is a control
    /// token; else the text.
    pub(super) async fn closing(
        &self,
        asking: Asking<'_, impl Transport>,
    ) -> Result<(Vec<u32>, String), RemoteError> {
        let turns = [
            said("user", "Well?"),
            said("assistant", "Yes."),
            said("user", "Then?"),
        ];
        match self.kind {
            Kind::Vllm => {
                let body = |messages: &[ChatMessage], open: bool| {
                    json!({"model": self.model, "messages": messages, "add_generation_prompt": open,
                        "add_special_tokens": false,
                        "chat_template_kwargs": {"enable_thinking": false}})
                };
                let mut said = self.tokens(&body(&turns[..1], true), asking).await?;
                said.extend(self.ids_of("Yes.", asking).await?);
                let whole = self.tokens(&body(&turns[..2], false), asking).await?;
                let rest = whole.strip_prefix(&said[..]).unwrap_or_default();
                Ok((rest.first().copied().into_iter().collect(), String::new()))
            }
            Kind::LlamaCpp => {
                let prompt = self.rendered(&turns, asking).await?;
                let mark = closing(&prompt, "Yes.", "Then?");
                let body = json!({"content": mark, "add_special": false, "parse_special": true});
                // A mark of several tokens is not a control token of the model, and the server ends
                // at none of them.
                let ids = self.tokens(&body, asking).await?;
                let end = if ids.len() == 1 { ids } else { Vec::new() };
                Ok((end, String::new()))
            }
            Kind::Conclave | Kind::Browser | Kind::Plain => {
                let mark = match &self.template {
                    Some(template) => template.closing().to_owned(),
                    None => {
                        let prompt = self.rendered(&turns, asking).await?;
                        closing(&prompt, "Yes.", "Then?").to_owned()
                    }
                };
                Ok((Vec::new(), mark))
            }
        }
    }
}
