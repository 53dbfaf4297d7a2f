//! Judging a text: how probable each of its tokens is after those before it.

use super::{Session, finite, shared};
use crate::error::ModelError;
use crate::pass::TargetScore;
use crate::slots::{PASS, PREFIX};

impl Session {
    /// Log-probability (ln p) of the last tokens of a text, each after those before it: `[count]`.
    /// These are the tokens after the first `known`, which are at least 1, and the text becomes the
    /// prefix.
    ///
    /// Where the length of a pass changes sums, the text runs in passes of one length from its
    /// first token on, whole passes of the text before are kept, and all tokens that ran are
    /// judged, but for the first. So a text is always as probable, whatever the session has read
    /// before.
    ///
    /// # Errors
    /// [`ModelError::ContextFull`], [`ModelError::NotFinite`], [`ModelError::Order`] if no token is
    /// known, or the backend's.
    pub async fn judge(&mut self, text: &[u32], known: usize) -> Result<Vec<f32>, ModelError> {
        let known_text = text.get(..known).unwrap_or(text);
        if known_text.is_empty() {
            return Err(ModelError::Order("a judged text needs a token before"));
        }
        let context = self.about().context;
        if text.len() > context {
            return Err(self.about().context_full(text.len()));
        }
        let (chunk, mut judged) = match self.model.even_chunk() {
            Some(chunk) => {
                self.cut_evenly(text, known_text.len() - 1, chunk)?;
                (chunk, Vec::new())
            }
            None => {
                self.prefill(known_text).await?;
                self.switch_rope(text.len()).await?;
                self.forget_drafts();
                let first = text.get(known..known + 1).unwrap_or_default();
                let slots = [PREFIX];
                let scores = self
                    .model
                    .scores(&slots[..first.len()], first, true)
                    .await?;
                (self.model.prefill_chunk(), scores)
            }
        };
        let (begin, before) = (self.prefix.len(), judged.len());
        let mut rest = &text[begin..];
        while !rest.is_empty() {
            let (run, later) = rest.split_at(rest.len().min(chunk));
            // Should the pass fail, the state is that of no prefix.
            self.ready = false;
            let state = self.run_after_prefix(run)?;
            self.counters.prefill_tokens += run.len();
            // The state after a token judges the next, also that of the next pass.
            let targets = &rest[1..rest.len().min(run.len() + 1)];
            if !targets.is_empty() {
                let slots: Vec<usize> = (PASS..PASS + targets.len()).collect();
                judged.extend(self.model.scores(&slots, targets, true).await?);
            }
            self.accept(run, state);
            self.model.keep_state(PASS + run.len() - 1)?;
            rest = later;
        }
        self.ready = true;
        if self.model.even_chunk().is_some() {
            self.even = text.len() / chunk * chunk;
        }
        let wanted = (text.len() - begin).saturating_sub(1) + before;
        let logprobs: Option<Vec<f32>> = judged.iter().map(TargetScore::logprob).collect();
        let logprobs = logprobs.filter(|all| all.len() == wanted);
        let logprobs = logprobs.ok_or(ModelError::Order("the pass left too few scores"))?;
        finite(&logprobs)?;
        Ok(logprobs)
    }

    /// Cuts the prefix to the whole passes of `chunk` tokens that a text shares with it within its
    /// first `most`.
    fn cut_evenly(&mut self, text: &[u32], most: usize, chunk: usize) -> Result<(), ModelError> {
        let kept = shared(&self.prefix, text).min(self.even).min(most) / chunk * chunk;
        // A recurrent state stands for all tokens before it, and can't be cut.
        if self.states.is_some() || self.model.rotates_differently(text.len()) {
            self.forget_prefix();
        } else {
            self.forget_drafts();
            self.prefix.truncate(kept);
        }
        self.even = self.prefix.len();
        self.ready = false;
        self.model.rotate_for(text.len())
    }
}
