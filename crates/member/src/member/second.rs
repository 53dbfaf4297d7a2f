//! Second candidates: a draft that differs from the last one where the model was least sure.

use super::{Draft, Member};
use crate::error::MemberError;

impl Member {
    /// Draws a second draft after `first`, the [`draft`](Self::draft) of the same `limit`: where the
    /// model was least sure of a word's first token, with the most probable other token there, if
    /// the two probabilities differ by less than `margin`. `None` where the first does not end the
    /// answer (another wording of a beginning seldom wins, and costs as much to verify), under a
    /// constraint or after a thought.
    ///
    /// # Errors
    /// As [`draft`](Self::draft).
    pub async fn draft_second(
        &mut self,
        first: &Draft,
        limit: usize,
        margin: f64,
    ) -> Result<Option<Draft>, MemberError> {
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
        let draft = drafting.await?;
        Ok(draft.map(|draft| self.read(&draft.tokens, draft.ended)))
    }
}
