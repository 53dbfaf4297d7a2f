//! Scores, and their normalisation to shares (Eq. 3).
//!
//! A verifier's row of scores, one a candidate, becomes a row of shares: all positive, summing
//! to 1, in the order of the scores. The row of one that abstains is empty and stays so.
//!
//! **Logit.** ŝ_ij = s_ij / Σ_j' s_ij'. Eq. 3 assumes positive scores, and logits are defined only
//! up to a constant: a row of negative ones would have its ranking reversed, a row summing to
//! nearly 0 would blow up. Guard: let m be the row's smallest score and M its largest magnitude. A
//! row with m ≥ 10⁻⁶·M is left to Eq. 3. Any other row is first shifted by one constant, to
//! s − m + max(−m, 10⁻⁶·M): its smallest score m < 0 becomes |m|. So a row of negative logits
//! separates its candidates as strongly as positive ones of that size would; order is kept; the
//! shares are continuous in the scores; and a verifier's scale, which multiplies s, m and M
//! alike, changes nothing. A row of zeros is uniform.
//!
//! **Harmonic.** s_ij = 1 / (F + u_ij) with the surprise u_ij = ln(1 + Σ_t (1/p_t − 1)) over the
//! tokens t of c_j, in nats; p_t is the verifier's probability of each, F = 0.5 ([`FLOOR`]). Σ 1/p
//! is the number of tokens over the harmonic mean of the probabilities, and it is ruled by the
//! least likely ones: where a mean forgives one impossible word among nine that follow from it,
//! this does not, and a longer candidate is not the better one for the words that cost nothing. A
//! token that the verifier is sure of adds nothing, so that the first 32 tokens of a long answer
//! and a short answer that is over are compared on equal terms. The score is positive, so ŝ_ij is
//! Eq. 3 as it stands: a candidate that surprises twice as much as another has half of its share,
//! however far apart their likelihoods are. Verifiers give −u_ij.
//!
//! **Likelihood.** ŝ_ij = exp(ℓ_ij) / Σ_j' exp(ℓ_ij') with ℓ the mean log-probability.
//! (Log-probabilities over their sum would rank backwards: all are negative.)
//!
//! **Preference.** ŝ_ij = s_ij / Σ_j' s_ij' with s_ij > 0 what a judge without logits prefers c_j
//! by.
//!
//! Verifiers differ: one behind a server has log-probabilities and no logits, one that only chats
//! has neither. A row that lacks what the scoring looks at is taken for a likelihood, else for a
//! preference ([`shares`]); shares of either kind mean the same. Logits stand in for nothing: all
//! that have them have log-probabilities where the scoring looks at those.
//!
//! A score that isn't finite is an error, not a neutral row: it means that the verifier's logits
//! are broken, and an answer that goes on as if nothing had happened would hide it.

use serde::{Deserialize, Serialize};

use crate::{RoundError, Scoring};

/// Scores below this fraction of the row's largest magnitude call for the guard.
const GUARD: f64 = 1e-6;

/// Nats that are added to every surprise: a candidate that surprises nobody has a finite score.
pub const FLOOR: f64 = 0.5;

/// Nats from which on 1/p is large enough that 1 beside it is lost.
const FAR: f64 = 30.0;

/// Log-probabilities this far (in nats) behind the row's best are scored as if no farther, so that
/// every share stays positive.
const FARTHEST: f64 = 700.0;

/// What a verifier says of a candidate: means over the candidate's tokens in the verifier's own
/// tokenisation. Probabilities p need the whole vocabulary at every token: what is made of them is
/// there only where the scoring looks at it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct Score {
    /// Mean raw logit of the candidate's tokens; servers don't tell it.
    #[serde(alias = "mean_logit", default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "ts", ts(optional))]
    pub mean_logit: Option<f64>,
    /// Mean log-probability (nats) of the candidate's tokens, where the scoring looks at it.
    #[serde(
        alias = "mean_logprob",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "ts", ts(optional))]
    pub mean_logprob: Option<f64>,
    /// −ln(1 + Σ_t (1/p_t − 1)) over the candidate's tokens, likewise: 0 where all are sure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "ts", ts(optional))]
    pub harmonic: Option<f64>,
    /// What a judge without logits prefers the candidate by: above 0, only its ratio to the row's
    /// others counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "ts", ts(optional))]
    pub preference: Option<f64>,
}

/// A verifier's score of one candidate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase", from = "Flat")]
pub struct VerifiedScore {
    /// What the method judges by.
    #[serde(flatten)]
    pub score: Score,
    /// Tokens of the candidate in the verifier's tokenisation.
    pub tokens: usize,
}

/// A [`VerifiedScore`] as it is read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Flat {
    mean_logit: Option<f64>,
    mean_logprob: Option<f64>,
    harmonic: Option<f64>,
    preference: Option<f64>,
    tokens: usize,
}

impl From<Flat> for VerifiedScore {
    fn from(flat: Flat) -> Self {
        let score = Score {
            mean_logit: flat.mean_logit,
            mean_logprob: flat.mean_logprob,
            harmonic: flat.harmonic,
            preference: flat.preference,
        };
        let tokens = flat.tokens;
        Self { score, tokens }
    }
}

/// What a row of scores is normalised by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// As this scoring does.
    By(Scoring),
    /// By their sum.
    Preference,
}

impl Score {
    /// What of `kind` the verifier has given.
    pub fn of(&self, kind: Kind) -> Option<f64> {
        match kind {
            Kind::By(Scoring::Harmonic) => self.harmonic,
            Kind::By(Scoring::Logit) => self.mean_logit,
            Kind::By(Scoring::Likelihood) => self.mean_logprob,
            Kind::Preference => self.preference,
        }
    }

    /// What it is under `scoring`: that, or the next best it has. `None` if it has nothing.
    pub fn kind(&self, scoring: Scoring) -> Option<Kind> {
        let kinds = [
            Kind::By(scoring),
            Kind::By(Scoring::Likelihood),
            Kind::Preference,
        ];
        kinds.into_iter().find(|&kind| self.of(kind).is_some())
    }

    /// From the log-probabilities (nats) of the candidate's tokens, as a server tells them.
    ///
    /// ```
    /// use conclave_ensemble::Score;
    ///
    /// let score = Score::of_logprobs(&[-1.0, -3.0]);
    /// assert_eq!(score.mean_logprob, Some(-2.0));
    /// assert!((score.harmonic.unwrap() + (1f64.exp() + 3f64.exp() - 1.0).ln()).abs() < 1e-12);
    /// ```
    pub fn of_logprobs(logprobs: &[f64]) -> Self {
        let nats = logprobs.iter().map(|logprob| (-logprob).max(0.0));
        let most = nats.clone().fold(0.0, f64::max);
        let surprise = if most < FAR {
            nats.map(f64::exp_m1).sum::<f64>().ln_1p()
        } else {
            // Over the largest of them, so that nothing overflows.
            most + nats.map(|one| (one - most).exp()).sum::<f64>().ln()
        };
        Self {
            mean_logprob: Some(logprobs.iter().sum::<f64>() / logprobs.len() as f64),
            harmonic: Some(-surprise),
            ..Self::default()
        }
    }

    /// ln(1 + Σ_t (1/p_t − 1)) over the candidate's tokens, in nats: what it surprises the verifier
    /// by, most of it by its least likely tokens. NaN without log-probabilities.
    pub fn surprise(&self) -> f64 {
        let finite = self.harmonic.filter(|score| score.is_finite());
        finite.map_or(f64::NAN, surprise)
    }
}

/// Normalises a verifier's `row` of scores (`[candidates]`) to shares, by what `scoring` looks at
/// or the next best that it has. An empty row gives an empty row.
///
/// `verifier` is the row's index, for the error.
///
/// # Errors
/// [`RoundError::Kind`] where the scores are of different kinds or have none, or a preference is
/// not above 0; [`RoundError::NotFinite`].
pub fn shares(scoring: Scoring, verifier: usize, row: &[Score]) -> Result<Vec<f64>, RoundError> {
    let kind = row.first().and_then(|score| score.kind(scoring));
    let mut numbers = Vec::with_capacity(row.len());
    for (candidate, score) in row.iter().enumerate() {
        let number = kind
            .filter(|_| score.kind(scoring) == kind)
            .and_then(|kind| score.of(kind))
            .filter(|&number| kind != Some(Kind::Preference) || number > 0.0);
        numbers.push(number.ok_or(RoundError::Kind {
            verifier,
            candidate,
        })?);
    }
    by(kind.unwrap_or(Kind::Preference), verifier, &numbers)
}

/// Normalises a verifier's `row` (`[candidates]`) of what `scoring` looks at to shares
/// (`[candidates]`). An empty row gives an empty row.
///
/// `verifier` is the row's index, for the error.
///
/// # Errors
/// [`RoundError::NotFinite`] for a NaN or an infinite score.
///
/// ```
/// use conclave_ensemble::{Scoring, score::normalise};
///
/// let shares = normalise(Scoring::Logit, 0, &[2.3, 2.6, 3.2])?;
/// assert!((shares[2] - 0.395).abs() < 5e-4);
/// // Negative logits keep their order.
/// let shares = normalise(Scoring::Logit, 0, &[-3.0, -1.0])?;
/// assert!(shares[1] > shares[0] && shares[0] > 0.0);
/// # Ok::<(), conclave_ensemble::RoundError>(())
/// ```
pub fn normalise(scoring: Scoring, verifier: usize, row: &[f64]) -> Result<Vec<f64>, RoundError> {
    by(Kind::By(scoring), verifier, row)
}

fn by(kind: Kind, verifier: usize, row: &[f64]) -> Result<Vec<f64>, RoundError> {
    if let Some(candidate) = row.iter().position(|score| !score.is_finite()) {
        return Err(RoundError::NotFinite {
            verifier,
            candidate,
        });
    }
    let best = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let positive: Vec<f64> = match kind {
        Kind::By(Scoring::Logit) => guarded(row),
        Kind::By(Scoring::Harmonic) => row
            .iter()
            .map(|&score| 1.0 / (FLOOR + surprise(score)))
            .collect(),
        Kind::By(Scoring::Likelihood) => row
            .iter()
            .map(|score| (score - best).max(-FARTHEST).exp())
            .collect(),
        Kind::Preference => row.iter().map(|score| score / best).collect(),
    };
    let sum: f64 = positive.iter().sum();
    Ok(positive.iter().map(|value| value / sum).collect())
}

/// Nats of a `score`; rounding may put one of a sure candidate above 0.
fn surprise(score: f64) -> f64 {
    (-score).max(0.0)
}

/// The row over its largest magnitude, shifted if it isn't clearly positive.
fn guarded(row: &[f64]) -> Vec<f64> {
    let magnitude = row
        .iter()
        .fold(0.0, |most: f64, score| most.max(score.abs()));
    if magnitude == 0.0 {
        return vec![1.0; row.len()];
    }
    // In units of the magnitude nothing below can overflow.
    let row: Vec<f64> = row.iter().map(|score| score / magnitude).collect();
    let least = row.iter().copied().fold(f64::INFINITY, f64::min);
    if least >= GUARD {
        return row;
    }
    let shift = (-least).max(GUARD) - least;
    row.iter().map(|score| score + shift).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logit(row: &[f64]) -> Vec<f64> {
        normalise(Scoring::Logit, 0, row).unwrap()
    }

    fn close(a: &[f64], b: &[f64]) {
        assert_eq!(a.len(), b.len());
        for (x, y) in a.iter().zip(b) {
            assert!((x - y).abs() < 1e-9, "{a:?} against {b:?}");
        }
    }

    #[test]
    fn positive_rows_are_eq_3_to_the_letter() {
        close(&logit(&[1.0, 2.0, 5.0]), &[0.125, 0.25, 0.625]);
        close(&logit(&[1e-5, 1.0]), &[1e-5 / 1.00001, 1.0 / 1.00001]);
        close(&logit(&[7.0]), &[1.0]);
        assert!(logit(&[]).is_empty());
    }

    #[test]
    fn rows_that_are_not_positive_keep_order_and_stay_positive() {
        close(&logit(&[-10.0, -11.0]), &[12.0 / 23.0, 11.0 / 23.0]);
        // Sums to nothing: Eq. 3 alone would divide by zero.
        close(&logit(&[-5.0, 5.0]), &[0.25, 0.75]);
        close(&logit(&[0.0, 0.0, 0.0]), &[1.0 / 3.0; 3]);
        close(&logit(&[-2.0, -2.0]), &[0.5, 0.5]);
        close(&logit(&[-4.0]), &[1.0]);
        let zero = logit(&[0.0, 5.0]);
        assert!(zero[0] > 0.0 && zero[0] < 1e-5, "{zero:?}");
    }

    #[test]
    fn the_guard_has_no_jump() {
        for edge in [0.0, GUARD] {
            let (below, above) = (logit(&[edge - 1e-12, 1.0]), logit(&[edge + 1e-12, 1.0]));
            assert!((below[0] - above[0]).abs() < 1e-11, "{below:?} {above:?}");
        }
    }

    #[test]
    fn extreme_sizes_neither_overflow_nor_vanish() {
        close(&logit(&[f64::MAX, f64::MAX]), &[0.5, 0.5]);
        close(&logit(&[-f64::MAX, f64::MAX]), &[0.25, 0.75]);
        close(&logit(&[5e-324, 5e-324]), &[0.5, 0.5]);
        let shares = normalise(Scoring::Likelihood, 0, &[-f64::MAX, 0.0]).unwrap();
        assert!(shares[0] > 0.0 && shares[1] > 0.999);
    }

    #[test]
    fn likelihood_is_a_softmax() {
        let shares = normalise(Scoring::Likelihood, 0, &[-1.0, -2.0, -1.0]).unwrap();
        let sum = 2.0 + (-1f64).exp();
        close(&shares, &[1.0 / sum, (-1f64).exp() / sum, 1.0 / sum]);
    }

    #[test]
    fn harmonic_shares_are_eq_3_of_the_harmonic_scores() {
        // One impossible word among good ones, against a plain candidate; and one twice as long.
        let sums = [
            &[0.9, 0.001, 0.9, 0.9][..],
            &[0.3, 0.4],
            &[0.3, 0.4, 0.3, 0.4],
        ]
        .map(|p| p.iter().map(|p| 1.0 / p - 1.0).sum::<f64>());
        let scores = sums.map(|sum| 1.0 / (0.5 + (1.0 + sum).ln()));
        let all: f64 = scores.iter().sum();
        let row: Vec<f64> = sums.iter().map(|sum| -(1.0 + sum).ln()).collect();
        let shares = normalise(Scoring::Harmonic, 0, &row).unwrap();
        close(&shares, &scores.map(|score| score / all));
        assert!(shares[1] > shares[2] && shares[2] > 2.0 * shares[0]);
        // Twice the surprise, half of the share.
        let shares = normalise(Scoring::Harmonic, 0, &[-19.5, -39.5]).unwrap();
        assert!((shares[0] / shares[1] - 2.0).abs() < 1e-8, "{shares:?}");
        // Sure tokens add nothing: a long candidate is no more surprising for them.
        let sure = Score::of_logprobs(&[[-0.5].as_slice(), &[0.0; 40]].concat());
        let short = Score::of_logprobs(&[-0.5]);
        assert!((sure.surprise() - short.surprise()).abs() < 1e-12);
        // Where 1/p is no number, and just before: no jump.
        for nats in [29.999_999, 30.000_001, 600.0, 2000.0] {
            let score = Score::of_logprobs(&[-nats, -1.0]);
            assert!((score.surprise() - nats).abs() < 1e-6, "{nats}: {score:?}");
        }
        // What is certain is not infinitely good, and what no number holds is not worth nothing.
        let shares = normalise(Scoring::Harmonic, 0, &[0.0, -1e300]).unwrap();
        assert!(shares[1] > 0.0, "{shares:?}");
        close(
            &normalise(Scoring::Harmonic, 0, &[0.0, 0.0]).unwrap(),
            &[0.5, 0.5],
        );
    }

    #[test]
    fn broken_scores_are_named() {
        for broken in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for scoring in [Scoring::Logit, Scoring::Likelihood] {
                assert_eq!(
                    normalise(scoring, 2, &[1.0, broken]),
                    Err(RoundError::NotFinite {
                        verifier: 2,
                        candidate: 1
                    })
                );
            }
        }
    }
}
