//! A running text on one model: prefix, drafts, candidates in line, and what is kept.
//!
//! Nothing of the prefix is ever run twice. Rows of the KV cache beyond the
//! prefix are scratch: a draft writes there, then the candidates in line, and
//! [`keep`](Session::keep) turns the winner's rows into prefix.
//!
//! A recurrent state cannot be cut as rows can: a model that has one runs a part of a prefix or of
//! a candidate again, from the nearest state ([`crate::states`]).

mod drafting;
mod embedding;
mod judging;
mod second;

use conclave_cpu::Threads;
use serde::Serialize;

use crate::about::About;
use crate::error::ModelError;
use crate::line::{Judged, Line};
use crate::model::Model;
use crate::pass::{Pass, TargetScore};
use crate::score::Score;
use crate::slots::{DRAFT, PASS, PREFIX};
use crate::states::States;

/// Tokens that went through the model, since it was loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
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

/// Result of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefilled {
    /// Tokens that had to run: those shared with the prefix before stay as they are.
    pub run: usize,
    /// Whether it was stopped before its end. The tokens that ran are then the prefix.
    pub stopped: bool,
}

/// A member's draft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// Token ids, without the end token.
    pub tokens: Vec<u32>,
    /// Whether an end token was drawn after them.
    pub ended: bool,
}

/// The state of one text on one model.
#[derive(Debug)]
pub struct Session {
    pub(crate) model: Model,
    pub(crate) prefix: Vec<u32>,
    /// Tokens of the prefix, from its first on, that ran in passes of one length.
    even: usize,
    /// Whether the state after the prefix's last token is in its slot.
    ready: bool,
    /// The last draft, while its KV rows lie after the prefix.
    drafted: Vec<u32>,
    /// Number of its tokens that have run, and have their states.
    ran: usize,
    /// The candidates of the last verify pass.
    in_line: Option<Line>,
    /// Slots of recurrent states, in a model that has some.
    pub(crate) states: Option<States>,
    counters: Counters,
}

impl Session {
    /// A session with an empty prefix.
    pub fn new(model: Model) -> Self {
        let recurrent = model.about().config.is_recurrent();
        Self {
            states: recurrent.then(States::default),
            model,
            prefix: Vec::new(),
            even: 0,
            ready: false,
            drafted: Vec::new(),
            ran: 0,
            in_line: None,
            counters: Counters::default(),
        }
    }

    /// Threads that share its passes; one if these only wait for a device.
    pub fn threads(&self) -> Threads {
        self.model.threads()
    }

    /// The model's description.
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
            return Err(self.about().context_full(needed));
        }
        Ok(())
    }

    /// Makes `tokens` the prefix and returns the number of them that had to run: those shared with
    /// the present prefix stay as they are.
    ///
    /// # Errors
    /// [`ModelError::ContextFull`] before anything is run, if `tokens` leave no
    /// room for one more; [`ModelError::Order`] if there are none; the backend's.
    pub async fn prefill(&mut self, tokens: &[u32]) -> Result<usize, ModelError> {
        let prefilled = self.prefill_while(tokens, to_the_end).await?;
        Ok(prefilled.run)
    }

    /// The same in steps, each of which has run on the device before the next begins. After each,
    /// `go_on` gets the number of the prompt's tokens in the prefix and their total, and returns
    /// whether to go on. A stopped prompt leaves the tokens that ran as prefix, so that the next
    /// runs only the rest; there are no logits until a prompt ends.
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
        let shared = shared(&self.prefix, tokens);
        // The state after a token is kept only for the prefix's last one.
        let same = shared == tokens.len() && shared == self.prefix.len();
        let kept = if self.model.rotates_differently(tokens.len()) {
            0
        } else if same && self.ready {
            shared
        } else {
            shared.min(tokens.len() - 1)
        };
        self.forget_drafts();
        let kept = match &mut self.states {
            Some(states) => states.resume(self.prefix.len(), kept, tokens.len()),
            None => kept,
        };
        self.prefix.truncate(kept);
        self.even = self.even.min(kept);
        if kept < tokens.len() {
            // Should a pass fail, no state is better than that of another prefix.
            self.ready = false;
        }
        self.model.rotate_for(tokens.len())?;
        self.extend(&tokens[kept..], go_on).await?;
        Ok(Prefilled {
            run: self.prefix.len() - kept,
            stopped: self.prefix.len() < tokens.len(),
        })
    }

    /// Makes the next prompt keep a recurrent state after its first `tokens` tokens, in a model
    /// whose prefix can be cut at states only. A [`save`](Self::save) of these tokens needs the
    /// state, and another prompt that begins with them starts from it.
    pub fn mark(&mut self, tokens: usize) {
        self.states
            .iter_mut()
            .for_each(|states| states.mark(tokens));
    }

    /// Prepares for a text of `length` tokens: if it needs a rotary embedding's long frequencies,
    /// the prefix runs once more with them, as transformers does. A text that becomes shorter keeps
    /// them until the next prompt.
    async fn switch_rope(&mut self, length: usize) -> Result<(), ModelError> {
        if self.model.needs_long_rope(length) {
            self.forget_drafts();
            let prefix = std::mem::take(&mut self.prefix);
            self.even = 0;
            self.states.iter_mut().for_each(States::clear);
            self.ready = false;
            self.model.rotate_for(length)?;
            self.extend(&prefix, to_the_end).await?;
        }
        Ok(())
    }

    /// Runs `tokens` after the prefix, a chunk at a time, while `go_on` says so. A device's errors
    /// show at the wait for a chunk: until then the prefix is as it was.
    async fn extend(
        &mut self,
        tokens: &[u32],
        mut go_on: impl AsyncFnMut(usize, usize) -> bool,
    ) -> Result<(), ModelError> {
        let total = self.prefix.len() + tokens.len();
        let mut rest = tokens;
        while !rest.is_empty() {
            let count = rest.len().min(self.model.prefill_chunk());
            let count = match &self.states {
                Some(states) => states.until_checkpoint(self.prefix.len(), count),
                None => count,
            };
            let (chunk, later) = rest.split_at(count);
            rest = later;
            let done = self.prefix.len() + chunk.len();
            let state = self.run_after_prefix(chunk)?;
            self.counters.prefill_tokens += chunk.len();
            if done == total {
                self.model.keep_state(PASS + chunk.len() - 1)?;
            }
            self.model.settle().await?;
            self.accept(chunk, state);
            self.ready = done == total;
            if !go_on(done, total).await {
                break;
            }
        }
        Ok(())
    }

    /// Runs a chunk after the prefix, not yet as part of it, and returns the slot of its recurrent
    /// state, in a model that has some.
    fn run_after_prefix(&mut self, chunk: &[u32]) -> Result<Option<usize>, ModelError> {
        let states = self.states.as_ref().map(States::after_prefix);
        let pass = Pass::plain(self.prefix.len(), chunk).between(states);
        self.model.run(&pass, PASS)?;
        Ok(states.map(|(_, to)| to))
    }

    /// Makes tokens that have run after the prefix part of it, with the recurrent state after them.
    fn accept(&mut self, tokens: &[u32], state: Option<usize>) {
        self.prefix.extend_from_slice(tokens);
        if let (Some(states), Some(slot)) = (&mut self.states, state) {
            states.extend(slot, self.prefix.len());
        }
    }

    /// Scores all candidates in line after the prefix: in one pass, or in portions if they have
    /// more than 512 tokens. Equal candidates run once. The candidate that shares most with the
    /// last draft runs only the tokens after the shared ones, and the others only those after the
    /// ones that they share with it. A raw logit takes one row of the output matrix, a
    /// log-probability (`logprobs`) the whole matrix.
    ///
    /// # Errors
    /// [`ModelError::Order`] for an empty candidate or before a prompt;
    /// [`ModelError::ContextFull`] if one does not fit; the backend's.
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
        let mut line = self.line_up(candidates)?;
        if self.model.needs_long_rope(line.length()) {
            self.switch_rope(line.length()).await?;
            line = self.line_up(candidates)?;
        }
        // A pass overwrites the rows of the draft that no candidate has taken.
        if line.portions.iter().any(|portion| !portion.pass.is_empty()) {
            self.ran = line.kept_of_draft();
        }
        let mut judged: Vec<Vec<TargetScore>> = line.candidates.iter().map(|_| vec![]).collect();
        for (number, portion) in line.portions.iter().enumerate() {
            if !portion.pass.is_empty() {
                self.model.run(&portion.pass, PASS)?;
                self.counters.verify_tokens += portion.pass.len();
            }
            // The state after token t judges token t + 1; the next portion's take its slot.
            let wanted: Vec<Judged> = line.judged(number).collect();
            let slots: Vec<usize> = wanted.iter().map(|one| one.slot).collect();
            let targets: Vec<u32> = wanted.iter().map(|one| one.target).collect();
            let scores = self.model.scores(&slots, &targets, logprobs).await?;
            if scores.len() != wanted.len() {
                return Err(ModelError::Order(
                    "the pass left fewer scores than were asked for",
                ));
            }
            for (one, score) in wanted.iter().zip(scores) {
                judged[one.candidate].push(score);
            }
        }
        let all = line.candidates.iter().zip(&judged).map(|(one, own)| {
            let shared = &judged[line.trunk][..one.shared];
            Score::mean(&[shared, own].concat())
        });
        let scores: Vec<Score> = all.collect();
        // The log-probability too: another token's broken logit shows only there.
        let broken = |s: &Score| {
            !s.mean_logit.is_finite() || s.mean_logprob.is_some_and(|mean| !mean.is_finite())
        };
        if scores.iter().any(broken) {
            return Err(ModelError::NotFinite);
        }
        let all = line.which.iter().map(|&index| scores[index]).collect();
        self.in_line = Some(line);
        Ok(all)
    }

    /// Lines candidates up after the prefix and the draft, each checked before any runs.
    fn line_up(&self, candidates: &[Vec<u32>]) -> Result<Line, ModelError> {
        let about = self.about();
        let ran = &self.drafted[..self.ran];
        let states = self.states.as_ref();
        let line = Line::up(candidates, ran, states, self.prefix.len(), about.context);
        for portion in &line.portions {
            portion.pass.check(about)?;
        }
        Ok(line)
    }

    /// Makes the first `count` tokens of candidate `winner` of the last verify pass part of the
    /// prefix: their KV rows stay, all others are free again. After several portions, tokens whose
    /// results a later portion overwrote run again: the last for its state, or all where rows did
    /// not suffice. In a model with recurrent states a part of a candidate runs again too, unless
    /// it is all that the draft ran.
    ///
    /// # Errors
    /// [`ModelError::Order`] without a verify pass or beyond its candidates; the backend's.
    pub async fn keep(&mut self, winner: usize, count: usize) -> Result<(), ModelError> {
        const UNKNOWN: ModelError =
            ModelError::Order("keep needs a verify pass with that candidate");
        let mut line = self.in_line.take().ok_or(UNKNOWN)?;
        let index = *line.which.get(winner).ok_or(UNKNOWN)?;
        if count > line.candidates[index].tokens.len() {
            return Err(UNKNOWN);
        }
        if count == 0 {
            return Ok(());
        }
        let slot = line.slot_after(index, count);
        let state = line.state_after(index, count);
        let candidate = line.candidates.swap_remove(index);
        let (row, mut tokens) = (candidate.row, candidate.tokens);
        let shared = candidate.shared;
        tokens.truncate(count);
        let there = match (row, slot) {
            // Its rows are of no use without its state.
            _ if self.states.is_some() && (slot.is_none() || state.is_none()) => 0,
            (Some(_), Some(slot)) => {
                self.model.keep_state(slot)?;
                count
            }
            (Some(_), None) => count - 1,
            (None, _) => 0,
        };
        if let Some(row) = row.filter(|_| there > shared) {
            let to = self.prefix.len() + shared;
            self.model.move_rows(row, to, there - shared)?;
        }
        self.forget_drafts();
        self.accept(&tokens[..there], state.filter(|_| there == count));
        self.ready = there == count;
        self.counters.verify_tokens += count - there;
        self.append(&tokens[there..]).await
    }

    /// Makes `tokens` part of the prefix, unverified. Those that the last draft ran stay in place:
    /// of a draft that is kept whole at most one token runs.
    ///
    /// # Errors
    /// [`ModelError::Order`] before a prompt; [`ModelError::ContextFull`] if they do not fit; the
    /// backend's.
    pub async fn go_on(&mut self, tokens: &[u32]) -> Result<(), ModelError> {
        self.expect_prompt("text goes on after a prompt")?;
        let (needed, context) = (self.prefix.len() + tokens.len(), self.about().context);
        if needed > context {
            return Err(self.about().context_full(needed));
        }
        self.switch_rope(needed).await?;
        let ran = self.drafted[..self.ran].iter().zip(tokens);
        let there = ran.take_while(|(a, b)| a == b).count();
        let state = self.states.as_ref().and_then(States::draft);
        let there = match &self.states {
            // A recurrent state is valid only after all tokens that the draft ran.
            Some(_) if there < self.ran => 0,
            _ => there,
        };
        self.forget_drafts();
        if there > 0 {
            self.model.keep_state(DRAFT + there - 1)?;
            self.accept(&tokens[..there], state);
        }
        self.counters.draft_tokens += tokens.len() - there;
        self.append(&tokens[there..]).await
    }

    /// Runs `tokens` after the prefix, which they become part of.
    async fn append(&mut self, tokens: &[u32]) -> Result<(), ModelError> {
        for chunk in tokens.chunks(self.model.prefill_chunk()) {
            // Should the pass fail, the state is that of no prefix.
            self.ready = false;
            let state = self.run_after_prefix(chunk)?;
            self.accept(chunk, state);
            self.model.keep_state(PASS + chunk.len() - 1)?;
        }
        self.ready = true;
        Ok(())
    }

    /// Frees the rows after the prefix.
    fn forget_drafts(&mut self) {
        self.drafted.clear();
        self.ran = 0;
        self.in_line = None;
        self.states.iter_mut().for_each(States::forget_draft);
    }

    fn expect_prompt(&self, otherwise: &'static str) -> Result<(), ModelError> {
        match self.ready {
            true => Ok(()),
            false => Err(ModelError::Order(otherwise)),
        }
    }

    /// Forgets the prefix, before the caches are filled with another's rows.
    pub(crate) fn forget_prefix(&mut self) {
        self.prefix.clear();
        self.even = 0;
        self.states.iter_mut().for_each(States::clear);
        self.ready = false;
        self.forget_drafts();
    }

    /// Makes another text the prefix. The caches already hold its rows, and `states` describes its
    /// recurrent states.
    pub(crate) fn become_of(&mut self, tokens: &[u32], states: States) {
        tokens.clone_into(&mut self.prefix);
        self.states = self.states.is_some().then_some(states);
    }

    /// Tokens of the last draft.
    pub fn drafted(&self) -> &[u32] {
        &self.drafted
    }

    /// Frees the KV cache and forgets the prefix.
    pub fn release(&mut self) {
        self.model.release();
        self.forget_prefix();
    }

    /// Logits after the last of `tokens`, run as a prompt of their own that may fill the
    /// whole context: `[vocabulary]`.
    ///
    /// # Errors
    /// [`ModelError::ContextFull`], [`ModelError::NotFinite`], or the backend's.
    pub async fn last_logits(&mut self, tokens: &[u32]) -> Result<Vec<f32>, ModelError> {
        self.release();
        self.check_room(tokens)?;
        self.model.rotate_for(tokens.len())?;
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
        self.model.rotate_for(tokens.len())?;
        let mut all = Vec::with_capacity(tokens.len());
        let chunks = tokens.chunks(self.model.prefill_chunk());
        for chunk in chunks.clone() {
            let state = self.run_after_prefix(chunk)?;
            self.counters.prefill_tokens += chunk.len();
            let slots: Vec<usize> = (PASS..PASS + chunk.len()).collect();
            all.extend(self.model.logits(&slots).await?);
            self.accept(chunk, state);
        }
        all.iter().try_for_each(|row| finite(row))?;
        if let Some(last) = chunks.last() {
            self.model.keep_state(PASS + last.len() - 1)?;
            self.ready = true;
        }
        Ok(all)
    }

    /// Refuses more tokens than the context holds before any is run.
    fn check_room(&self, tokens: &[u32]) -> Result<(), ModelError> {
        let (needed, context) = (tokens.len(), self.about().context);
        if needed > context {
            return Err(self.about().context_full(needed));
        }
        Ok(())
    }
}

/// Number of tokens that two texts begin with alike.
pub(crate) fn shared(one: &[u32], other: &[u32]) -> usize {
    let both = one.iter().zip(other);
    both.take_while(|(a, b)| a == b).count()
}

/// Listener for a prompt that is never stopped.
async fn to_the_end(_done: usize, _total: usize) -> bool {
    true
}

/// Refuses a row of logits that has a NaN or an infinity.
fn finite(logits: &[f32]) -> Result<(), ModelError> {
    if logits.iter().all(|logit| logit.is_finite()) {
        Ok(())
    } else {
        Err(ModelError::NotFinite)
    }
}
