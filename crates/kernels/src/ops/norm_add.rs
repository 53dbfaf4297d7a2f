//! The norm after a product, added to the residual stream (Gemma from 2 on, OLMo 2, GLM 4).

use bytemuck::{Pod, Zeroable};
use conclave_gpu::{Use, count};

use crate::ops::rms_norm::FACTOR;
use crate::serial::{ShaderPair, items, select, shader_pair};
use crate::{Buffer, GpuError, Launcher, Rows, rms_norm_cpu};

const WGSL: &str = wgsl!("norm_add.wgsl");

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    quads: u32,
    epsilon: f32,
    each: u32,
    scaled: u32,
}

pub(crate) static SHADERS: ShaderPair = shader_pair!("norm_add", [WGSL, FACTOR], Params);

/// The norm after a product.
#[derive(Debug, Clone, Copy)]
pub struct PostNorm<'a> {
    /// `[width]`.
    pub weight: &'a Buffer,
    /// Number added to the mean square.
    pub epsilon: f32,
    /// Width of a row, a multiple of 4.
    pub width: usize,
    /// Rows of `width` in each counted row.
    pub each: usize,
    /// Factor on the sum: one number.
    pub scale: Option<&'a Buffer>,
}

/// `out = (out + x / sqrt(mean(x²) + epsilon) · weight) · scale` by row: x and out `[m, each,
/// width]`.
///
/// # Errors
/// [`GpuError::Shape`] for a width that is not a multiple of 4 and buffers too small.
pub fn norm_add(
    launcher: &Launcher,
    x: &Buffer,
    rows: Rows<'_>,
    norm: PostNorm<'_>,
    out: &Buffer,
) -> Result<(), GpuError> {
    let shader = select(launcher, &SHADERS);
    let name = shader.name;
    let (width, all) = (norm.width, rows.count * norm.each);
    if width == 0 || !width.is_multiple_of(4) {
        return Err(GpuError::shape(
            name,
            format!("width {width}, must be a multiple of 4"),
        ));
    }
    count(name, "numbers", all * width)?;
    x.holds(all * width, name, "x")?;
    norm.weight.holds(width, name, "weight")?;
    rows.counts.holds(1, name, "counts")?;
    out.holds(all * width, name, "out")?;
    let params = Params {
        quads: count(name, "width", width)? / 4,
        epsilon: norm.epsilon,
        each: count(name, "each", norm.each)?,
        scaled: u32::from(norm.scale.is_some()),
    };
    let buffers = [
        Use::Read(x),
        Use::Read(norm.weight),
        Use::Read(rows.counts),
        Use::Read(norm.scale.unwrap_or(launcher.zeros())),
        Use::Write(out),
    ];
    launcher.launch(shader, &buffers, &params, items(launcher, all))
}

/// The CPU twin; returns the new `out`.
pub fn norm_add_cpu(x: &[f32], weight: &[f32], epsilon: f32, scale: f32, out: &[f32]) -> Vec<f32> {
    let normed = rms_norm_cpu(x, weight, epsilon);
    let sums = normed.iter().zip(out).map(|(a, b)| a + b);
    sums.map(|sum| sum * scale).collect()
}
