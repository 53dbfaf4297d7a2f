//! Trials of the kernels of mixtures of experts.

use super::Trial;
use super::numbers::{Numbers, unwritten};
use crate::ops::experts::ExpertKernel;
use crate::{Chosen, ExpertCounts, Format, Gpu, GpuError, Joined, Rows, choice_groups};

/// Counts with more experts than a workgroup has threads.
const OF: ExpertCounts = ExpertCounts { count: 75, used: 5 };

/// Routes by a softmax, and by σ with a bias. Some logits lie beyond both ends of σ's curve, and
/// some are equal.
pub(super) fn route(gpu: &Gpu) -> Result<Trial, GpuError> {
    const TOKENS: usize = 3;
    let mut numbers = Numbers(11);
    let logits = numbers.many(TOKENS * OF.count).into_iter();
    let mut logits: Vec<f32> = logits.map(|x| 6.0 * x).collect();
    logits[7] = 6.5;
    logits[70] = 6.5;
    logits[OF.count + 3] = -200.0;
    logits[OF.count + 4] = -10.0;
    let mut bias = numbers.many(OF.count);
    // Chosen by their biases alone.
    bias[3] = 9.0;
    bias[4] = 8.0;
    bias[5] = -20.0;
    let ways = [(false, false), (true, true)];
    let counts = gpu.upload(&[TOKENS as u32])?;
    let mut answers = Vec::new();
    for (sigmoid, biased) in ways {
        let bias = biased.then_some(&bias[..]);
        let expected = crate::route_cpu(&logits, OF, sigmoid, bias);
        let out = [0; 2].map(|_| unwritten(gpu, TOKENS * OF.used));
        let [chosen, scores] = out;
        answers.push(([chosen?, scores?], expected));
    }
    let outs: Vec<_> = answers.iter().map(|(out, _)| out.clone()).collect();
    let (logits, bias) = (gpu.upload(&logits)?, gpu.upload(&bias)?);
    let trial = Trial::new(move |launcher| {
        let rows = Rows {
            count: TOKENS,
            counts: &counts,
        };
        ways.iter()
            .zip(&outs)
            .try_for_each(|(&(sigmoid, biased), out)| {
                let bias = biased.then_some(&bias);
                crate::route(launcher, (&logits, rows), OF, sigmoid, bias, out.each_ref())
            })
    });
    Ok(answers
        .into_iter()
        .fold(trial, |trial, ([out, of], (chosen, scores))| {
            trial.words(&out, chosen).numbers(&of, scores)
        }))
}

/// Choices of `tokens` tokens, many of them of the first experts.
fn choices(tokens: usize, of: ExpertCounts) -> Vec<u32> {
    let expert = |token: usize, choice: usize| match choice {
        0 => token % 2,
        _ => (token * 7 + choice * 11) % of.count,
    };
    let tokens = (0..tokens).flat_map(|token| (0..of.used).map(move |i| expert(token, i) as u32));
    tokens.collect()
}

pub(super) fn group_choices(gpu: &Gpu) -> Result<Trial, GpuError> {
    const TOKENS: usize = 21;
    let chosen = choices(TOKENS, OF);
    let expected = crate::group_choices_cpu(&chosen, OF);
    let groups = unwritten(gpu, 4 * expected.len())?;
    let (found, chosen) = (groups.clone(), gpu.upload(&chosen)?);
    let counts = gpu.upload(&[TOKENS as u32])?;
    let trial = Trial::new(move |launcher| {
        let rows = Rows {
            count: TOKENS,
            counts: &counts,
        };
        crate::group_choices(launcher, &chosen, rows, OF, &groups)
    });
    Ok(trial.words(&found, expected.into_flattened()))
}

/// Tries x with a row for each token, and with a row for each choice. Each expert has an odd number
/// of rows.
pub(super) fn experts(gpu: &Gpu, format: Format, kernel: ExpertKernel) -> Result<Trial, GpuError> {
    const TOKENS: usize = 3;
    let of = ExpertCounts { count: 3, used: 2 };
    let (n, k) = (37, 768);
    let mut numbers = Numbers(12);
    let (matrix, weights) = numbers.matrix(gpu, format, [of.count * n, k])?;
    let chosen = vec![0, 2, 2, 1, 2, 0];
    let groups = crate::group_choices_cpu(&chosen, of);
    assert_eq!(groups.len(), choice_groups(TOKENS, of));
    let mut each = Vec::new();
    let mut answers = Vec::new();
    for rows in [TOKENS, TOKENS * of.used] {
        let x = numbers.many(rows * k);
        let expected = crate::experts_cpu(&x, k, &weights, of.count, &chosen);
        let out = unwritten(gpu, expected.len())?;
        answers.push((out.clone(), expected));
        each.push((gpu.upload(&x)?, rows > TOKENS, out));
    }
    let (chosen, groups) = (gpu.upload(&chosen)?, gpu.upload(&groups)?);
    let counts = gpu.upload(&[TOKENS as u32])?;
    let trial = Trial::new(move |launcher| {
        let rows = Rows {
            count: TOKENS,
            counts: &counts,
        };
        let chosen = Chosen {
            rows,
            of,
            experts: &chosen,
            groups: (kernel == ExpertKernel::Block).then_some(&groups),
        };
        each.iter().try_for_each(|(x, of_choices, out)| {
            crate::experts(launcher, (x, *of_choices), chosen, &matrix, out)
        })
    });
    Ok(trial.all_numbers(answers))
}

/// A plain sum, and a normalised one added to the content.
pub(super) fn join_experts(gpu: &Gpu) -> Result<Trial, GpuError> {
    const TOKENS: usize = 2;
    const PLAIN: Joined = Joined {
        used: 3,
        width: 268,
        normalised: None,
        scale: 1.0,
        adds: true,
    };
    const NORMALISED: Joined = Joined {
        normalised: Some(1e-2),
        scale: 1.5,
        adds: false,
        ..PLAIN
    };
    let mut numbers = Numbers(13);
    let made = numbers.many(TOKENS * PLAIN.used * PLAIN.width);
    let scores = numbers.many(TOKENS * PLAIN.used).into_iter();
    let scores: Vec<f32> = scores.map(f32::abs).collect();
    let before = numbers.many(TOKENS * PLAIN.width);
    let expected =
        [PLAIN, NORMALISED].map(|of| crate::join_experts_cpu(&made, &scores, of, &before));
    let outs = [gpu.upload(&before)?, gpu.upload(&before)?];
    let found = outs.clone();
    let (made, scores) = (gpu.upload(&made)?, gpu.upload(&scores)?);
    let counts = gpu.upload(&[TOKENS as u32])?;
    let trial = Trial::new(move |launcher| {
        let rows = Rows {
            count: TOKENS,
            counts: &counts,
        };
        let mut each = [PLAIN, NORMALISED].into_iter().zip(&outs);
        each.try_for_each(|(of, out)| crate::join_experts(launcher, &made, &scores, rows, of, out))
    });
    Ok(trial.all_numbers(found.into_iter().zip(expected)))
}
