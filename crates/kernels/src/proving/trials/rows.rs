//! Trials of the kernels on rows of activations wider than a workgroup has threads.

use super::Trial;
use super::numbers::{Numbers, unwritten};
use crate::{Activation, Buffer, Columns, Gpu, GpuError, PostNorm, Rows, gated_cpu};

/// Numbers of a row.
const WIDTH: usize = 264;
const EPSILON: f32 = 1e-3;

struct Inputs {
    x: Vec<f32>,
    gpu_x: Buffer,
    weight: Vec<f32>,
    gpu_weight: Buffer,
    before: Vec<f32>,
    /// Holds the numbers `before`.
    out: Buffer,
}

/// Inputs with these numbers of rows of x and of out.
fn inputs(gpu: &Gpu, [x, out]: [usize; 2]) -> Result<Inputs, GpuError> {
    let mut numbers = Numbers(1);
    let [x, weight, before] = [x * WIDTH, WIDTH, out * WIDTH].map(|count| numbers.many(count));
    Ok(Inputs {
        gpu_x: gpu.upload(&x)?,
        gpu_weight: gpu.upload(&weight)?,
        out: gpu.upload(&before)?,
        x,
        weight,
        before,
    })
}

pub(super) fn rms_norm(gpu: &Gpu) -> Result<Trial, GpuError> {
    let g = inputs(gpu, [3, 3])?;
    let expected = crate::rms_norm_cpu(&g.x, &g.weight, EPSILON);
    let out = g.out.clone();
    let trial = Trial::new(move |launcher| {
        crate::rms_norm(
            launcher,
            &g.gpu_x,
            &g.gpu_weight,
            EPSILON,
            [3, WIDTH],
            &g.out,
        )
    });
    Ok(trial.numbers(&out, expected))
}

pub(super) fn norm_add(gpu: &Gpu) -> Result<Trial, GpuError> {
    const SCALE: f32 = 0.75;
    let g = inputs(gpu, [4, 4])?;
    let once = crate::norm_add_cpu(&g.x, &g.weight, EPSILON, 1.0, &g.before);
    let expected = crate::norm_add_cpu(&g.x, &g.weight, EPSILON, SCALE, &once);
    let (out, counts, scale) = (
        g.out.clone(),
        gpu.upload(&[2_u32])?,
        gpu.upload(&[SCALE; 4])?,
    );
    let trial = Trial::new(move |launcher| {
        let rows = Rows {
            count: 2,
            counts: &counts,
        };
        let mut scales = [None, Some(&scale)].into_iter();
        scales.try_for_each(|scale| {
            let norm = PostNorm {
                weight: &g.gpu_weight,
                epsilon: EPSILON,
                width: WIDTH,
                each: 2,
                scale,
            };
            crate::norm_add(launcher, &g.gpu_x, rows, norm, &g.out)
        })
    });
    Ok(trial.numbers(&out, expected))
}

pub(super) fn pick_norm(gpu: &Gpu) -> Result<Trial, GpuError> {
    let g = inputs(gpu, [4, 3])?;
    let picks = [2_u32, 0, 9];
    let expected = crate::pick_norm_cpu(&g.x, &picks, &g.weight, EPSILON);
    let (out, picks, counts) = (g.out.clone(), gpu.upload(&picks)?, gpu.upload(&[3_u32])?);
    let trial = Trial::new(move |launcher| {
        let rows = Rows {
            count: 3,
            counts: &counts,
        };
        let (x, norm) = ((&g.gpu_x, [4, WIDTH]), (&g.gpu_weight, EPSILON));
        crate::pick_norm(launcher, x, &picks, rows, norm, &g.out)
    });
    Ok(trial.numbers(&out, expected))
}

pub(super) fn put_rows(gpu: &Gpu) -> Result<Trial, GpuError> {
    let mut g = inputs(gpu, [2, 5])?;
    // The second row would lie past the end.
    let at = [9_u32, 4];
    crate::put_rows_cpu(&g.x, at[1] as usize, &mut g.before, WIDTH);
    let (out, expected, at) = (g.out.clone(), g.before, gpu.upload(&at)?);
    let trial = Trial::new(move |launcher| {
        crate::put_rows(launcher, &g.gpu_x, 2, (&at, 1), &g.out, [5, WIDTH])
    });
    Ok(trial.numbers(&out, expected))
}

pub(super) fn gather_rows(gpu: &Gpu) -> Result<Trial, GpuError> {
    let g = inputs(gpu, [4, 3])?;
    let picked = [3_u32, 9, 1];
    let expected = crate::gather_rows_cpu(&g.x, WIDTH, &picked);
    let (out, picked) = (g.out.clone(), gpu.upload(&picked)?);
    let trial = Trial::new(move |launcher| {
        crate::gather_rows(launcher, &g.gpu_x, [4, WIDTH], &picked, 3, &g.out)
    });
    Ok(trial.numbers(&out, expected))
}

/// The middle columns of rows three times as wide.
pub(super) fn gated(gpu: &Gpu) -> Result<Trial, GpuError> {
    const CURVES: [Activation; 2] = [Activation::Silu, Activation::Gelu];
    const ROWS: usize = 2;
    const ACROSS: usize = 3 * WIDTH;
    let mut numbers = Numbers(2);
    let gate = numbers.many(ROWS * WIDTH).into_iter();
    let gate: Vec<f32> = gate.map(|v| 4.0 * v).collect();
    let up = numbers.many(ROWS * ACROSS);
    let middle = up.chunks(ACROSS).flat_map(|row| &row[WIDTH..2 * WIDTH]);
    let middle: Vec<f32> = middle.copied().collect();
    let expected = CURVES.map(|curve| gated_cpu(&gate, &middle, curve));
    let [gate, up] = [gpu.upload(&gate)?, gpu.upload(&up)?];
    let outs = [unwritten(gpu, ROWS * WIDTH)?, unwritten(gpu, ROWS * WIDTH)?];
    let found = outs.clone();
    let trial = Trial::new(move |launcher| {
        let up = Columns {
            of: &up,
            across: ACROSS,
            first: WIDTH,
        };
        let mut each = CURVES.iter().zip(&outs);
        each.try_for_each(|(&curve, out)| {
            crate::gated(launcher, &gate, up, curve, [ROWS, WIDTH], out)
        })
    });
    Ok(trial.all_numbers(found.into_iter().zip(expected)))
}
