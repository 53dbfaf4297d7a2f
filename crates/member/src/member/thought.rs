//! Thinking aloud before an answer.

use super::Member;
use crate::error::MemberError;
use crate::thinking::{Thinking, Thought};

/// Most tokens of a thought, which also takes at most half of the remaining context.
const MAX_THOUGHT_TOKENS: usize = 1024;

/// Tokens of a thought between two calls of the listener.
const THOUGHT_AT_ONCE: usize = 32;

/// Tokens enough to contain the mark that opens a thought.
const MARK_TOKENS: usize = 8;

impl Member {
    /// Thinks aloud after the conversation of [`begin`](Self::begin), where the model can and
    /// [`Thinking`] allows it, until the thought ends; at most 1,024 tokens and half of the
    /// remaining context. After every few tokens `go_on` receives the new text and returns whether
    /// to continue. Rounds begin after the thought. The next conversation omits it, as templates
    /// do.
    ///
    /// # Errors
    /// The tokenizer's or the backend's.
    pub async fn think_while(
        &mut self,
        mut go_on: impl AsyncFnMut(&str) -> bool,
    ) -> Result<Thought, MemberError> {
        let mut thought = Thought::default();
        let Some(marks) = self
            .marks
            .as_ref()
            .filter(|_| self.thinking != Thinking::Off)
        else {
            return Ok(thought);
        };
        let left = self.about().context - self.session.prefix().len();
        let most = MAX_THOUGHT_TOKENS.min(left / 2);
        let ends = self.tokenizer.end_ids();
        let mut reported = 0;
        let (mut decoder, mut decoded) = (self.tokenizer.decoder(), String::new());
        let mut begun = self.open;
        let mut closed = false;
        while !closed && thought.tokens < most {
            let at_once = if begun { THOUGHT_AT_ONCE } else { MARK_TOKENS };
            let limit = at_once.min(most - thought.tokens);
            let before = self.sampler.clone();
            let draft = self.session.draft(limit, &mut self.sampler, ends).await?;
            let mut skipped = 0;
            if !begun {
                let Some(opened) = marks.opening(&self.tokenizer, &draft.tokens) else {
                    // It answers at once: rounds use the random numbers they would have used.
                    self.sampler = before;
                    return Ok(thought);
                };
                (begun, skipped) = (true, opened);
            }
            let rest = &draft.tokens[skipped..];
            let end = marks.closing(&mut decoder, rest, &mut decoded);
            closed = end.is_some();
            let kept = skipped + end.unwrap_or(rest.len());
            thought.tokens += kept;
            self.shown = None;
            self.open = !closed;
            if kept > 0 {
                self.session.go_on(&draft.tokens[..kept]).await?;
            }
            thought.text = marks.without_marks(&decoded).to_owned();
            let news = thought.text.get(reported..).unwrap_or_default().to_owned();
            reported = thought.text.len().max(reported);
            if !go_on(&news).await {
                thought.stopped = true;
                break;
            }
            if draft.ended {
                break;
            }
        }
        if closed {
            let gap = marks.gap(&self.tokenizer)?;
            self.append(gap).await?;
        } else if !thought.stopped {
            self.end_thought().await?;
        }
        Ok(thought)
    }

    /// Closes an open thought as the model would have.
    pub(super) async fn end_thought(&mut self) -> Result<(), MemberError> {
        if let Some(marks) = self.marks.as_ref().filter(|_| self.open) {
            let ending = marks.ending(&self.tokenizer)?;
            self.append(ending).await?;
            self.open = false;
        }
        Ok(())
    }

    /// Appends tokens to the prefix that are not text of the conversation.
    pub(super) async fn append(&mut self, tokens: Vec<u32>) -> Result<(), MemberError> {
        let longer = [self.session.prefix(), tokens.as_slice()].concat();
        self.session.prefill(&longer).await?;
        self.shown = None;
        self.ids = longer;
        Ok(())
    }
}
