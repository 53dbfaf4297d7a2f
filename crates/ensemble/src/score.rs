//! Scores, and their normalisation to shares (Eq. 3).
//!
//! A verifier's row of scores, one per candidate, becomes a row of shares: all positive, summing to
//! 1, in the order of the scores. The row of a verifier that abstains is empty and stays so.
//!
//! **Logit.** ŝ_ij = s_ij / Σ_j' s_ij'. Eq. 3 assumes positive scores, but logits are defined
//! only up to a constant: a row of negative ones would be ranked in reverse, and a row summing to
//! nearly 0 would overflow. Guard: let m be the row's smallest score and M its largest magnitude. A
//! row with m ≥ 10⁻⁶·M is left to Eq. 3. Any other row is first shifted by one constant, to
//! s − m + max(−m, 10⁻⁶·M): its smallest score m < 0 becomes |m|. So a row of negative
//! logits separates its candidates as strongly as positive ones of that size would; order is kept;
//! shares are continuous in the scores; and a verifier's scale, which multiplies s, m and M alike,
//! cancels. A row of zeros is uniform.
//!
//! **Harmonic.** s_ij = 1 / (F + u_ij) with the surprise u_ij = ln(1 + Σ_t (1/p_t − 1)) over the
//! tokens t of c_j, in nats; p_t is the verifier's probability of each, F = 0.5 ([`FLOOR`]). Σ 1/p
//! is the number of tokens over the harmonic mean of the probabilities, and the least likely tokens
//! dominate it: a mean forgives one impossible word among nine that follow from it, this does not,
//! and a candidate gains nothing from more words that cost nothing. A token that the verifier is
//! sure of adds nothing, so the first 32 tokens of a long answer and a short finished answer are
//! compared on equal terms. The score is positive, so ŝ_ij is Eq. 3 unchanged: a candidate with
//! twice the surprise has half the share, however far apart the likelihoods are. Verifiers report
//! −u_ij.
//!
//! **Likelihood.** ŝ_ij = exp(ℓ_ij) / Σ_j' exp(ℓ_ij') with ℓ the mean log-probability.
//! (Log-probabilities over their sum would rank in reverse: all are negative.) This is Eq. 3 of the
//! geometric means of the tokens' probabilities.
//!
//! **Preference.** ŝ_ij = s_ij / Σ_j' s_ij' with s_ij > 0 the preference of a judge without
//! logits.
//!
//! Verifiers differ: a server reports log-probabilities and no logits, a model that only chats has
//! neither. A row without the scoring's kind is treated as a likelihood, else as a preference
//! ([`shares`]); shares of all kinds mean the same. Logits are never a fallback: members with
//! logits have log-probabilities too if the scoring uses them.
//!
//! A score that isn't finite is an error, not a neutral row: it means that the verifier's logits
//! are broken, and continuing would hide that.

use serde::{Deserialize, Serialize};

use crate::{RoundError, Scoring};

/// Fraction of the row's largest magnitude below which a smallest score needs the guard.
const GUARD: f64 = 1e-6;

/// Nats added to every surprise, so that the score of a candidate without surprise is finite.
pub const FLOOR: f64 = 0.5;

/// Nats from which 1/p is so large that adding 1 is lost to rounding.
const FAR: f64 = 30.0;

/// Largest distance (nats) below the row's best log-probability that counts, so that every share
/// stays positive.
const FARTHEST: f64 = 700.0;

/// A verifier's scores of a candidate: means over the candidate's tokens in the verifier's own
/// tokenisation. Probabilities p need the whole vocabulary at every token, so they are computed
/// only if the scoring uses them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct Score {
    /// Mean raw logit of the candidate's tokens; servers don't report it.
    #[serde(alias = "mean_logit", default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "ts", ts(optional))]
    pub mean_logit: Option<f64>,
    /// Mean log-probability (nats) of the candidate's tokens, if the scoring uses it.
    #[serde(
        alias = "mean_logprob",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "ts", ts(optional))]
    pub mean_logprob: Option<f64>,
    /// −ln(1 + Σ_t (1/p_t − 1)) over the candidate's tokens, if the scoring uses it: 0 if the
    /// verifier is sure of all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "ts", ts(optional))]
    pub harmonic: Option<f64>,
    /// Preference of a judge without logits for the candidate: above 0; only its ratio to the
    /// others in the row counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "ts", ts(optional))]
    pub preference: Option<f64>,
}

/// A verifier's score of one candidate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase", from = "Flat")]
pub struct VerifiedScore {
    /// Scores that the method uses.
    #[serde(flatten)]
    pub score: Score,
    /// Tokens of the candidate in the verifier's tokenisation.
    pub tokens: usize,
}

/// A [`VerifiedScore`] as deserialised.
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

/// Normalisation of a row of scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Shares by the formula of this scoring.
    By(Scoring),
    /// Each score divided by the sum of the row.
    Preference,
}

impl Score {
    /// The score of `kind`, if reported.
    pub fn value(&self, kind: Kind) -> Option<f64> {
        match kind {
            Kind::By(Scoring::Harmonic) => self.harmonic,
            Kind::By(Scoring::Logit) => self.mean_logit,
            Kind::By(Scoring::Likelihood) => self.mean_logprob,
            Kind::Preference => self.preference,
        }
    }

    /// Kind used under `scoring`: its own, or the first fallback that is present; `None` if there
    /// is none.
    pub fn kind(&self, scoring: Scoring) -> Option<Kind> {
        let kinds = [
            Kind::By(scoring),
            Kind::By(Scoring::Likelihood),
            Kind::Preference,
        ];
        kinds.into_iter().find(|&kind| self.value(kind).is_some())
    }

    /// Score from the log-probabilities (nats) of the candidate's tokens, as servers report them.
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
            // Divided by the largest, so that nothing overflows.
            most + nats.map(|one| (one - most).exp()).sum::<f64>().ln()
        };
        Self {
            mean_logprob: Some(logprobs.iter().sum::<f64>() / logprobs.len() as f64),
            harmonic: Some(-surprise),
            ..Self::default()
        }
    }

    /// Surprise of the verifier at the candidate in nats, ln(1 + Σ_t (1/p_t − 1)) over its
    /// tokens, dominated by the least likely ones. NaN without log-probabilities.
    pub fn surprise(&self) -> f64 {
        let finite = self.harmonic.filter(|score| score.is_finite());
        finite.map_or(f64::NAN, surprise)
    }
}

/// Normalises a verifier's `row` of scores (`[candidates]`) to shares, by the kind of `scoring` or
/// its first fallback that is present. An empty row stays empty.
///
/// `verifier` is the row's index, for the error.
///
/// # Errors
/// [`RoundError::Kind`] for scores of different kinds or of none, or a preference that is not above
/// 0; [`RoundError::NotFinite`].
pub fn shares(scoring: Scoring, verifier: usize, row: &[Score]) -> Result<Vec<f64>, RoundError> {
    let kind = row.first().and_then(|score| score.kind(scoring));
    let mut numbers = Vec::with_capacity(row.len());
    for (candidate, score) in row.iter().enumerate() {
        let number = kind
            .filter(|_| score.kind(scoring) == kind)
            .and_then(|kind| score.value(kind))
            .filter(|&number| kind != Some(Kind::Preference) || number > 0.0);
        numbers.push(number.ok_or(RoundError::Kind {
            verifier,
            candidate,
        })?);
    }
    by(kind.unwrap_or(Kind::Preference), verifier, &numbers)
}

/// Normalises a verifier's `row` (`[candidates]`) of scores of the kind `scoring` to shares
/// (`[candidates]`). An empty row stays empty.
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

/// Surprise in nats, at least 0, of a harmonic `score` (−u). Rounding may put that of a sure
/// candidate above 0; it counts as 0.
fn surprise(score: f64) -> f64 {
    (-score).max(0.0)
}

/// The row divided by its largest magnitude, shifted if it isn't clearly positive.
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
        // The row sums to 0: Eq. 3 alone would divide by zero.
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
        let sum = 2.0 + (-1_f64).exp();
        close(&shares, &[1.0 / sum, (-1_f64).exp() / sum, 1.0 / sum]);
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
        // Twice the surprise, half the share.
        let shares = normalise(Scoring::Harmonic, 0, &[-19.5, -39.5]).unwrap();
        assert!((shares[0] / shares[1] - 2.0).abs() < 1e-8, "{shares:?}");
        // Sure tokens add no surprise, however many they are.
        let sure = Score::of_logprobs(&[[-0.5].as_slice(), &[0.0; 40]].concat());
        let short = Score::of_logprobs(&[-0.5]);
        assert!((sure.surprise() - short.surprise()).abs() < 1e-12);
        // No jump where 1/p overflows.
        for nats in [29.999_999, 30.000_001, 600.0, 2000.0] {
            let score = Score::of_logprobs(&[-nats, -1.0]);
            assert!((score.surprise() - nats).abs() < 1e-6, "{nats}: {score:?}");
        }
        // A certain candidate has a finite score, and one beyond the range of floats a score above
        // 0.
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
