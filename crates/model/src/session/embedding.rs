//! Embeddings: the states of a text's tokens as one vector.

use super::Session;
use crate::error::ModelError;
use crate::pooling::Pooling;
use crate::slots::PASS;

impl Session {
    /// The embedding of a text: its states after the final norm, pooled, `[hidden]` with a length
    /// of 1, as OpenAI's are. The text may fill the whole context. The prefix is forgotten.
    ///
    /// # Errors
    /// [`ModelError::NoToken`], [`ModelError::ContextFull`], [`ModelError::NotFinite`], or the
    /// backend's.
    pub async fn embedding(
        &mut self,
        tokens: &[u32],
        pooling: Pooling,
    ) -> Result<Vec<f32>, ModelError> {
        if tokens.is_empty() {
            return Err(ModelError::NoToken);
        }
        self.check_room(tokens)?;
        self.forget_prefix();
        self.model.rotate_for(tokens.len())?;
        let wanted = pooling.tokens(tokens.len());
        let mut sum = vec![0.0; self.about().config.hidden];
        for chunk in tokens.chunks(self.model.prefill_chunk()) {
            let begin = self.prefix.len();
            let state = self.run_after_prefix(chunk)?;
            self.counters.prefill_tokens += chunk.len();
            let places = wanted.start.max(begin)..wanted.end.min(begin + chunk.len());
            let slots: Vec<usize> = places.map(|place| PASS + place - begin).collect();
            match slots.is_empty() {
                true => self.model.settle().await?,
                false => add(&mut sum, &self.model.hidden(&slots).await?),
            }
            self.accept(chunk, state);
        }
        self.forget_prefix();
        normalised(&sum)
    }
}

/// Adds rows to their sum, in more digits than they have.
fn add(sum: &mut [f64], rows: &[Vec<f32>]) {
    for row in rows {
        for (sum, &number) in sum.iter_mut().zip(row) {
            *sum += f64::from(number);
        }
    }
}

/// The vector with a length of 1; a mean has the direction of its sum.
fn normalised(vector: &[f64]) -> Result<Vec<f32>, ModelError> {
    let length = vector.iter().map(|one| one * one).sum::<f64>().sqrt();
    if !length.is_normal() {
        return Err(ModelError::NotFinite);
    }
    #[expect(clippy::cast_possible_truncation, reason = "at most 1")]
    let shortened = vector.iter().map(|one| (one / length) as f32);
    Ok(shortened.collect())
}
