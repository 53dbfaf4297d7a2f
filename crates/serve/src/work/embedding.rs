//! Embeddings of a request's texts.

use conclave_member::Passage;
use conclave_rounds::{MoveError, TakePart};

use super::{Event, Run, Usage};
use crate::error::ApiError;

const NOT_HERE: &str = "Its model runs on another server, and only a model that runs here embeds \
    texts. Ask a member whose model runs here.";

impl<M: TakePart> Run<'_, M> {
    /// Embeds texts one after another by the asked member.
    pub(super) async fn embed(&mut self, passages: &[Passage]) -> Result<Usage, ApiError> {
        let member = self.asked().start;
        let mut usage = Usage::default();
        for passage in passages {
            if !self.goes_on() {
                return Err(ApiError::closing());
            }
            let made = self.members[member].embed(passage).await;
            let made = made.map_err(|error| match error {
                // The members share no space of vectors, so that the ensemble is no way out.
                MoveError::Unknown(_) => ApiError::option("model", NOT_HERE),
                error => error.into(),
            })?;
            usage.prompt += made.tokens;
            self.tell(Event::Embedded(made.vector));
        }
        Ok(usage)
    }
}
