//! Trials of the kernels of recurrent states, and of gates on heads.

use super::Trial;
use super::numbers::{Numbers, unwritten};
use crate::{DeltaNet, GatedHeads, Gpu, GpuError, NO_SLOT};

/// Value heads of more numbers than a workgroup has threads.
const NET: DeltaNet = DeltaNet {
    key_heads: 2,
    value_heads: 4,
    key_width: 12,
    value_width: 68,
    taps: 4,
    tiled: true,
    slots: 3,
};

/// From a state to another, in place for a single token, and from none.
const RUNS: [[u32; 4]; 3] = [[0, 5, 0, 2], [5, 1, 1, 1], [6, 2, NO_SLOT, 0]];

/// Those that no run reads while another writes it.
const APART: [[u32; 4]; 2] = [RUNS[0], RUNS[1]];

pub(super) fn delta_mix(gpu: &Gpu) -> Result<Trial, GpuError> {
    let mut numbers = Numbers(7);
    let steps = RUNS
        .iter()
        .flat_map(|&[_, count, from, _]| (0..count).map(move |i| [i, from]));
    let steps: Vec<[u32; 2]> = steps.collect();
    let projected = numbers.many(steps.len() * NET.row());
    let taps = numbers.many(NET.channels() * NET.taps);
    let states = numbers.many(NET.slots * NET.state());
    let expected = crate::delta_mix_cpu(&projected, NET, &steps, &taps, &states);
    let mixed = unwritten(gpu, expected.len())?;
    let (found, tokens) = (mixed.clone(), steps.len());
    let steps = gpu.upload(&steps)?;
    let [projected, taps, states] = [&projected, &taps, &states].map(|x| gpu.upload(x));
    let (projected, taps, states) = (projected?, taps?, states?);
    let trial = Trial::new(move |launcher| {
        crate::delta_mix(
            launcher, &projected, tokens, NET, &steps, &taps, &states, &mixed,
        )
    });
    Ok(trial.numbers(&found, expected))
}

/// The runs that know nothing of each other, then one that begins a text where the first began.
pub(super) fn delta_rule(gpu: &Gpu) -> Result<Trial, GpuError> {
    let mut numbers = Numbers(8);
    const TOKENS: usize = 8;
    // Wide enough for both ends of the softplus; keys too long would make numbers too large to compare.
    let projected: Vec<f32> = numbers.many(TOKENS * NET.row());
    let projected: Vec<f32> = projected.iter().map(|x| x * 2.0).collect();
    let mut mixed: Vec<f32> = numbers.many(TOKENS * NET.channels());
    mixed.iter_mut().for_each(|x| *x /= 3.0);
    let mut states = numbers.many(NET.slots * NET.state());
    let bias: Vec<f32> = vec![0.5, -1.0, 30.0, 0.1];
    let rate: Vec<f32> = vec![-0.5, -1.5, -0.01, -0.3];
    let buffers = [&projected, &bias, &rate, &mixed, &states].map(|x| gpu.upload(x));
    let [projected_gpu, bias_gpu, rate_gpu, mixed_gpu, states_gpu] = buffers;
    let (projected_gpu, bias_gpu, rate_gpu) = (projected_gpu?, bias_gpu?, rate_gpu?);
    let (mixed_gpu, states_gpu) = (mixed_gpu?, states_gpu?);
    let of = [&bias[..], &rate[..]];
    for runs in [&APART[..], &RUNS[2..]] {
        crate::delta_rule_cpu(&projected, NET, runs, of, &mut states, &mut mixed);
    }
    let found = [mixed_gpu.clone(), states_gpu.clone()];
    let runs = [gpu.upload(&APART)?, gpu.upload(&RUNS[2..])?];
    let trial = Trial::new(move |launcher| {
        for (runs, count) in runs.iter().zip([APART.len(), 1]) {
            let of = [&bias_gpu, &rate_gpu];
            let (projected, mixed) = (&projected_gpu, &mixed_gpu);
            crate::delta_rule(
                launcher,
                projected,
                TOKENS,
                NET,
                (runs, count),
                of,
                &states_gpu,
                mixed,
            )?;
        }
        Ok(())
    });
    Ok(trial.numbers(&found[0], mixed).numbers(&found[1], states))
}

/// As a delta net's behind their norm, and as an attention's.
pub(super) fn gate_heads(gpu: &Gpu) -> Result<Trial, GpuError> {
    const TOKENS: usize = 3;
    const EPSILON: f32 = 1e-3;
    let nets = GatedHeads {
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
    let weight = numbers.many(68);
    let gpu_weight = gpu.upload(&weight)?;
    let mut launches = Vec::new();
    let mut answers = Vec::new();
    for (of, normed) in [(nets, true), (attention, false)] {
        let x = numbers.many(TOKENS * of.row[0]);
        let gates = numbers.many(TOKENS * of.gate_row[0]);
        let norm = normed.then_some((&weight[..], EPSILON));
        let expected = crate::gate_heads_cpu(&x, of, &gates, norm);
        let out = unwritten(gpu, expected.len())?;
        answers.push((out.clone(), expected));
        launches.push((gpu.upload(&x)?, gpu.upload(&gates)?, of, normed, out));
    }
    let trial = Trial::new(move |launcher| {
        launches.iter().try_for_each(|(x, gates, of, normed, out)| {
            let norm = normed.then_some((&gpu_weight, EPSILON));
            crate::gate_heads(launcher, x, TOKENS, *of, gates, norm, out)
        })
    });
    let answers = answers.into_iter();
    Ok(answers.fold(trial, |trial, (found, expected)| {
        trial.numbers(&found, expected)
    }))
}
