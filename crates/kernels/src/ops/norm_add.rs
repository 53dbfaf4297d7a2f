//! The norm behind a product, added to the residual stream (Gemma 2 and 3, OLMo 2, GLM 4).

use bytemuck::{Pod, Zeroable};
use conclave_gpu::{Use, count};

use crate::ops::rms_norm::FACTOR;
use crate::serial::{Both, both, items, pick};
use crate::{Buffer, GpuError, Launcher, Rows, rms_norm_cpu};

const WGSL: &str = include_str!("../../../../shaders/norm_add.wgsl");

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    quads: u32,
    epsilon: f32,
    spare: [u32; 2],
}

pub(crate) static SHADERS: Both = both!("norm_add", [WGSL, FACTOR], Params);

/// `out += x / sqrt(mean(x²) + epsilon) · weight` by row: x and out `[m, width]`, weight
/// `[width]`; width a multiple of 4.
///
/// # Errors
/// [`GpuError::Shape`] for other widths and buffers too small.
pub fn norm_add(
    launcher: &Launcher,
    x: &Buffer,
    rows: Rows<'_>,
    weight: &Buffer,
    epsilon: f32,
    width: usize,
    out: &Buffer,
) -> Result<(), GpuError> {
    let shader = pick(launcher, &SHADERS);
    let name = shader.name;
    if width == 0 || !width.is_multiple_of(4) {
        return Err(GpuError::shape(
            name,
            format!("width {width}, must be a multiple of 4"),
        ));
    }
    x.holds(rows.count * width, name, "x")?;
    weight.holds(width, name, "weight")?;
    rows.counts.holds(1, name, "counts")?;
    out.holds(rows.count * width, name, "out")?;
    let params = Params {
        quads: count(name, "width", width)? / 4,
        epsilon,
        spare: [0; 2],
    };
    let buffers = [
        Use::Read(x),
        Use::Read(weight),
        Use::Read(rows.counts),
        Use::Write(out),
    ];
    launcher.launch(shader, &buffers, &params, items(launcher, rows.count))
}

/// The CPU twin: what `out` holds afterwards.
pub fn norm_add_cpu(x: &[f32], weight: &[f32], epsilon: f32, out: &[f32]) -> Vec<f32> {
    let normed = rms_norm_cpu(x, weight, epsilon);
    normed.iter().zip(out).map(|(a, b)| a + b).collect()
}
