//! Token ids to rows of the embedding matrix.

use bytemuck::{Pod, Zeroable};

use crate::block::per_format;
use crate::launch::{Shader, Use, count, flat, launch};
use crate::{Buffer, Format, Gpu, GpuError, Matrix};

const WGSL: &str = include_str!("../../../shaders/embed.wgsl");

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    tokens: u32,
    units: u32,
    behind: u32,
    begin: u32,
    rows: u32,
    vocabulary: u32,
    first: u32,
    factor: f32,
}

/// In the order of [`Format::index`].
pub(crate) static SHADERS: [Shader; Format::ALL.len()] = per_format!("embed", [WGSL], Params);

/// `out[i] = matrix[ids[i]] · factor`: ids `[tokens]` (u32), matrix `[vocabulary, hidden]`,
/// out `[tokens, hidden]`. An id past the vocabulary gives zeros.
pub fn embed(
    gpu: &Gpu,
    ids: &Buffer,
    tokens: usize,
    matrix: &Matrix,
    factor: f32,
    out: &Buffer,
) -> Result<(), GpuError> {
    let shader = &SHADERS[matrix.format().index()];
    ids.holds(tokens, shader.name, "ids")?;
    out.holds(tokens * matrix.cols(), shader.name, "out")?;
    for part in matrix.each_part() {
        let params = Params {
            tokens: count(shader.name, "tokens", tokens)?,
            units: matrix.units(),
            behind: part.behind,
            begin: part.rows.start as u32,
            rows: part.rows.len() as u32,
            vocabulary: matrix.rows() as u32,
            first: u32::from(part.rows.start == 0),
            factor,
        };
        let buffers = [Use::Read(ids), Use::Read(&part.buffer), Use::Write(out)];
        let threads = tokens * matrix.units() as usize;
        launch(gpu, shader, &buffers, &params, flat(shader, threads))?;
    }
    Ok(())
}

/// The CPU twin, on dequantised weights `[vocabulary, cols]`.
pub fn embed_cpu(ids: &[u32], weights: &[f32], cols: usize, factor: f32) -> Vec<f32> {
    ids.iter()
        .flat_map(|&id| match weights.chunks_exact(cols).nth(id as usize) {
            Some(row) => row.to_vec(),
            None => vec![0.0; cols],
        })
        .map(|value| value * factor)
        .collect()
}
