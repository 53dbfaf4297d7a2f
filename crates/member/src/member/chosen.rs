//! Log-probabilities of the tokens of an answer, with the likeliest tokens at each place.

use super::Member;
use crate::error::MemberError;

/// A token of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ChosenToken {
    /// Its bytes, which may be a part of a character.
    pub bytes: Vec<u8>,
    /// ln p of it after all tokens before it.
    pub logprob: f64,
    /// The likeliest tokens at its place with their ln p, the likeliest first.
    pub likeliest: Vec<(Vec<u8>, f64)>,
}

impl Member {
    /// Log-probabilities of the tokens kept for the present answer, each with `most` alternatives.
    /// They are those of the model's whole distribution, without sampling settings or constraint.
    /// The bytes of all tokens joined are the answer: the white space before it in this member's
    /// template is no part of its first token, nor of that token's alternatives, and a token of
    /// nothing else is left out.
    ///
    /// Runs the answer again, one token after another. Before each, `go_on` returns whether to
    /// continue; `None` if it ended this.
    ///
    /// # Errors
    /// The backend's.
    pub async fn chosen(
        &mut self,
        most: usize,
        mut go_on: impl FnMut() -> bool,
    ) -> Result<Option<Vec<ChosenToken>>, MemberError> {
        let ids = self.session.prefix().to_vec();
        let begin = self.answer_at.unwrap_or(ids.len());
        if begin == ids.len() {
            return Ok(Some(Vec::new()));
        }
        // A given beginning has its white space in the prompt.
        let mut lead = match self.begun.is_empty() {
            true => self.lead.clone().into_bytes(),
            false => Vec::new(),
        };
        self.session.prefill(&ids[..begin]).await?;
        let mut chosen = Vec::with_capacity(ids.len() - begin);
        for &id in &ids[begin..] {
            if !go_on() {
                return Ok(None);
            }
            let bytes = self.bytes(id);
            if !lead.is_empty() && lead.starts_with(&bytes) {
                lead.drain(..bytes.len());
            } else {
                let logprobs = normalised(&self.session.next_logits().await?);
                let likeliest = likeliest(&logprobs, most).into_iter();
                let likeliest =
                    likeliest.map(|id| (without(&lead, self.bytes(id)), logprobs[id as usize]));
                chosen.push(ChosenToken {
                    likeliest: likeliest.collect(),
                    bytes: without(&lead, bytes),
                    logprob: logprobs[id as usize],
                });
                lead.clear();
            }
            self.session.go_on(&[id]).await?;
        }
        Ok(Some(chosen))
    }

    /// The bytes of a token; a control token's are those of its name.
    fn bytes(&self, id: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.tokenizer.spell(id, &mut bytes);
        if bytes.is_empty() {
            bytes.extend(self.tokenizer.token(id).unwrap_or_default().bytes());
        }
        bytes
    }
}

/// A token's bytes without the white space that leads an answer; a token of nothing else keeps it.
fn without(lead: &[u8], bytes: Vec<u8>) -> Vec<u8> {
    match bytes.strip_prefix(lead) {
        Some(rest) if !rest.is_empty() => rest.to_vec(),
        _ => bytes,
    }
}

/// The `most` likeliest tokens, the likeliest first.
fn likeliest(logprobs: &[f64], most: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..logprobs.len() as u32).collect();
    let better = |a: &u32, b: &u32| logprobs[*b as usize].total_cmp(&logprobs[*a as usize]);
    let most = most.min(order.len());
    if most > 0 {
        order.select_nth_unstable_by(most - 1, better);
    }
    order.truncate(most);
    order.sort_by(better);
    order
}

/// ln p of each token by its logit.
fn normalised(logits: &[f32]) -> Vec<f64> {
    let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let above = |logit: f32| f64::from(logit - highest);
    let sum: f64 = logits.iter().map(|&logit| above(logit).exp()).sum();
    let log_sum = sum.ln();
    let logprobs = logits.iter().map(|&logit| above(logit) - log_sum);
    logprobs.collect()
}
