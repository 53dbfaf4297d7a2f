//! A running text on one model: prefix, drafts, candidates in line, and what is kept.
//!
//! Nothing of the prefix is ever run twice. Rows of the KV cache beyond the
//! prefix are scratch: a draft writes there, then the candidates in line, and
//! [`keep`](Session::keep) turns the winner's rows into prefix.

use serde::Serialize;

use crate::error::ModelError;
use crate::load::{About, Model};
use crate::pass::{Pass, TargetScore, log_sum_exp};
use crate::sampling::Sampler;

/// Tokens of a prompt run in one pass.
const PREFILL_CHUNK: usize = 256;

/// Tokens that went through the model, since it was loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counters {
    /// Tokens in the prefix now.
    pub prefix: usize,
    /// Run as prompt.
    pub prefill_tokens: usize,
    /// Run while drafting.
    pub draft_tokens: usize,
    /// Run while verifying in line.
    pub verify_tokens: usize,
}

/// What a member drafted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// Token ids, without the end token.
    pub tokens: Vec<u32>,
    /// The end token was drawn after them.
    pub ended: bool,
}

/// A candidate's score by one verifier, in its own tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Score {
    /// Mean raw logit of the candidate's tokens.
    pub mean_logit: f64,
    /// Mean ln p of the candidate's tokens.
    pub mean_logprob: f64,
    /// Number of tokens.
    pub tokens: usize,
}

/// The state of one text on one model.
#[derive(Debug)]
pub struct Session {
    model: Model,
    prefix: Vec<u32>,
    /// Logits after the last token of the prefix, `[vocabulary]`; empty before the first.
    next: Vec<f32>,
    /// Candidates of the last verify pass, with the pass's index of their first token.
    in_line: Option<Vec<(usize, Vec<u32>)>>,
    counters: Counters,
}

impl Session {
    /// A session with an empty prefix.
    pub fn new(model: Model) -> Self {
        Self {
            model,
            prefix: Vec::new(),
            next: Vec::new(),
            in_line: None,
            counters: Counters::default(),
        }
    }

    /// What the model is.
    pub fn about(&self) -> &About {
        self.model.about()
    }

    /// The accepted tokens.
    pub fn prefix(&self) -> &[u32] {
        &self.prefix
    }

    /// Logits after the prefix, `[vocabulary]`.
    pub fn next_logits(&self) -> &[f32] {
        &self.next
    }

    /// Tokens run so far.
    pub fn counters(&self) -> Counters {
        Counters {
            prefix: self.prefix.len(),
            ..self.counters
        }
    }

    /// Makes `tokens` the prefix and returns how many of them had to be run:
    /// what they share with the present prefix stays as it is.
    ///
    /// # Errors
    /// [`ModelError::ContextFull`] before anything is run, if `tokens` leave no
    /// room for one more; [`ModelError::Order`] if there are none; the backend's.
    pub async fn prefill(&mut self, tokens: &[u32]) -> Result<usize, ModelError> {
        let context = self.about().context;
        if tokens.is_empty() {
            return Err(ModelError::Order("a prompt needs at least one token"));
        }
        if tokens.len() >= context {
            return Err(ModelError::ContextFull {
                needed: tokens.len() + 1,
                context,
            });
        }
        let shared = self
            .prefix
            .iter()
            .zip(tokens)
            .take_while(|(a, b)| a == b)
            .count();
        // The logits after a token are kept only for the prefix's last one.
        let same = shared == tokens.len() && shared == self.prefix.len();
        let kept = if self.model.turns_otherwise(tokens.len()) {
            0
        } else if same && !self.next.is_empty() {
            shared
        } else {
            shared.min(tokens.len() - 1)
        };
        self.in_line = None;
        self.prefix.truncate(kept);
        if kept < tokens.len() {
            // Should a pass fail, no logits are better than those of another prefix.
            self.next.clear();
        }
        self.model.turn_for(tokens.len())?;
        self.extend(&tokens[kept..]).await?;
        Ok(tokens.len() - kept)
    }

    /// Makes ready for a text of `length` tokens: where that is the first to need a rotary
    /// embedding's long frequencies, the prefix is run once more with them, as transformers does.
    /// A text that becomes shorter keeps them until the next prompt.
    async fn stretch(&mut self, length: usize) -> Result<(), ModelError> {
        if self.model.stretches(length) {
            let prefix = std::mem::take(&mut self.prefix);
            self.next.clear();
            self.model.turn_for(length)?;
            self.extend(&prefix).await?;
        }
        Ok(())
    }

    /// Runs `tokens` behind the prefix. The head is wanted after the last of them only, and
    /// what a device could not run shows when that is read: until then the prefix is as it was.
    async fn extend(&mut self, tokens: &[u32]) -> Result<(), ModelError> {
        let mut rows = self.prefix.len();
        let mut last = None;
        for chunk in tokens.chunks(PREFILL_CHUNK) {
            self.model.run(&Pass::plain(rows, chunk))?;
            self.counters.prefill_tokens += chunk.len();
            rows += chunk.len();
            last = Some(chunk.len() - 1);
        }
        if let Some(last) = last {
            self.next = self.logits_after(last).await?;
            self.prefix.extend_from_slice(tokens);
        }
        Ok(())
    }

    /// Draws up to `limit` tokens after the prefix, at most `limit − 1` of
    /// which are run; stops early at any of `end_ids`.
    ///
    /// # Errors
    /// [`ModelError::ContextFull`] if not one more token fits,
    /// [`ModelError::Order`] before a prompt, or the backend's.
    pub async fn draft(
        &mut self,
        limit: usize,
        sampler: &mut Sampler,
        end_ids: &[u32],
    ) -> Result<Draft, ModelError> {
        let context = self.about().context;
        let limit = limit.min(context - self.prefix.len());
        if limit == 0 {
            return Err(ModelError::ContextFull {
                needed: context + 1,
                context,
            });
        }
        if self.next.is_empty() {
            return Err(ModelError::Order("a draft needs a prompt first"));
        }
        self.in_line = None;
        let mut tokens = Vec::with_capacity(limit);
        let mut id = sampler.choose(&self.next)?;
        loop {
            if end_ids.contains(&id) {
                return Ok(Draft {
                    tokens,
                    ended: true,
                });
            }
            tokens.push(id);
            if tokens.len() == limit {
                return Ok(Draft {
                    tokens,
                    ended: false,
                });
            }
            let begin = self.prefix.len();
            if self.model.stretches(begin + tokens.len()) {
                self.stretch(begin + tokens.len()).await?;
                if tokens.len() > 1 {
                    let drafted = &tokens[..tokens.len() - 1];
                    self.model.run(&Pass::plain(begin, drafted))?;
                }
            }
            let step = Pass::plain(begin + tokens.len() - 1, &[id]);
            self.model.run(&step)?;
            self.counters.draft_tokens += 1;
            let logits = self.logits_after(0).await?;
            id = sampler.choose(&logits)?;
        }
    }

    /// Scores all candidates in one in-line pass behind the prefix.
    ///
    /// # Errors
    /// [`ModelError::Order`] for an empty candidate or before a prompt;
    /// [`ModelError::InLine`] if they do not fit; the backend's.
    pub async fn verify(&mut self, candidates: &[Vec<u32>]) -> Result<Vec<Score>, ModelError> {
        if self.next.is_empty() {
            return Err(ModelError::Order("verifying needs a prompt first"));
        }
        if candidates.iter().any(Vec::is_empty) {
            return Err(ModelError::Order("a candidate needs at least one token"));
        }
        self.in_line = None;
        let pass = Pass::in_line(self.prefix.len(), candidates);
        // Checked before the prefix may be run anew.
        pass.check(self.about().config.vocabulary, self.about().context)?;
        self.stretch(pass.length()).await?;
        self.model.run(&pass)?;
        self.counters.verify_tokens += pass.len();

        // The logits after token t judge token t + 1; the prefix's own judge the first.
        let mut rows = Vec::new();
        let mut targets = Vec::new();
        let mut in_line = Vec::with_capacity(candidates.len());
        let mut offset = 0;
        for candidate in candidates {
            rows.extend(offset..offset + candidate.len() - 1);
            targets.extend_from_slice(&candidate[1..]);
            in_line.push((offset, candidate.clone()));
            offset += candidate.len();
        }
        let mut judged = self.model.scores(&rows, &targets).await?.into_iter();
        let log_sum_exp = log_sum_exp(&self.next);
        let scores = candidates
            .iter()
            .map(|candidate| {
                let first = TargetScore {
                    logit: self.next[candidate[0] as usize],
                    log_sum_exp,
                };
                let rest = judged.by_ref().take(candidate.len() - 1);
                let (logits, logprobs) = std::iter::once(first).chain(rest).fold(
                    (0.0, 0.0),
                    |(logits, logprobs), score| {
                        (
                            logits + f64::from(score.logit),
                            logprobs + f64::from(score.logprob()),
                        )
                    },
                );
                let count = candidate.len() as f64;
                Score {
                    mean_logit: logits / count,
                    mean_logprob: logprobs / count,
                    tokens: candidate.len(),
                }
            })
            .collect::<Vec<_>>();
        // The log-probability too: another token's broken logit shows only there.
        let broken = |s: &Score| !s.mean_logit.is_finite() || !s.mean_logprob.is_finite();
        if scores.iter().any(broken) {
            return Err(ModelError::NotFinite);
        }
        self.in_line = Some(in_line);
        Ok(scores)
    }

    /// Makes the first `count` tokens of candidate `winner` of the last verify
    /// pass part of the prefix: their KV rows stay, all others are free again.
    ///
    /// # Errors
    /// [`ModelError::Order`] without a verify pass or beyond its candidates; the backend's.
    pub async fn keep(&mut self, winner: usize, count: usize) -> Result<(), ModelError> {
        let (offset, mut candidate) = self
            .in_line
            .take()
            .and_then(|in_line| in_line.into_iter().nth(winner))
            .filter(|(_, candidate)| count <= candidate.len())
            .ok_or(ModelError::Order(
                "keep needs a verify pass with that candidate",
            ))?;
        candidate.truncate(count);
        if candidate.is_empty() {
            return Ok(());
        }
        // Read before rows move: the hidden states of the pass are still there.
        let next = self.logits_after(offset + candidate.len() - 1).await?;
        let prefix = self.prefix.len();
        self.model
            .move_rows(prefix + offset, prefix, candidate.len())?;
        self.next = next;
        self.prefix.extend(candidate);
        Ok(())
    }

    /// Frees the KV cache and forgets the prefix.
    pub fn release(&mut self) {
        self.model.release();
        self.prefix.clear();
        self.next.clear();
        self.in_line = None;
    }

    /// Logits after the last of `tokens`, run as a prompt of their own that may fill the
    /// whole context: `[vocabulary]`.
    ///
    /// # Errors
    /// [`ModelError::ContextFull`], [`ModelError::NotFinite`], or the backend's.
    pub async fn last_logits(&mut self, tokens: &[u32]) -> Result<&[f32], ModelError> {
        self.release();
        self.check_room(tokens)?;
        self.model.turn_for(tokens.len())?;
        self.extend(tokens).await?;
        finite(&self.next)?;
        Ok(&self.next)
    }

    /// Logits after each of `tokens`, run as [`last_logits`](Self::last_logits) does:
    /// `[tokens][vocabulary]`.
    ///
    /// # Errors
    /// As [`last_logits`](Self::last_logits).
    pub async fn all_logits(&mut self, tokens: &[u32]) -> Result<Vec<Vec<f32>>, ModelError> {
        self.release();
        self.check_room(tokens)?;
        self.model.turn_for(tokens.len())?;
        let mut all = Vec::with_capacity(tokens.len());
        for chunk in tokens.chunks(PREFILL_CHUNK) {
            self.model.run(&Pass::plain(self.prefix.len(), chunk))?;
            self.counters.prefill_tokens += chunk.len();
            all.extend(
                self.model
                    .logits(&(0..chunk.len()).collect::<Vec<_>>())
                    .await?,
            );
            self.prefix.extend_from_slice(chunk);
        }
        all.iter().try_for_each(|row| finite(row))?;
        self.next = all.last().cloned().unwrap_or_default();
        Ok(all)
    }

    /// Refuses more tokens than the context holds before any is run.
    fn check_room(&self, tokens: &[u32]) -> Result<(), ModelError> {
        let (needed, context) = (tokens.len(), self.about().context);
        if needed > context {
            return Err(ModelError::ContextFull { needed, context });
        }
        Ok(())
    }

    async fn logits_after(&mut self, row: usize) -> Result<Vec<f32>, ModelError> {
        self.model
            .logits(&[row])
            .await?
            .pop()
            .ok_or(ModelError::Order("the pass left no logits"))
    }
}

/// Refuses a row of logits with a number that is none.
fn finite(logits: &[f32]) -> Result<(), ModelError> {
    if logits.iter().all(|logit| logit.is_finite()) {
        Ok(())
    } else {
        Err(ModelError::NotFinite)
    }
}
