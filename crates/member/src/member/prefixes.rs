//! Prefixes that outlive their conversation: kept beside the session, or given away.

use conclave_model::Saved;
use conclave_model::states::OPENING;
use conclave_text::{Message, Prompt, Shown};

use super::Member;
use crate::error::MemberError;
use crate::kept::{KeptPrefix, MIN_REUSED_TOKENS};

impl Member {
    /// The ids of a prompt given the prefix that spares most, including ids of text already in that
    /// prefix; and the index of that kept prefix, `None` for the present one.
    pub(super) fn nearest(
        &self,
        prompt: &Prompt,
    ) -> Result<(Vec<u32>, Option<usize>), MemberError> {
        let mut plain: Option<Vec<u32>> = None;
        // Ids are never merged across a segment's boundary, so an answer in the prefix has other
        // ids than its text in a prompt: continue after it.
        let mut continued = |shown: &Option<Shown>, ids: &[u32]| -> Result<Vec<u32>, MemberError> {
            if let Some(shown) = shown
                && let Some(beyond) = self.tokenizer.encode_beyond(shown, prompt)?
            {
                return Ok([ids, &beyond].concat());
            }
            match &plain {
                Some(plain) => Ok(plain.clone()),
                None => Ok(plain.insert(self.tokenizer.encode_prompt(prompt)?).clone()),
            }
        };
        let mut tokens = continued(&self.shown, &self.ids)?;
        let mut least = tokens.len() - self.session.keeps(&tokens);
        let mut nearest = None;
        for (index, kept) in self.kept.all().enumerate() {
            let its = continued(&kept.shown, &kept.ids)?;
            let left = its.len() - self.session.keeps_of(&kept.saved, &its);
            if left + MIN_REUSED_TOKENS < least {
                (tokens, least, nearest) = (its, left, Some(index));
            }
        }
        Ok((tokens, nearest))
    }

    /// Switches to a kept prefix, or prepares the present one for a conversation of these ids.
    /// Keeps the present prefix if it belongs to another conversation.
    pub(super) async fn turn_to(
        &mut self,
        kept: Option<usize>,
        tokens: &[u32],
    ) -> Result<(), MemberError> {
        // First, since inserting a prefix moves the others.
        let kept = kept.and_then(|index| self.kept.take(index));
        let stays = self.session.keeps(tokens);
        // A repeated answer, or one without its thought, is the same conversation.
        let other = kept.is_some() || stays + OPENING < self.asked;
        let lost = self.session.prefix().len() - stays;
        if other && lost > MIN_REUSED_TOKENS {
            self.keep_apart().await?;
        }
        if let Some(kept) = kept {
            self.session.restore(&kept.saved)?;
            (self.shown, self.ids) = (kept.shown, kept.ids);
        }
        Ok(())
    }

    /// Maximum bytes of earlier conversations.
    pub(super) fn room_for_kept(&self) -> usize {
        let cache = self.session.bytes_apart(self.about().context);
        self.kept.room(cache.unwrap_or_default())
    }

    /// Keeps a copy of the present prefix, if memory allows.
    pub(super) async fn keep_apart(&mut self) -> Result<(), MemberError> {
        let room = self.room_for_kept();
        let bytes = self.session.bytes_apart(self.session.prefix().len());
        if bytes.is_none_or(|bytes| bytes > room) {
            return Ok(());
        }
        if let Some(saved) = self.session.save(usize::MAX).await? {
            let (shown, ids) = (self.shown.clone(), self.ids.clone());
            self.kept.put(KeptPrefix { saved, shown, ids }, room);
        }
        Ok(())
    }

    /// Sets the maximum bytes of earlier conversations, which resume where they were; 0 keeps none.
    /// By default as much as the KV cache, up to 64 MiB. Beyond that, or beyond eight, the least
    /// recently used is evicted.
    pub fn set_room_for_kept(&mut self, bytes: usize) {
        self.kept.set_room(bytes);
    }

    /// The key of a conversation's system prompt for storing its prefix beyond this member's life:
    /// bytes that identify the model, its weights and the prompt's tokens, as rendered before any
    /// question (a template may add a system prompt of its own where the conversation has none).
    /// `None` where nothing precedes the question, or where it is too short to matter or too long
    /// for the context. From now on [`give_system`](Self::give_system) returns that prefix.
    ///
    /// # Errors
    /// The template's or the tokenizer's.
    pub fn system_key(&mut self, messages: &[Message]) -> Result<Option<Vec<u8>>, MemberError> {
        self.system.clear();
        let system = messages.first().filter(|first| first.role == "system");
        // The common beginning of two different questions' prompts belongs to the system prompt.
        let of = |question| {
            let asked = system
                .cloned()
                .into_iter()
                .chain([Message::new("user", question)]);
            let prompt = self
                .template
                .render_adapted(&asked.collect::<Vec<_>>(), true)?;
            self.tokenizer.encode_prompt(&prompt)
        };
        let (one, other) = (of("0")?, of("Z")?);
        let shared = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
        let bytes = self.session.bytes_apart(shared);
        if shared < MIN_REUSED_TOKENS || bytes.is_none_or(|bytes| bytes > self.room_for_kept()) {
            return Ok(None);
        }
        self.system.extend_from_slice(&one[..shared]);
        let mut key = self.session.fingerprint().to_le_bytes().to_vec();
        for token in &self.system {
            key.extend_from_slice(&token.to_le_bytes());
        }
        Ok(Some(key))
    }

    /// The prefix of the system prompt of the last [`system_key`](Self::system_key), for
    /// [`take_prefix`](Self::take_prefix) in another visit; it depends on that prompt alone. `None`
    /// where the conversation begins otherwise, or no prefix can be given away.
    ///
    /// # Errors
    /// The backend's.
    pub async fn give_system(&mut self) -> Result<Option<Vec<u8>>, MemberError> {
        if self.system.is_empty() || !self.session.prefix().starts_with(&self.system) {
            return Ok(None);
        }
        let saved = self.session.save(self.system.len()).await?;
        let worth = saved.filter(|saved| saved.tokens().len() >= MIN_REUSED_TOKENS);
        Ok(worth.map(|saved| saved.to_bytes()))
    }

    /// Keeps a prefix from [`give_system`](Self::give_system), for conversations that begin with
    /// it.
    ///
    /// # Errors
    /// [`ModelError::Saved`](conclave_model::ModelError::Saved) if it is damaged or of another
    /// model.
    pub fn take_prefix(&mut self, bytes: &[u8]) -> Result<(), MemberError> {
        let saved = Saved::from_bytes(bytes)?;
        self.session.check(&saved)?;
        let room = self.room_for_kept().max(saved.bytes());
        let (shown, ids) = (None, Vec::new());
        self.kept.put(KeptPrefix { saved, shown, ids }, room);
        Ok(())
    }
}
