//! Token ids to rows of the embedding matrix.

use bytemuck::{Pod, Zeroable};

use crate::launch::{Shader, Use, count, flat, launch, workgroup};
use crate::{Buffer, Format, Gpu, GpuError, Matrix, dequantise};

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

const fn shader(name: &'static str, pieces: &'static [&'static str]) -> Shader {
    Shader {
        name,
        pieces,
        workgroup: workgroup(WGSL),
        params: size_of::<Params>(),
    }
}

/// One per [`Format`], in the order of [`Format::index`].
pub(crate) static SHADERS: [Shader; 4] = [
    shader("embed_f32", &[WGSL, crate::block::F32]),
    shader("embed_f16", &[WGSL, crate::block::F16]),
    shader("embed_q8_0", &[WGSL, crate::block::Q8_0]),
    shader("embed_q4_0", &[WGSL, crate::block::Q4_0]),
];

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

/// The CPU twin; `blocks` as for [`Matrix::upload`].
pub fn embed_cpu(ids: &[u32], format: Format, cols: usize, blocks: &[u8], factor: f32) -> Vec<f32> {
    let row_bytes = cols / format.block() * format.block_bytes();
    ids.iter()
        .flat_map(|&id| {
            let begin = id as usize * row_bytes;
            match blocks.get(begin..begin + row_bytes) {
                Some(row) => dequantise(format, row),
                None => vec![0.0; cols],
            }
        })
        .map(|value| value * factor)
        .collect()
}
