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
    spare: [u32; 2],
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
pub fn score(
    gpu: &Gpu,
    logits: &Buffer,
    targets: &Buffer,
    [rows, vocabulary]: [usize; 2],
    out: &Buffer,
) -> Result<(), GpuError> {
    if vocabulary == 0 {
        return Err(GpuError::shape(SHADER.name, "an empty vocabulary"));
    }
    logits.holds(rows * vocabulary, SHADER.name, "logits")?;
    targets.holds(rows, SHADER.name, "targets")?;
    out.holds(rows * 2, SHADER.name, "out")?;
    count(SHADER.name, "rows · vocabulary", rows * vocabulary)?;
    let params = Params {
        rows: rows as u32,
        vocabulary: vocabulary as u32,
        spare: [0; 2],
    };
    let buffers = [Use::Read(logits), Use::Read(targets), Use::Write(out)];
    launch(gpu, &SHADER, &buffers, &params, grid(rows))
}

/// The CPU twin.
pub fn score_cpu(logits: &[f32], targets: &[u32], vocabulary: usize) -> Vec<[f32; 2]> {
    logits
        .chunks(vocabulary)
        .zip(targets)
        .map(|(row, &id)| {
            let top = row.iter().copied().fold(-3.0e38, f32::max);
            let sum: f32 = row.iter().map(|logit| (logit - top).exp()).sum();
            let logit = row.get(id as usize).copied().unwrap_or(-3.0e38);
            [logit, top + sum.ln()]
        })
        .collect()
}
