//! A running text on one model: prefix, drafts, candidates in line, and what is kept.
//!
//! Nothing of the prefix is ever run twice. Rows of the KV cache beyond the
//! prefix are scratch: a draft writes there, then the candidates in line, and
//! [`keep`](Session::keep) turns the winner's rows into prefix.

use serde::Serialize;

use crate::error::ModelError;
use crate::load::{About, Model};
use crate::pass::{Pass, TargetScore};
use crate::sampling::Sampler;
use crate::slots::{DRAFT, MOST_DRAFTED, PASS, PREFIX};

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

/// What became of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefilled {
    /// Tokens that had to be run: what the prompt shares with the prefix before stays as it is.
    pub run: usize,
    /// It was stopped before its end; what ran is the prefix.
    pub stopped: bool,
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
    /// Mean ln p of the candidate's tokens, where it was asked for.
    pub mean_logprob: Option<f64>,
    /// Number of tokens.
    pub tokens: usize,
}

impl Score {
    /// The mean over the tokens of a candidate.
    fn mean(tokens: &[TargetScore]) -> Self {
        let count = tokens.len() as f64;
        let logits: f64 = tokens.iter().map(|token| f64::from(token.logit)).sum();
        let logprobs = tokens.iter().map(|token| token.logprob().map(f64::from));
        Self {
            mean_logit: logits / count,
            mean_logprob: logprobs.sum::<Option<f64>>().map(|sum| sum / count),
            tokens: tokens.len(),
        }
    }
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

impl InLine {
    /// Where the state before token `index` is.
    fn slot_before(&self, index: usize) -> usize {
        match index.checked_sub(self.drafted + 1) {
            Some(behind) => PASS + self.offset + behind,
            None if index == 0 => PREFIX,
            None => DRAFT + index - 1,
        }
    }
}

/// The state of one text on one model.
#[derive(Debug)]
pub struct Session {
    model: Model,
    prefix: Vec<u32>,
    /// Whether the state after the prefix's last token is in its slot.
    ready: bool,
    /// The last draft, while its KV rows lie behind the prefix.
    drafted: Vec<u32>,
    /// How many of its tokens have run, and have their states.
    ran: usize,
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
            ready: false,
            drafted: Vec::new(),
            ran: 0,
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
    ///
    /// # Errors
    /// [`ModelError::Order`] before a prompt, or the backend's.
    pub async fn next_logits(&mut self) -> Result<Vec<f32>, ModelError> {
        self.expect_prompt("there are no logits before a prompt")?;
        let logits = self.model.logits(&[PREFIX]).await?.pop();
        logits.ok_or(ModelError::Order("the pass left no logits"))
    }

    /// Tokens run so far.
    pub fn counters(&self) -> Counters {
        Counters {
            prefix: self.prefix.len(),
            ..self.counters
        }
    }

    /// Refuses a prompt of `length` tokens that leaves no room for one more.
    ///
    /// # Errors
    /// [`ModelError::ContextFull`].
    pub fn check_prompt(&self, length: usize) -> Result<(), ModelError> {
        let (needed, context) = (length.saturating_add(1), self.about().context);
        if needed > context {
            return Err(ModelError::ContextFull { needed, context });
        }
        Ok(())
    }

    /// Makes `tokens` the prefix and returns how many of them had to be run:
    /// what they share with the present prefix stays as it is.
    ///
    /// # Errors
    /// [`ModelError::ContextFull`] before anything is run, if `tokens` leave no
    /// room for one more; [`ModelError::Order`] if there are none; the backend's.
    pub async fn prefill(&mut self, tokens: &[u32]) -> Result<usize, ModelError> {
        let prefilled = self.prefill_while(tokens, to_the_end).await?;
        Ok(prefilled.run)
    }

    /// The same in steps, each of which has run on the device before the next begins. After each,
    /// `go_on` hears how many of the prompt's tokens are in the prefix and how many there are, and
    /// says whether to go on. A prompt that was stopped leaves what ran as prefix, so that the next
    /// one runs only the rest; until a prompt has come to its end there are no logits.
    ///
    /// # Errors
    /// As [`prefill`](Self::prefill).
    pub async fn prefill_while(
        &mut self,
        tokens: &[u32],
        go_on: impl AsyncFnMut(usize, usize) -> bool,
    ) -> Result<Prefilled, ModelError> {
        if tokens.is_empty() {
            return Err(ModelError::Order("a prompt needs at least one token"));
        }
        self.check_prompt(tokens.len())?;
        let shared = self
            .prefix
            .iter()
            .zip(tokens)
            .take_while(|(a, b)| a == b)
            .count();
        // The state after a token is kept only for the prefix's last one.
        let same = shared == tokens.len() && shared == self.prefix.len();
        let kept = if self.model.turns_otherwise(tokens.len()) {
            0
        } else if same && self.ready {
            shared
        } else {
            shared.min(tokens.len() - 1)
        };
        self.forget_drafts();
        self.prefix.truncate(kept);
        if kept < tokens.len() {
            // Should a pass fail, no state is better than that of another prefix.
            self.ready = false;
        }
        self.model.turn_for(tokens.len())?;
        self.extend(&tokens[kept..], go_on).await?;
        Ok(Prefilled {
            run: self.prefix.len() - kept,
            stopped: self.prefix.len() < tokens.len(),
        })
    }

    /// Makes ready for a text of `length` tokens: where that is the first to need a rotary
    /// embedding's long frequencies, the prefix is run once more with them, as transformers does.
    /// A text that becomes shorter keeps them until the next prompt.
    async fn stretch(&mut self, length: usize) -> Result<(), ModelError> {
        if self.model.stretches(length) {
            self.forget_drafts();
            let prefix = std::mem::take(&mut self.prefix);
            self.ready = false;
            self.model.turn_for(length)?;
            self.extend(&prefix, to_the_end).await?;
        }
        Ok(())
    }

    /// Runs `tokens` behind the prefix, a chunk after the other, while `go_on` says so. What a
    /// device could not run shows when that is waited for: until then the prefix is as it was.
    async fn extend(
        &mut self,
        tokens: &[u32],
        mut go_on: impl AsyncFnMut(usize, usize) -> bool,
    ) -> Result<(), ModelError> {
        let total = self.prefix.len() + tokens.len();
        for chunk in tokens.chunks(self.model.prefill_chunk()) {
            let done = self.prefix.len() + chunk.len();
            let pass = Pass::plain(self.prefix.len(), chunk);
            self.model.run(&pass, PASS)?;
            self.counters.prefill_tokens += chunk.len();
            if done == total {
                self.model.keep_state(PASS + chunk.len() - 1).await?;
            }
            self.model.settle().await?;
            self.prefix.extend_from_slice(chunk);
            self.ready = done == total;
            if !go_on(done, total).await {
                break;
            }
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
        self.expect_prompt("a draft needs a prompt first")?;
        self.forget_drafts();
        let begin = self.prefix.len();
        if self.model.stretches(begin + limit) {
            return self.draft_by_step(limit, sampler, end_ids).await;
        }
        let random = sampler.numbers(limit);
        let drawn = self.model.draft(begin, limit, sampler.draws(), &random);
        let Some(mut tokens) = drawn.await? else {
            return self.draft_by_step(limit, sampler, end_ids).await;
        };
        self.counters.draft_tokens += limit - 1;
        // All but the last have run; what is behind an end token is discarded.
        let end = tokens.iter().position(|id| end_ids.contains(id));
        sampler.skip(end.map_or(tokens.len(), |end| end + 1));
        tokens.truncate(end.unwrap_or(tokens.len()));
        self.ran = tokens.len().min(limit - 1);
        self.drafted.clone_from(&tokens);
        let ended = end.is_some();
        Ok(Draft { tokens, ended })
    }

    /// The same with a word from the CPU between any two tokens.
    async fn draft_by_step(
        &mut self,
        limit: usize,
        sampler: &mut Sampler,
        end_ids: &[u32],
    ) -> Result<Draft, ModelError> {
        let begin = self.prefix.len();
        // Where there are more tokens than slots, the last slot serves the rest.
        let slot = |index: usize| DRAFT + index.min(MOST_DRAFTED - 1);
        let mut turned = false;
        let mut tokens = Vec::with_capacity(limit);
        let ended = loop {
            let drawn = tokens.len();
            let before = match drawn.checked_sub(1) {
                Some(last) => slot(last),
                None => PREFIX,
            };
            let logits = self.model.logits(&[before]).await?;
            let logits = logits.first().map(Vec::as_slice).unwrap_or_default();
            let id = sampler.choose(logits)?;
            if end_ids.contains(&id) {
                break true;
            }
            tokens.push(id);
            if drawn + 1 == limit {
                break false;
            }
            if self.model.stretches(begin + drawn + 1) {
                turned = true;
                self.stretch(begin + drawn + 1).await?;
                if drawn > 0 {
                    self.model
                        .run(&Pass::plain(begin, &tokens[..drawn]), PASS)?;
                }
            }
            let step = Pass::plain(begin + drawn, &[id]);
            self.model.run(&step, slot(drawn))?;
            self.counters.draft_tokens += 1;
        };
        // Those drawn in part under other frequencies than the text now has are no use later.
        if !turned {
            let states = match limit <= MOST_DRAFTED {
                true => limit - 1,
                false => MOST_DRAFTED - 1,
            };
            self.ran = tokens.len().min(states);
            self.drafted.clone_from(&tokens);
        }
        Ok(Draft { tokens, ended })
    }

    /// How many of the first tokens of `candidate` the last draft has run.
    fn drafted_of(&self, candidate: &[u32]) -> usize {
        let ran = &self.drafted[..self.ran];
        let same = |(a, b): &(&u32, &u32)| a == b;
        candidate.iter().zip(ran).take_while(same).count()
    }

    /// Scores all candidates in one in-line pass behind the prefix. Equal candidates run once; of
    /// the one that shares most with the last draft, only what is behind the shared tokens. Raw
    /// logits take a row of the output matrix a token; `logprobs` take all of it.
    ///
    /// # Errors
    /// [`ModelError::Order`] for an empty candidate or before a prompt;
    /// [`ModelError::InLine`] if they do not fit; the backend's.
    pub async fn verify(
        &mut self,
        candidates: &[Vec<u32>],
        logprobs: bool,
    ) -> Result<Vec<Score>, ModelError> {
        self.expect_prompt("verifying needs a prompt first")?;
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
            self.ran = kept.unwrap_or_default();
            self.model.run(&pass, PASS)?;
            self.counters.verify_tokens += pass.len();
        }

        // The state after token t judges token t + 1; those of the prefix and the draft are there.
        let mut slots = Vec::new();
        let mut targets = Vec::new();
        for candidate in &in_line {
            slots.extend((0..candidate.tokens.len()).map(|index| candidate.slot_before(index)));
            targets.extend_from_slice(&candidate.tokens);
        }
        let judged = self.model.scores(&slots, &targets, logprobs).await?;
        let mut judged = judged.as_slice();
        let mut scores = Vec::with_capacity(in_line.len());
        for candidate in &in_line {
            let tokens = judged.split_off(..candidate.tokens.len());
            scores.push(Score::mean(tokens.ok_or(ModelError::Order(
                "the pass left fewer scores than were asked for",
            ))?));
        }
        // The log-probability too: another token's broken logit shows only there.
        let broken = |s: &Score| {
            !s.mean_logit.is_finite() || s.mean_logprob.is_some_and(|mean| !mean.is_finite())
        };
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
        self.model.keep_state(candidate.slot_before(count)).await?;
        let prefix = self.prefix.len();
        self.model.move_rows(candidate.row, prefix, count)?;
        self.forget_drafts();
        self.prefix.extend(candidate.tokens);
        Ok(())
    }

    /// The rows behind the prefix are free again.
    fn forget_drafts(&mut self) {
        self.drafted.clear();
        self.ran = 0;
        self.in_line = None;
    }

    fn expect_prompt(&self, otherwise: &'static str) -> Result<(), ModelError> {
        match self.ready {
            true => Ok(()),
            false => Err(ModelError::Order(otherwise)),
        }
    }

    /// Frees the KV cache and forgets the prefix.
    pub fn release(&mut self) {
        self.model.release();
        self.prefix.clear();
        self.ready = false;
        self.forget_drafts();
    }

    /// Logits after the last of `tokens`, run as a prompt of their own that may fill the
    /// whole context: `[vocabulary]`.
    ///
    /// # Errors
    /// [`ModelError::ContextFull`], [`ModelError::NotFinite`], or the backend's.
    pub async fn last_logits(&mut self, tokens: &[u32]) -> Result<Vec<f32>, ModelError> {
        self.release();
        self.check_room(tokens)?;
        self.model.turn_for(tokens.len())?;
        self.extend(tokens, to_the_end).await?;
        let logits = self.next_logits().await?;
        finite(&logits)?;
        Ok(logits)
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
        let chunks = tokens.chunks(self.model.prefill_chunk());
        for chunk in chunks.clone() {
            self.model
                .run(&Pass::plain(self.prefix.len(), chunk), PASS)?;
            self.counters.prefill_tokens += chunk.len();
            let slots: Vec<usize> = (PASS..PASS + chunk.len()).collect();
            all.extend(self.model.logits(&slots).await?);
            self.prefix.extend_from_slice(chunk);
        }
        all.iter().try_for_each(|row| finite(row))?;
        if let Some(last) = chunks.last() {
            self.model.keep_state(PASS + last.len() - 1).await?;
            self.ready = true;
        }
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
}

/// The listener of a prompt that nobody stops.
async fn to_the_end(_done: usize, _total: usize) -> bool {
    true
}

/// Refuses a row of logits with a number that is none.
fn finite(logits: &[f32]) -> Result<(), ModelError> {
    if logits.iter().all(|logit| logit.is_finite()) {
        Ok(())
    } else {
        Err(ModelError::NotFinite)
    }
}
