//! Token ids to rows of the embedding matrix.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};
use conclave_gpu::{Shader, Use, count, flat};

use crate::block::per_format;
use crate::{Buffer, Dispatch, Format, Gpu, GpuError, Matrix};

const WGSL: &str = wgsl!("embed.wgsl");

/// Parameters of the kernel.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub struct Params {
    tokens: u32,
    units: u32,
    plane1_offset: u32,
    begin: u32,
    rows: u32,
    vocabulary: u32,
    first: u32,
    factor: f32,
}

/// Shaders in the order of [`Format::index`].
pub(crate) static SHADERS: [Shader; Format::ALL.len()] = per_format!("embed", [WGSL], Params);

/// `out[i] = matrix[ids[i]] · factor`: ids `[tokens]` (u32), matrix `[vocabulary, hidden]`, out
/// `[tokens, hidden]`. An id past the vocabulary gives zeros.
pub fn embed(
    gpu: &Gpu,
    ids: &Buffer,
    tokens: usize,
    matrix: &Matrix,
    factor: f32,
    out: &Buffer,
) -> Result<(), GpuError> {
    let name = SHADERS[matrix.format().index()].name;
    ids.holds(tokens, name, "ids")?;
    out.holds(tokens * matrix.cols(), name, "out")?;
    let shape = [matrix.rows(), matrix.cols()];
    for part in matrix.each_part() {
        let dispatch = embed_dispatch(matrix.format(), shape, &part.rows, tokens, factor)?;
        let buffers = [Use::Read(ids), Use::Read(&part.buffer), Use::Write(out)];
        gpu.run(&dispatch, &buffers)?;
    }
    Ok(())
}

/// Dispatch of [`embed()`] for the rows `rows` of a matrix `[vocabulary, cols]`. It binds ids, the
/// planes of these rows ([`Format::pack`]) and out.
///
/// # Errors
/// [`GpuError::Shape`] for more tokens than kernels count.
pub fn embed_dispatch(
    format: Format,
    [vocabulary, cols]: [usize; 2],
    rows: &Range<usize>,
    tokens: usize,
    factor: f32,
) -> Result<Dispatch<Params>, GpuError> {
    let shader = &SHADERS[format.index()];
    let units = cols / format.unit();
    let params = Params {
        tokens: count(shader.name, "tokens", tokens)?,
        units: units as u32,
        plane1_offset: format.plane1_offset(rows.len(), cols),
        begin: rows.start as u32,
        rows: rows.len() as u32,
        vocabulary: vocabulary as u32,
        first: u32::from(rows.start == 0),
        factor,
    };
    Ok(Dispatch {
        shader,
        params,
        groups: flat(shader, tokens * units),
    })
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
