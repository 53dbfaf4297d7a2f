//! Embeddings of a request's texts.

use conclave_member::Passage;
use conclave_rounds::TakePart;

use super::{Event, Run, Usage};
use crate::error::ApiError;

impl<M: TakePart> Run<'_, M> {
    /// Embeds texts one after another by the asked member.
    pub(super) async fn embed(&mut self, passages: &[Passage]) -> Result<Usage, ApiError> {
        let member = self.asked().start;
        let mut usage = Usage::default();
        for passage in passages {
            if !self.goes_on() {
                return Err(ApiError::closing());
            }
            let made = self.members[member].embed(passage).await?;
            usage.prompt += made.tokens;
            self.tell(Event::Embedded(made.vector));
        }
        Ok(usage)
    }
}
