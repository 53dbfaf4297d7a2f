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

impl Score {
    /// The mean of the scores of `count` tokens.
    fn mean(scores: impl Iterator<Item = TargetScore>, count: usize) -> Self {
        let add = |(logits, logprobs): (f64, f64), score: TargetScore| {
            (
                logits + f64::from(score.logit),
                logprobs + f64::from(score.logprob()),
            )
        };
        let (logits, logprobs) = scores.fold((0.0, 0.0), add);
        Self {
            mean_logit: logits / count as f64,
            mean_logprob: logprobs / count as f64,
            tokens: count,
        }
    }
}

/// A token of the last draft.
#[derive(Debug)]
struct Drafted {
    id: u32,
    /// How it was judged when it was drawn.
    score: TargetScore,
    /// Logits after it, once it has run: its KV row is there then.
    after: Option<Vec<f32>>,
}

/// A candidate of the last verify pass.
#[derive(Debug)]
struct InLine {
    tokens: Vec<u32>,
    /// How many of its first tokens the draft had run.
    drafted: usize,
    /// The pass's index of the first one behind them.
    offset: usize,
    /// The KV row of its first token.
    row: usize,
}

/// The state of one text on one model.
#[derive(Debug)]
pub struct Session {
    model: Model,
    prefix: Vec<u32>,
    /// Logits after the last token of the prefix, `[vocabulary]`; empty before the first.
    next: Vec<f32>,
    /// The last draft, while its KV rows lie behind the prefix.
    drafted: Vec<Drafted>,
    /// The different candidates of the last verify pass, and which of them each one is.
    in_line: Option<(Vec<InLine>, Vec<usize>)>,
    counters: Counters,
}

impl Session {
    /// A session with an empty prefix.
    pub fn new(model: Model) -> Self {
        Self {
            model,
            prefix: Vec::new(),
            next: Vec::new(),
            drafted: Vec::new(),
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
        self.forget_drafts();
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
            self.forget_drafts();
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
        self.forget_drafts();
        let begin = self.prefix.len();
        let mut turned = false;
        let ended = loop {
            let drawn = self.drafted.len();
            let logits = self.logits_before(drawn);
            let id = sampler.choose(logits)?;
            if end_ids.contains(&id) {
                break true;
            }
            let score = TargetScore::of(logits, id);
            let after = None;
            self.drafted.push(Drafted { id, score, after });
            if drawn + 1 == limit {
                break false;
            }
            if self.model.stretches(begin + drawn + 1) {
                turned = true;
                let drafted = std::mem::take(&mut self.drafted);
                self.stretch(begin + drawn + 1).await?;
                self.drafted = drafted;
                if drawn > 0 {
                    let ids: Vec<u32> = self.drafted[..drawn].iter().map(|d| d.id).collect();
                    self.model.run(&Pass::plain(begin, &ids))?;
                }
            }
            self.model.run(&Pass::plain(begin + drawn, &[id]))?;
            self.counters.draft_tokens += 1;
            self.drafted[drawn].after = Some(self.logits_after(0).await?);
        };
        let tokens = self.drafted.iter().map(|drafted| drafted.id).collect();
        if turned {
            // Drawn in part under other frequencies than the text now has.
            self.forget_drafts();
        }
        Ok(Draft { tokens, ended })
    }

    /// Logits that token `index` behind the prefix was or would be drawn from; the tokens before it
    /// are the last draft's, and have run.
    fn logits_before(&self, index: usize) -> &[f32] {
        let last = index.checked_sub(1).and_then(|last| self.drafted.get(last));
        last.and_then(|drafted| drafted.after.as_deref())
            .unwrap_or(&self.next)
    }

    /// How many of the first tokens of `candidate` the last draft has run.
    fn drafted_of(&self, candidate: &[u32]) -> usize {
        let same = |(id, drafted): &(&u32, &Drafted)| **id == drafted.id && drafted.after.is_some();
        candidate.iter().zip(&self.drafted).take_while(same).count()
    }

    /// Scores all candidates in one in-line pass behind the prefix. Equal candidates run once; of
    /// the one that shares most with the last draft, only what is behind the shared tokens.
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
        let (mut pass, mut in_line, mut which) = self.line_up(candidates);
        // Checked before the prefix may be run anew.
        pass.check(self.about().config.vocabulary, self.about().context)?;
        if self.model.stretches(pass.length()) {
            self.stretch(pass.length()).await?;
            (pass, in_line, which) = self.line_up(candidates);
            pass.check(self.about().config.vocabulary, self.about().context)?;
        }
        if !pass.is_empty() {
            // The pass writes over the rows of the draft that no candidate has taken.
            let kept = in_line.iter().map(|candidate| candidate.drafted).max();
            self.drafted.truncate(kept.unwrap_or_default());
            self.model.run(&pass)?;
            self.counters.verify_tokens += pass.len();
        }

        // The logits after token t judge token t + 1; those of the prefix and of the draft are there.
        let mut rows = Vec::new();
        let mut targets = Vec::new();
        for candidate in &in_line {
            let behind = candidate
                .tokens
                .get(candidate.drafted + 1..)
                .unwrap_or_default();
            rows.extend(candidate.offset..candidate.offset + behind.len());
            targets.extend_from_slice(behind);
        }
        let mut judged = match rows.is_empty() {
            true => Vec::new(),
            false => self.model.scores(&rows, &targets).await?,
        }
        .into_iter();
        let prefix_sum = log_sum_exp(&self.next);
        let mut scores = Vec::with_capacity(in_line.len());
        for candidate in &in_line {
            let drafted = self.drafted[..candidate.drafted].iter().map(|d| d.score);
            let next = candidate.tokens.get(candidate.drafted).map(|&id| {
                let logits = self.logits_before(candidate.drafted);
                let log_sum_exp = match candidate.drafted {
                    0 => prefix_sum,
                    _ => log_sum_exp(logits),
                };
                let logit = logits[id as usize];
                TargetScore { logit, log_sum_exp }
            });
            let count = candidate.tokens.len();
            let known = candidate.drafted + usize::from(next.is_some());
            let rest = judged.by_ref().take(count - known);
            scores.push(Score::mean(drafted.chain(next).chain(rest), count));
        }
        // The log-probability too: another token's broken logit shows only there.
        let broken = |s: &Score| !s.mean_logit.is_finite() || !s.mean_logprob.is_finite();
        if scores.iter().any(broken) {
            return Err(ModelError::NotFinite);
        }
        let all = which.iter().map(|&index| scores[index]).collect();
        self.in_line = Some((in_line, which));
        Ok(all)
    }

    /// The pass that runs what has not run of `candidates`, the different ones among them, and
    /// which of these each candidate is.
    fn line_up(&self, candidates: &[Vec<u32>]) -> (Pass, Vec<InLine>, Vec<usize>) {
        let mut different: Vec<&Vec<u32>> = Vec::new();
        let mut which = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            let known = different.iter().position(|other| *other == candidate);
            which.push(known.unwrap_or(different.len()));
            if known.is_none() {
                different.push(candidate);
            }
        }
        // The draft's rows serve one candidate: the first of those that share most with it.
        let shared: Vec<usize> = different.iter().map(|c| self.drafted_of(c)).collect();
        let most = shared.iter().copied().max().unwrap_or_default();
        let own = shared.iter().position(|&count| count == most && most > 0);

        let prefix = self.prefix.len();
        let mut pass = Pass::empty();
        let mut row = prefix;
        let mut in_line: Vec<Option<InLine>> = different.iter().map(|_| None).collect();
        // The draft's own first: it goes on where the draft's rows are.
        let others = (0..different.len()).filter(|&index| Some(index) != own);
        for index in own.into_iter().chain(others) {
            let tokens = different[index].clone();
            let drafted = if Some(index) == own { most } else { 0 };
            let offset = pass.len();
            pass.append(prefix, row, drafted, &tokens[drafted..]);
            let count = tokens.len();
            in_line[index] = Some(InLine {
                tokens,
                drafted,
                offset,
                row,
            });
            row += count;
        }
        (pass, in_line.into_iter().flatten().collect(), which)
    }

    /// Makes the first `count` tokens of candidate `winner` of the last verify
    /// pass part of the prefix: their KV rows stay, all others are free again.
    ///
    /// # Errors
    /// [`ModelError::Order`] without a verify pass or beyond its candidates; the backend's.
    pub async fn keep(&mut self, winner: usize, count: usize) -> Result<(), ModelError> {
        let kept = self.in_line.take().and_then(|(mut in_line, which)| {
            let candidate = in_line.swap_remove(*which.get(winner)?);
            (count <= candidate.tokens.len()).then_some(candidate)
        });
        let mut candidate = kept.ok_or(ModelError::Order(
            "keep needs a verify pass with that candidate",
        ))?;
        candidate.tokens.truncate(count);
        if candidate.tokens.is_empty() {
            return Ok(());
        }
        // Read before rows move: the hidden states of the pass are still there.
        let next = match count.checked_sub(candidate.drafted + 1) {
            Some(index) => self.logits_after(candidate.offset + index).await?,
            None => self.logits_before(count).to_vec(),
        };
        let prefix = self.prefix.len();
        self.model.move_rows(candidate.row, prefix, count)?;
        self.drafted.clear();
        self.next = next;
        self.prefix.extend(candidate.tokens);
        Ok(())
    }

    /// The rows behind the prefix are free again.
    fn forget_drafts(&mut self) {
        self.drafted.clear();
        self.in_line = None;
    }

    /// Frees the KV cache and forgets the prefix.
    pub fn release(&mut self) {
        self.model.release();
        self.prefix.clear();
        self.next.clear();
        self.forget_drafts();
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
