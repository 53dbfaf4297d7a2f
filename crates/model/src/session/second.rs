//! Second drafts: the last draft with another token where the model was least sure.

use super::{Draft, Session};
use crate::error::ModelError;
use crate::sampling::Sampler;
use crate::slots::{DRAFT, PREFIX};

impl Session {
    /// Draws another draft after the last one (AdaFuse, arXiv 2601.06022). It begins with the last
    /// draft's tokens before the least probable of those at `places` (ascending indices into the
    /// draft). There it has the most probable other token, and then continues as
    /// [`draft`](Self::draft). Also returns whether that token is more probable than the drawn one.
    ///
    /// `None` if the drawn token is more probable by `margin` or more, and in models with recurrent
    /// states, whose state can't return to that place. Rows of the last draft after the place are
    /// overwritten, so that verification runs them again.
    ///
    /// # Errors
    /// As [`draft`](Self::draft).
    pub async fn draft_second(
        &mut self,
        places: &[usize],
        margin: f64,
        limit: usize,
        sampler: &mut Sampler,
        end_ids: &[u32],
    ) -> Result<Option<(Draft, bool)>, ModelError> {
        // A token's probability is known by the state before it.
        let known = self.drafted.len().min(self.ran + 1);
        let places = places.iter().copied().filter(|&place| place < known);
        let places: Vec<usize> = places.collect();
        let limit = limit.min(self.about().context - self.prefix.len());
        let stretched = self.model.needs_long_rope(self.prefix.len() + limit);
        if places.is_empty() || self.states.is_some() || stretched {
            return Ok(None);
        }
        let before = |place: usize| place.checked_sub(1).map_or(PREFIX, |last| DRAFT + last);
        let slots: Vec<usize> = places.iter().map(|&place| before(place)).collect();
        let tokens: Vec<u32> = places.iter().map(|&place| self.drafted[place]).collect();
        let scores = self.model.scores(&slots, &tokens, true).await?;
        let sureness = scores.iter().map(|score| score.logprob().unwrap_or(0.0));
        let least = places
            .iter()
            .zip(sureness)
            .min_by(|a, b| a.1.total_cmp(&b.1));
        let Some((&place, _)) = least else {
            return Ok(None);
        };
        let logits = self.model.logits(&[before(place)]).await?;
        let logits = logits.first().map(Vec::as_slice).unwrap_or_default();
        let drawn = self.drafted[place];
        let Some((other, likelier)) = alternative(logits, drawn, margin) else {
            return Ok(None);
        };
        let mut begun = self.drafted[..place].to_vec();
        if end_ids.contains(&other) {
            let ended = !begun.is_empty();
            let draft = Draft {
                tokens: begun,
                ended,
            };
            return Ok(ended.then_some((draft, likelier)));
        }
        begun.push(other);
        let draft = self.draft_from(begun, limit, sampler, end_ids).await?;
        Ok(Some((draft, likelier)))
    }
}

/// The most probable token but `drawn`, if its probability is less than `margin` below that of
/// `drawn`, and whether it is above.
fn alternative(logits: &[f32], drawn: u32, margin: f64) -> Option<(u32, bool)> {
    let others = logits.iter().enumerate();
    let others = others.filter(|&(id, _)| id != drawn as usize);
    let (other, &logit) = others.max_by(|a, b| a.1.total_cmp(b.1))?;
    let own = f64::from(*logits.get(drawn as usize)?);
    let most = own.max(f64::from(logit));
    let sum: f64 = logits
        .iter()
        .map(|&one| (f64::from(one) - most).exp())
        .sum();
    let lead = ((own - most).exp() - (f64::from(logit) - most).exp()) / sum;
    let other = u32::try_from(other).ok()?;
    (lead < margin).then_some((other, lead < 0.0))
}

#[cfg(test)]
mod tests {
    use super::alternative;

    #[test]
    fn the_other_token_is_near_the_drawn_one() {
        // Probabilities 0.5, 0.3, 0.2.
        let logits = [0.5_f32.ln(), 0.3_f32.ln(), 0.2_f32.ln()];
        assert_eq!(alternative(&logits, 0, 0.21), Some((1, false)));
        assert_eq!(alternative(&logits, 0, 0.19), None);
        // A token drawn though others are more probable.
        assert_eq!(alternative(&logits, 2, 0.1), Some((0, true)));
        assert_eq!(alternative(&[f32::NAN, 0.0], 1, 0.5), None);
        assert_eq!(alternative(&[], 0, 1.0), None);
    }
}
