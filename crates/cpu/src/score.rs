//! A token's logit and the normaliser of its row, without a buffer of all logits, or without the
//! other logits.

use crate::error::CpuError;
use crate::exp::{powers, scale, softcap};
use crate::input::Input;
use crate::lanes::{self, Lanes, Work};
use crate::matrix::Matrix;
use crate::threads;

/// Rows of the output matrix that a thread handles at once: their logits stay in the CPU's cache.
const ROWS: usize = 512;

/// Score of one token by the logits at its position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// The token's logit.
    pub logit: f32,
    /// ln Σ exp of all logits.
    pub log_sum_exp: f32,
}

/// Scores `targets[i]`, a row of `head`, by the logits of row `i` of `input`. `scratch` is reused
/// for its memory.
///
/// # Errors
/// [`CpuError::Shape`] for another number of targets than rows, or one beyond the matrix.
pub fn judge(
    head: &Matrix,
    bias: Option<&[f32]>,
    cap: Option<f32>,
    input: &Input,
    targets: &[u32],
    scratch: &mut Vec<f32>,
) -> Result<Vec<Judged>, CpuError> {
    check(head, input, targets)?;
    let (count, vocabulary) = (input.rows(), head.rows());
    let mut running = vec![Running::BEGUN; count];
    let most = ROWS * threads::sharing(usize::MAX);
    for begin in (0..vocabulary).step_by(most) {
        let rows = begin..vocabulary.min(begin + most);
        scratch.clear();
        scratch.resize(count * rows.len(), 0.0);
        head.times(input, rows.clone(), scratch)?;
        let logits = scratch.chunks_exact_mut(rows.len());
        let each = logits.zip(targets).zip(&mut running);
        threads::each(each, |((logits, &target), so_far)| {
            if let Some(bias) = bias.and_then(|bias| bias.get(rows.clone())) {
                crate::rows::add(logits, bias);
            }
            // As on one thread: the rounding of sums depends on where parts end.
            for (part, logits) in logits.chunks_mut(ROWS).enumerate() {
                lanes::run(Fold {
                    logits,
                    cap,
                    of_target: (target as usize).checked_sub(begin + part * ROWS),
                    so_far: &mut *so_far,
                });
            }
        });
    }
    let judged = running.into_iter().map(|so_far| Judged {
        logit: so_far.logit,
        log_sum_exp: so_far.top + so_far.sum.ln(),
    });
    Ok(judged.collect())
}

/// The logits of `targets[i]`, a row of `head`, for row `i` of `input`, as in [`judge`] but reading
/// no other rows of `head`.
///
/// # Errors
/// As [`judge`].
pub fn target_logits(
    head: &Matrix,
    bias: Option<&[f32]>,
    cap: Option<f32>,
    input: &Input,
    targets: &[u32],
) -> Result<Vec<f32>, CpuError> {
    check(head, input, targets)?;
    let mut logits = Vec::with_capacity(targets.len());
    for (row, &target) in targets.iter().enumerate() {
        let target = target as usize;
        let plain = head.dot(input, row, target)?;
        logits.push(plain + bias.and_then(|bias| bias.get(target)).unwrap_or(&0.0));
    }
    if let Some(cap) = cap {
        softcap(&mut logits, cap);
    }
    Ok(logits)
}

/// ln Σ exp of a row of logits; −∞ for an empty row.
pub fn log_sum_exp(logits: &[f32]) -> f32 {
    let mut row = logits.to_vec();
    let mut so_far = Running::BEGUN;
    lanes::run(Fold {
        logits: &mut row,
        cap: None,
        of_target: None,
        so_far: &mut so_far,
    });
    so_far.top + so_far.sum.ln()
}

fn check(head: &Matrix, input: &Input, targets: &[u32]) -> Result<(), CpuError> {
    let (count, vocabulary) = (input.rows(), head.rows());
    let shape = |what, found, expected| CpuError::Shape {
        what,
        found,
        expected,
    };
    if targets.len() != count {
        return Err(shape("a list of targets", targets.len(), count));
    }
    let beyond = targets.iter().find(|&&id| id as usize >= vocabulary);
    beyond.map_or(Ok(()), |&id| {
        let needed = id as usize + 1;
        Err(shape("a vocabulary with a target", vocabulary, needed))
    })
}

/// Running totals of a row after some of its logits.
#[derive(Clone, Copy)]
struct Running {
    /// The target's logit.
    logit: f32,
    /// The largest logit.
    top: f32,
    /// Σ exp(logit − top).
    sum: f32,
}

impl Running {
    const BEGUN: Self = Self {
        logit: f32::NAN,
        top: f32::NEG_INFINITY,
        sum: 0.0,
    };
}

/// Folds some more logits into the totals.
struct Fold<'a> {
    logits: &'a mut [f32],
    cap: Option<f32>,
    /// Index of the target's logit, if it is among them.
    of_target: Option<usize>,
    so_far: &'a mut Running,
}

impl Work for Fold<'_> {
    type Out = ();

    #[inline(always)]
    fn with<L: Lanes>(self, l: L) {
        let Running { logit, top, sum } = self.so_far;
        let new = scale(l, self.logits, 1.0, self.cap).max(*top);
        if let Some(found) = self.of_target.and_then(|at| self.logits.get(at)) {
            *logit = *found;
        }
        *sum = *sum * (*top - new).exp() + powers(l, self.logits, new);
        *top = new;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At each of the eight positions of a vector, and after the last vector.
    #[test]
    fn a_broken_logit_shows_in_the_sum() {
        for at in 0..19 {
            for broken in [f32::NAN, f32::INFINITY] {
                let mut logits = [1.0; 19];
                logits[at] = broken;
                let sum = log_sum_exp(&logits);
                assert!(!sum.is_finite(), "{broken} at {at}: {sum}");
            }
            let mut capped = [1.0; 19];
            capped[at] = f32::NAN;
            softcap(&mut capped, 30.0);
            assert!(capped[at].is_nan(), "{at}: {}", capped[at]);
        }
        assert!((log_sum_exp(&[1.0; 19]) - (1.0 + 19_f32.ln())).abs() < 1e-6);
    }
}
