//! Gathers chosen rows of a matrix of activations into another buffer.

use bytemuck::{Pod, Zeroable};
use conclave_gpu::{Shader, Use, count, flat};

use crate::{Buffer, Gpu, GpuError};

const WGSL: &str = wgsl!("gather_rows.wgsl");

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    count: u32,
    rows: u32,
    quads: u32,
    spare: u32,
}

pub(crate) static SHADER: Shader = Shader::new::<Params>("gather_rows", &[WGSL]);

/// `out[i] = x[picked[i]]`: x `[rows, width]`, `picked` `[wanted]` (u32), out `[wanted, width]`;
/// width a multiple of 4. An index past the last row gives zeros.
pub fn gather_rows(
    gpu: &Gpu,
    x: &Buffer,
    [rows, width]: [usize; 2],
    picked: &Buffer,
    wanted: usize,
    out: &Buffer,
) -> Result<(), GpuError> {
    if width == 0 || !width.is_multiple_of(4) {
        return Err(GpuError::shape(
            SHADER.name,
            format!("width {width}, must be a multiple of 4"),
        ));
    }
    x.holds(rows * width, SHADER.name, "x")?;
    picked.holds(wanted, SHADER.name, "picked")?;
    out.holds(wanted * width, SHADER.name, "out")?;
    let params = Params {
        count: count(SHADER.name, "picked rows", wanted)?,
        rows: count(SHADER.name, "rows", rows)?,
        quads: count(SHADER.name, "width", width)? / 4,
        spare: 0,
    };
    let buffers = [Use::Read(x), Use::Read(picked), Use::Write(out)];
    let threads = wanted * width / 4;
    gpu.launch(&SHADER, &buffers, &params, flat(&SHADER, threads))
}

/// The CPU twin.
pub fn gather_rows_cpu(x: &[f32], width: usize, picked: &[u32]) -> Vec<f32> {
    picked
        .iter()
        .flat_map(|&row| match x.chunks_exact(width).nth(row as usize) {
            Some(row) => row.to_vec(),
            None => vec![0.0; width],
        })
        .collect()
}
