//! What verifying needs of a row of logits.

use bytemuck::{Pod, Zeroable};

use crate::launch::{Shader, Use, count, grid, launch, workgroup};
use crate::{Buffer, Gpu, GpuError};

const WGSL: &str = include_str!("../../../shaders/score.wgsl");

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    rows: u32,
    vocabulary: u32,
    softcap: f32,
    spare: u32,
}

pub(crate) static SHADER: Shader = Shader {
    name: "score",
    pieces: &[WGSL],
    workgroup: workgroup(WGSL),
    params: size_of::<Params>(),
};

/// For each row of `logits` `[rows, vocabulary]` and its id in `targets` `[rows]` (u32):
/// the id's raw logit and the row's log-sum-exp into `out` `[rows, 2]`. The difference is
/// the id's log-probability. An id past the vocabulary gives a logit of −3·10³⁸.
/// With a `softcap` c, a positive number, every logit l counts as c · tanh(l / c) (Gemma 2).
pub fn score(
    gpu: &Gpu,
    logits: &Buffer,
    targets: &Buffer,
    [rows, vocabulary]: [usize; 2],
    softcap: Option<f32>,
    out: &Buffer,
) -> Result<(), GpuError> {
    if vocabulary == 0 {
        return Err(GpuError::shape(SHADER.name, "an empty vocabulary"));
    }
    if let Some(cap) = softcap
        && !(cap.is_finite() && cap > 0.0)
    {
        return Err(GpuError::shape(
            SHADER.name,
            format!("a softcap of {cap}, must be a positive number"),
        ));
    }
    logits.holds(rows * vocabulary, SHADER.name, "logits")?;
    targets.holds(rows, SHADER.name, "targets")?;
    out.holds(rows * 2, SHADER.name, "out")?;
    count(SHADER.name, "rows · vocabulary", rows * vocabulary)?;
    let params = Params {
        rows: rows as u32,
        vocabulary: vocabulary as u32,
        softcap: softcap.unwrap_or(0.0),
        spare: 0,
    };
    let buffers = [Use::Read(logits), Use::Read(targets), Use::Write(out)];
    launch(gpu, &SHADER, &buffers, &params, grid(rows))
}

/// The CPU twin.
pub fn score_cpu(
    logits: &[f32],
    targets: &[u32],
    vocabulary: usize,
    softcap: Option<f32>,
) -> Vec<[f32; 2]> {
    let capped = |logit: f32| softcap.map_or(logit, |cap| cap * (logit / cap).tanh());
    logits
        .chunks(vocabulary)
        .zip(targets)
        .map(|(row, &id)| {
            let top = capped(row.iter().copied().fold(-3.0e38, f32::max));
            let sum: f32 = row.iter().map(|&logit| (capped(logit) - top).exp()).sum();
            let logit = row.get(id as usize).map_or(-3.0e38, |&logit| capped(logit));
            [logit, top + sum.ln()]
        })
        .collect()
}
