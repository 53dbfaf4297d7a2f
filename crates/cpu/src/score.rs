//! What a row of logits says of one token, without a buffer of all logits.

use crate::error::CpuError;
use crate::exp::{exp_sum, largest, softcap};
use crate::input::Input;
use crate::matrix::Matrix;

/// Rows of the output matrix at once: their logits stay in the cache.
const ROWS: usize = 512;

/// How the logits at one place judge one token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// The token's logit.
    pub logit: f32,
    /// ln Σ exp of all logits.
    pub log_sum_exp: f32,
}

/// Judges `targets[i]`, a row of `head`, by the logits that row `i` of `input` makes. `scratch` is
/// kept for its memory.
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
    let (count, vocabulary) = (input.rows(), head.rows());
    let shape = |what, found, expected| CpuError::Shape {
        what,
        found,
        expected,
    };
    if targets.len() != count {
        return Err(shape("a list of targets", targets.len(), count));
    }
    if let Some(&target) = targets
        .iter()
        .find(|&&target| target as usize >= vocabulary)
    {
        return Err(shape(
            "a vocabulary with a target",
            vocabulary,
            target as usize + 1,
        ));
    }
    // The target's logit, the largest logit so far, and Σ exp(logit − largest).
    let mut running = vec![(f32::NAN, f32::NEG_INFINITY, 0.0f32); count];
    for begin in (0..vocabulary).step_by(ROWS) {
        let rows = begin..vocabulary.min(begin + ROWS);
        scratch.clear();
        scratch.resize(count * rows.len(), 0.0);
        head.times(input, rows.clone(), scratch)?;
        let logits = scratch.chunks_exact_mut(rows.len());
        for ((logits, &target), (logit, top, sum)) in logits.zip(targets).zip(&mut running) {
            if let Some(bias) = bias.and_then(|bias| bias.get(rows.clone())) {
                crate::rows::add(logits, bias);
            }
            if let Some(cap) = cap {
                softcap(logits, cap);
            }
            if rows.contains(&(target as usize)) {
                *logit = logits[target as usize - begin];
            }
            let new = top.max(largest(logits));
            *sum = *sum * (*top - new).exp() + exp_sum(logits, new);
            *top = new;
        }
    }
    let judged = running.into_iter().map(|(logit, top, sum)| Judged {
        logit,
        log_sum_exp: top + sum.ln(),
    });
    Ok(judged.collect())
}
