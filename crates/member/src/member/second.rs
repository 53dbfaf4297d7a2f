//! Second candidates: a draft that differs from the last one where the model was least sure.

use super::{Draft, Member};
use crate::error::MemberError;

impl Member {
    /// Drafts for a round, as [`draft`](Self::draft) and with two conditions. Where `novel`, no
    /// token completes a run of six that the answer has already, except under a constraint and by a
    /// model that thinks. If the drawn token's probability at the start of a word is not larger
    /// than another's by `branch`, a draft that ends the answer comes with a second one. If both
    /// end it, the second is the one with the less probable token there.
    ///
    /// # Errors
    /// As [`draft`](Self::draft).
    pub async fn draft_for_round(
        &mut self,
        limit: usize,
        branch: f64,
        novel: bool,
    ) -> Result<Draft, MemberError> {
        let mut draft = match novel {
            true => self.draft_novel(limit).await?,
            false => self.draft(limit).await?,
        };
        if branch > 0.0
            && let Some((mut second, likelier)) = self.draft_second(&draft, limit, branch).await?
        {
            // Where a draft is drawn, its token there may be the less probable one.
            if likelier && second.ended && !second.text.trim().is_empty() {
                std::mem::swap(&mut draft, &mut second);
            }
            draft.second = Some(Box::new(second));
        }
        Ok(draft)
    }

    /// Draws a second draft after `first`, the [`draft`](Self::draft) of the same `limit`. The two
    /// part where the model was least sure of a word's first token: the second has the most
    /// probable other token there, if the first's is not larger by `margin`; with whether it is
    /// more probable than the first's. `None` under a constraint, after a thought, or if the first
    /// draft does not end the answer: another wording of a beginning seldom wins, and costs as much
    /// to verify.
    ///
    /// # Errors
    /// As [`draft`](Self::draft).
    async fn draft_second(
        &mut self,
        first: &Draft,
        limit: usize,
        margin: f64,
    ) -> Result<Option<(Draft, bool)>, MemberError> {
        if !first.ended || self.constraint.is_some() || self.thought {
            return Ok(None);
        }
        let mut decoder = self.tokenizer.decoder();
        let drafted = self.session.drafted().iter().enumerate();
        let begins = |(place, &id): (usize, &u32)| {
            let begins = decoder.push(id).starts_with(char::is_whitespace);
            (begins || place == 0).then_some(place)
        };
        let words: Vec<usize> = drafted.filter_map(begins).collect();
        let ends = self.tokenizer.end_ids();
        let sampler = &mut self.sampler;
        let drafting = self
            .session
            .draft_second(&words, margin, limit, sampler, ends);
        let second = drafting.await?;
        Ok(second.map(|(draft, likelier)| (self.read(&draft.tokens, draft.ended), likelier)))
    }
}
