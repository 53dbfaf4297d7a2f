//! Trials of the kernels of recurrent states, and of gates on heads.

use super::Trial;
use super::numbers::{Numbers, unwritten};
use crate::{
    GatedHeads, GatedNorm, Gpu, GpuError, NO_SLOT, Recurrence, RecurrentHeads, RecurrentPass,
    RecurrentRule, RecurrentTaps,
};

/// Value heads of more numbers than a workgroup has threads.
const DELTA: Recurrence = Recurrence {
    rule: RecurrentRule::Delta,
    key_heads: 2,
    value_heads: 4,
    key_width: 12,
    value_width: 68,
    taps: 4,
    tiled: true,
    slots: 3,
};

const SPACE: Recurrence = Recurrence {
    rule: RecurrentRule::StateSpace,
    tiled: false,
    ..DELTA
};

/// Runs as first token, number of tokens, slot read and slot written: from one state to another, in
/// place for a single token, and from no state.
const RUNS: [[u32; 4]; 3] = [[0, 5, 0, 2], [5, 1, 1, 1], [6, 2, NO_SLOT, 0]];

/// Runs that read no slot written by another.
const APART: [[u32; 4]; 2] = [RUNS[0], RUNS[1]];

/// Tries both rules, the state space with a bias.
pub(super) fn recurrence_mix(gpu: &Gpu) -> Result<Trial, GpuError> {
    let mut numbers = Numbers(7);
    let steps = RUNS
        .iter()
        .flat_map(|&[_, count, from, _]| (0..count).map(move |i| [i, from]));
    let steps: Vec<[u32; 2]> = steps.collect();
    let tokens = steps.len();
    let gpu_steps = gpu.upload(&steps)?;
    let mut launches = Vec::new();
    let mut answers = Vec::new();
    for of in [DELTA, SPACE] {
        let projected = numbers.many(tokens * of.row());
        let taps = numbers.many(of.channels() * of.taps);
        let bias = numbers.many(of.channels());
        let states = numbers.many(of.slots * of.state());
        let biased = of.rule == RecurrentRule::StateSpace;
        let weights = RecurrentTaps {
            weight: &taps[..],
            bias: biased.then_some(&bias[..]),
        };
        let expected = crate::recurrence_mix_cpu(&projected, of, &steps, weights, &states);
        let mixed = unwritten(gpu, expected.len())?;
        answers.push((mixed.clone(), expected));
        let [projected, taps, bias, states] =
            [&projected, &taps, &bias, &states].map(|x| gpu.upload(x));
        let weights = RecurrentTaps {
            weight: taps?,
            bias: if biased { Some(bias?) } else { None },
        };
        launches.push((of, projected?, weights, states?, mixed));
    }
    let trial = Trial::new(move |launcher| {
        launches
            .iter()
            .try_for_each(|(of, projected, taps, states, mixed)| {
                let pass = RecurrentPass {
                    projected,
                    tokens,
                    of: *of,
                    states,
                };
                crate::recurrence_mix(launcher, &pass, &gpu_steps, taps.as_ref(), mixed)
            })
    });
    Ok(trial.all_numbers(answers))
}

/// Tries both rules: the independent runs, then a run that begins a text and writes to the slot
/// that the first run read.
pub(super) fn recurrence_rule(gpu: &Gpu) -> Result<Trial, GpuError> {
    let mut numbers = Numbers(8);
    const TOKENS: usize = 8;
    let (bias, rate) = ([0.5, -1.0, 30.0, 0.1], [-0.5, -1.5, -0.01, -0.3]);
    let skip = [0.7, -0.4, 0.2, 1.5];
    let [gpu_bias, gpu_rate, gpu_skip] = [&bias, &rate, &skip].map(|x| gpu.upload(x));
    let (gpu_bias, gpu_rate, gpu_skip) = (gpu_bias?, gpu_rate?, gpu_skip?);
    let runs = [gpu.upload(&APART)?, gpu.upload(&RUNS[2..])?];
    let mut launches = Vec::new();
    let mut answers = Vec::new();
    for of in [DELTA, SPACE] {
        // Wide enough for both ends of the softplus; longer keys would make numbers too large to
        // compare.
        let projected: Vec<f32> = numbers.many(TOKENS * of.row());
        let projected: Vec<f32> = projected.iter().map(|x| x * 2.0).collect();
        let mut mixed: Vec<f32> = numbers.many(TOKENS * of.channels());
        mixed.iter_mut().for_each(|x| *x /= 3.0);
        let mut states = numbers.many(of.slots * of.state());
        let [gpu_projected, gpu_mixed, gpu_states] =
            [&projected, &mixed, &states].map(|x| gpu.upload(x));
        let (gpu_mixed, gpu_states) = (gpu_mixed?, gpu_states?);
        let heads = RecurrentHeads {
            bias: &bias[..],
            rate: &rate[..],
            skip: Some(&skip[..]),
        };
        for runs in [&APART[..], &RUNS[2..]] {
            crate::recurrence_rule_cpu(&projected, of, runs, heads, &mut states, &mut mixed);
        }
        answers.push((gpu_mixed.clone(), mixed));
        answers.push((gpu_states.clone(), states));
        launches.push((of, gpu_projected?, gpu_mixed, gpu_states));
    }
    let trial = Trial::new(move |launcher| {
        let heads = RecurrentHeads {
            bias: &gpu_bias,
            rate: &gpu_rate,
            skip: Some(&gpu_skip),
        };
        for (of, projected, mixed, states) in &launches {
            let pass = RecurrentPass {
                projected,
                tokens: TOKENS,
                of: *of,
                states,
            };
            for runs in runs.iter().zip([APART.len(), 1]) {
                crate::recurrence_rule(launcher, &pass, runs, heads, mixed)?;
            }
        }
        Ok(())
    });
    Ok(trial.all_numbers(answers))
}

/// A delta net's after their norm, a state space's before theirs, and an attention's.
pub(super) fn gate_heads(gpu: &Gpu) -> Result<Trial, GpuError> {
    const TOKENS: usize = 3;
    let delta = GatedHeads {
        heads: 4,
        width: 68,
        row: [300, 20],
        gate_row: [290, 18],
        gate_apart: 68,
        silu: true,
    };
    let attention = GatedHeads {
        row: [272, 0],
        gate_row: [580, 68],
        gate_apart: 136,
        silu: false,
        heads: 4,
        width: 68,
    };
    let mut numbers = Numbers(9);
    let weight = numbers.many(4 * 68);
    let gpu_weight = gpu.upload(&weight)?;
    let mut launches = Vec::new();
    let mut answers = Vec::new();
    for (of, norm) in [(delta, Some(false)), (delta, Some(true)), (attention, None)] {
        let x = numbers.many(TOKENS * of.row[0]);
        let gates = numbers.many(TOKENS * of.gate_row[0]);
        let norm = norm.map(|after_gate| GatedNorm {
            weight: &weight[..],
            epsilon: 1e-3,
            after_gate,
        });
        // A weight shared by all heads has the length of a head.
        let of_twin = norm.map(|norm| match norm.after_gate {
            true => norm,
            false => GatedNorm {
                weight: &weight[..of.width],
                ..norm
            },
        });
        let expected = crate::gate_heads_cpu(&x, of, &gates, of_twin);
        let out = unwritten(gpu, expected.len())?;
        answers.push((out.clone(), expected));
        let norm = norm.map(|norm| GatedNorm {
            weight: gpu_weight.clone(),
            epsilon: norm.epsilon,
            after_gate: norm.after_gate,
        });
        launches.push((gpu.upload(&x)?, gpu.upload(&gates)?, of, norm, out));
    }
    let trial = Trial::new(move |launcher| {
        launches.iter().try_for_each(|(x, gates, of, norm, out)| {
            let norm = norm.as_ref().map(|norm| GatedNorm {
                weight: &norm.weight,
                epsilon: norm.epsilon,
                after_gate: norm.after_gate,
            });
            crate::gate_heads(launcher, (x, TOKENS), *of, gates, norm, out)
        })
    });
    Ok(trial.all_numbers(answers))
}
