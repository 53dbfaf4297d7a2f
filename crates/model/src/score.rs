//! Scores of candidates.

use serde::Serialize;

use crate::pass::TargetScore;

/// A candidate's score by one verifier, in its own tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Score {
    /// Mean raw logit of the candidate's tokens.
    pub mean_logit: f64,
    /// Mean ln p of the candidate's tokens, where it was asked for.
    pub mean_logprob: Option<f64>,
    /// −ln(1 + Σ (1/p − 1)) of the candidate's tokens, where ln p was asked for.
    pub harmonic: Option<f64>,
    /// Number of tokens.
    pub tokens: usize,
}

impl Score {
    /// The mean over the tokens of a candidate.
    pub(crate) fn mean(tokens: &[TargetScore]) -> Self {
        let count = tokens.len() as f64;
        let logits: f64 = tokens.iter().map(|token| f64::from(token.logit)).sum();
        let logprobs = tokens.iter().map(|token| token.logprob().map(f64::from));
        let logprobs: Option<Vec<f64>> = logprobs.collect();
        Self {
            mean_logit: logits / count,
            mean_logprob: logprobs.as_ref().map(|all| all.iter().sum::<f64>() / count),
            harmonic: logprobs.as_deref().map(harmonic),
            tokens: tokens.len(),
        }
    }
}

/// Log-probability at and below which 1/p is so large that adding 1 is lost to rounding.
const FAR: f64 = -30.0;

/// −ln(1 + Σ (1/p − 1)) over tokens with these ln p. It is finite even where 1/p overflows.
fn harmonic(logprobs: &[f64]) -> f64 {
    // Rounding may put ln p of a sure token above 0.
    let nats = logprobs.iter().map(|one| one.min(0.0));
    let least = nats.clone().fold(0.0, f64::min);
    if least > FAR {
        return -nats.map(|one| (-one).exp_m1()).sum::<f64>().ln_1p();
    }
    least - nats.map(|one| (least - one).exp()).sum::<f64>().ln()
}
