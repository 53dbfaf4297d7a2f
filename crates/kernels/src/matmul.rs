//! Products with quantised weights: `out = x · Wᵀ (+ bias) (+ residual)`.
//!
//! `matmul_vector` takes the rows of x one by one and is bound by the bytes of W;
//! `matmul_block` reads W once for four rows.

use bytemuck::{Pod, Zeroable};

use crate::block::per_format;
use crate::launch::{Shader, Use, count, grid, launch, number_in, workgroup};
use crate::{Buffer, Format, Gpu, GpuError, Matrix};

const SHARED: &str = include_str!("../../../shaders/matmul.wgsl");
const VECTOR: &str = include_str!("../../../shaders/matmul_vector.wgsl");
const BLOCK: &str = include_str!("../../../shaders/matmul_block.wgsl");

/// Outputs that a workgroup makes of one row of x.
const OUTPUTS: u32 = number_in(SHARED, "OUTPUTS: u32 = ");
/// Rows of x that a workgroup of `matmul_block` takes.
const ROWS: u32 = number_in(BLOCK, "BLOCK: u32 = ");
const _: () = assert!(workgroup(VECTOR) == workgroup(BLOCK));

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    m: u32,
    rows: u32,
    units: u32,
    behind: u32,
    begin: u32,
    n: u32,
    has_bias: u32,
    residual: u32,
}

/// In the order of [`Format::index`].
pub(crate) static VECTOR_SHADERS: [Shader; Format::ALL.len()] =
    per_format!("matmul_vector", [VECTOR, SHARED], Params);

/// In the order of [`Format::index`].
pub(crate) static BLOCK_SHADERS: [Shader; Format::ALL.len()] =
    per_format!("matmul_block", [BLOCK, SHARED], Params);

/// What is added to a product.
#[derive(Debug, Clone, Copy, Default)]
pub struct Plus<'a> {
    /// `[n]`, added to every row.
    pub bias: Option<&'a Buffer>,
    /// `[m, n]`; may be the output itself, which the product is then added to.
    pub residual: Option<&'a Buffer>,
}

/// `out = x · Wᵀ + plus`: x `[m, k]`, W `[n, k]`, out `[m, n]`, all sums in f32.
pub fn matmul(
    gpu: &Gpu,
    x: &Buffer,
    m: usize,
    weights: &Matrix,
    plus: Plus<'_>,
    out: &Buffer,
) -> Result<(), GpuError> {
    let vector = m == 1;
    let shaders = if vector {
        &VECTOR_SHADERS
    } else {
        &BLOCK_SHADERS
    };
    let shader = &shaders[weights.format().index()];
    let (n, k) = (weights.rows(), weights.cols());
    x.holds(m * k, shader.name, "x")?;
    out.holds(m * n, shader.name, "out")?;
    // The kernel counts numbers of x and of out in 32 bits.
    count(shader.name, "m · k", m * k)?;
    count(shader.name, "m · n", m * n)?;
    if let Some(bias) = plus.bias {
        bias.holds(n, shader.name, "bias")?;
    }
    if let Some(residual) = plus.residual {
        residual.holds(m * n, shader.name, "residual")?;
    }
    let (residual, residual_mode) = match plus.residual {
        None => (gpu.zeros(), 0),
        Some(residual) if residual.same(out) => (gpu.zeros(), 2),
        Some(residual) => (residual, 1),
    };
    let row_groups = if vector { m } else { m.div_ceil(ROWS as usize) };
    for part in weights.each_part() {
        let params = Params {
            m: m as u32,
            rows: part.rows.len() as u32,
            units: weights.units(),
            behind: part.behind,
            begin: part.rows.start as u32,
            n: n as u32,
            has_bias: u32::from(plus.bias.is_some()),
            residual: residual_mode,
        };
        let buffers = [
            Use::Read(x),
            Use::Read(&part.buffer),
            Use::Read(plus.bias.unwrap_or(gpu.zeros())),
            Use::Read(residual),
            Use::Write(out),
        ];
        let mut groups = grid(part.rows.len().div_ceil(OUTPUTS as usize));
        groups[2] = count(shader.name, "rows of x", row_groups)?;
        launch(gpu, shader, &buffers, &params, groups)?;
    }
    Ok(())
}

/// The CPU twin, on dequantised weights `[n, k]`.
pub fn matmul_cpu(
    x: &[f32],
    k: usize,
    weights: &[f32],
    bias: Option<&[f32]>,
    residual: Option<&[f32]>,
) -> Vec<f32> {
    let n = weights.len() / k;
    let mut out = Vec::with_capacity(x.len() / k * n);
    for row in x.chunks(k) {
        for (column, weight) in weights.chunks(k).enumerate() {
            let dot: f32 = row.iter().zip(weight).map(|(a, b)| a * b).sum();
            let bias = bias.map_or(0.0, |bias| bias[column]);
            let residual = residual.map_or(0.0, |residual| residual[out.len()]);
            out.push(dot + bias + residual);
        }
    }
    out
}
