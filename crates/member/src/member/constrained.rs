//! Drafts under a constraint.

use conclave_ensemble::Draft;
use conclave_model::Allowed;

use super::{MAX_CHARACTER_BYTES, MAX_STOP_TOKENS, Member};
use crate::error::MemberError;

impl Member {
    /// A draft of tokens that the constraint allows, at least up to its first whole character.
    pub(super) async fn draft_constrained(
        &mut self,
        mut limit: usize,
    ) -> Result<Draft, MemberError> {
        let free = self.constraint.as_ref().is_some_and(|held| held.is_free());
        // A constrained answer has no leading white space.
        if self.answer.is_empty() && !free {
            self.lead.clear();
        }
        let vocabulary = self.about().config.vocabulary;
        loop {
            let mut failed = None;
            let mut mask = |drawn: &[u32]| {
                let constraint = self.constraint.as_deref_mut();
                let words = constraint.map_or(Ok(Vec::new()), |held| held.mask(drawn));
                let words = words.unwrap_or_else(|why| {
                    failed = Some(why);
                    Vec::new()
                });
                Allowed::new(words, vocabulary)
            };
            let ends = self.tokenizer.end_ids();
            let drafting = self
                .session
                .draft_masked(limit, &mut self.sampler, ends, &mut mask);
            let draft = drafting.await;
            if let Some(why) = failed {
                return Err(MemberError::Constraint(why));
            }
            let draft = draft?;
            let (mut text, complete) = self.shown_of(&draft.tokens);
            if text.is_empty() && !complete && draft.tokens.len() == limit {
                limit += MAX_CHARACTER_BYTES - 1;
                continue;
            }
            let mut ended = draft.ended;
            if free {
                self.end_turn(&mut text, &mut ended);
                if text.is_empty() && !ended && draft.tokens.len() == limit {
                    // It may all be the beginning of another turn.
                    limit += MAX_STOP_TOKENS;
                    continue;
                }
                text = self.without_lead(text);
            }
            return Ok(Draft {
                text,
                ended,
                tokens: draft.tokens.len(),
                second: None,
            });
        }
    }
}
