//! Drafts: tokens drawn after the prefix.

use super::{Draft, Session};
use crate::error::ModelError;
use crate::mask::Mask;
use crate::pass::{Pass, Run};
use crate::sampling::Sampler;
use crate::slots::{DRAFT, MOST_DRAFTED, PASS, PREFIX};
use crate::states::States;

impl Session {
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
        let limit = self.ready_to_draft(limit)?;
        self.draft_from(vec![], limit, sampler, end_ids).await
    }

    /// A draft of at most `limit` tokens, including the tokens `begun`. All tokens of `begun` but
    /// the last have run.
    pub(super) async fn draft_from(
        &mut self,
        begun: Vec<u32>,
        limit: usize,
        sampler: &mut Sampler,
        end_ids: &[u32],
    ) -> Result<Draft, ModelError> {
        let begin = self.prefix.len();
        if self.model.needs_long_rope(begin + limit) || begun.len() >= limit {
            return self
                .draft_by_step(limit, sampler, end_ids, None, begun)
                .await;
        }
        let random = sampler.numbers(limit - begun.len());
        let states = self.states.as_mut().map(States::step);
        let states = states.map(|(from, to)| Run {
            tokens: limit - 1,
            from,
            to,
        });
        let draws = sampler.draws();
        let drawn = self.model.draft(begin, &begun, draws, &random, states);
        let Some(drawn) = drawn.await? else {
            self.states.iter_mut().for_each(States::forget_draft);
            return self
                .draft_by_step(limit, sampler, end_ids, None, begun)
                .await;
        };
        // All but the last have run; tokens after an end token are discarded.
        self.counters.draft_tokens += limit - begun.len().max(1);
        let end = drawn.iter().position(|id| end_ids.contains(id));
        sampler.skip(end.map_or(drawn.len(), |end| end + 1));
        let mut tokens = begun;
        tokens.extend(drawn.iter().take(end.unwrap_or(drawn.len())));
        self.ran = tokens.len().min(limit - 1);
        if self.states.is_some() && self.ran < limit - 1 {
            // The recurrent state has seen those after it too.
            self.ran = 0;
        }
        self.drafted.clone_from(&tokens);
        let ended = end.is_some();
        Ok(Draft { tokens, ended })
    }

    /// Draws a draft as `draft` does, from the tokens that `mask` allows; temperature and top-p
    /// count only these. The draft ends where the mask allows only the end. On a GPU the CPU waits
    /// for every token, since the next mask depends on it.
    ///
    /// # Errors
    /// As [`draft`](Self::draft), and [`ModelError::Order`] where the mask allows nothing.
    pub async fn draft_masked(
        &mut self,
        limit: usize,
        sampler: &mut Sampler,
        end_ids: &[u32],
        mask: Mask<'_>,
    ) -> Result<Draft, ModelError> {
        let limit = self.ready_to_draft(limit)?;
        self.draft_by_step(limit, sampler, end_ids, Some(mask), vec![])
            .await
    }

    /// Forgets what was drafted before, and cuts the limit of a draft to the room there is.
    fn ready_to_draft(&mut self, limit: usize) -> Result<usize, ModelError> {
        let context = self.about().context;
        let limit = limit.min(context - self.prefix.len());
        if limit == 0 {
            return Err(self.about().context_full(context + 1));
        }
        self.expect_prompt("a draft needs a prompt first")?;
        self.forget_drafts();
        Ok(limit)
    }

    /// A draft that returns to the CPU after each token. It begins with the tokens `begun`, all but
    /// the last of which have run.
    async fn draft_by_step(
        &mut self,
        limit: usize,
        sampler: &mut Sampler,
        end_ids: &[u32],
        mut mask: Option<Mask<'_>>,
        begun: Vec<u32>,
    ) -> Result<Draft, ModelError> {
        let begin = self.prefix.len();
        // Where there are more tokens than slots, the last slot serves the rest.
        let slot = |index: usize| DRAFT + index.min(MOST_DRAFTED - 1);
        let mut stretched = false;
        let mut tokens = begun;
        if let Some(&id) = tokens.last().filter(|_| tokens.len() < limit) {
            let last = tokens.len() - 1;
            self.model
                .run(&Pass::plain(begin + last, &[id]), slot(last))?;
            self.counters.draft_tokens += 1;
        }
        let ended = loop {
            let drawn = tokens.len();
            if drawn >= limit {
                break false;
            }
            let before = match drawn.checked_sub(1) {
                Some(last) => slot(last),
                None => PREFIX,
            };
            let mut allowed = mask.as_mut().map(|mask| mask(&tokens));
            if allowed.as_ref().is_some_and(|allowed| allowed.end_alone()) {
                break true;
            }
            let mut logits = self.model.logits(&[before]).await?;
            let logits = logits.first_mut().map(Vec::as_mut_slice);
            let logits = logits.unwrap_or_default();
            if let Some(allowed) = &mut allowed {
                allowed.apply(logits, end_ids)?;
            }
            let id = sampler.choose(logits)?;
            if end_ids.contains(&id) {
                break true;
            }
            tokens.push(id);
            if drawn + 1 == limit {
                // Where nothing may follow, the draft has come to its end as well.
                break mask.is_some_and(|mask| mask(&tokens).end_alone());
            }
            if self.model.needs_long_rope(begin + drawn + 1) {
                stretched = true;
                self.switch_rope(begin + drawn + 1).await?;
                if drawn > 0 {
                    self.run_again(begin, &tokens[..drawn])?;
                }
            }
            let states = self.states.as_mut().map(States::step);
            let step = Pass::plain(begin + drawn, &[id]).between(states);
            self.model.run(&step, slot(drawn))?;
            self.counters.draft_tokens += 1;
        };
        // Tokens drawn in part with other frequencies than the text now has are of no use later.
        if !stretched {
            let states = match limit <= MOST_DRAFTED {
                true => limit - 1,
                false => MOST_DRAFTED - 1,
            };
            self.ran = tokens.len().min(states);
            // A recurrent state beyond the hidden states that are kept is of no use.
            if self.states.is_some() && self.ran < tokens.len().min(limit - 1) {
                self.ran = 0;
            }
            self.drafted.clone_from(&tokens);
        }
        Ok(Draft { tokens, ended })
    }

    /// Runs a draft's `tokens` again after the first `begin` rows, for their rows and states.
    fn run_again(&mut self, begin: usize, tokens: &[u32]) -> Result<(), ModelError> {
        let mut begin = begin;
        for chunk in tokens.chunks(self.model.prefill_chunk()) {
            let states = self.states.as_mut().map(States::step);
            let pass = Pass::plain(begin, chunk).between(states);
            self.model.run(&pass, PASS)?;
            begin += chunk.len();
        }
        Ok(())
    }
}
