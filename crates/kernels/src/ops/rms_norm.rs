//! Root-mean-square normalisation.

use bytemuck::{Pod, Zeroable};
use conclave_gpu::{Use, count};

use crate::serial::{ShaderPair, items, select, shader_pair};
use crate::{Buffer, GpuError, Launcher};

const WGSL: &str = wgsl!("rms_norm.wgsl");
pub(crate) const FACTOR: &str = wgsl!("shared/norm/row_factor.wgsl");

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    rows: u32,
    quads: u32,
    epsilon: f32,
    spare: u32,
}

pub(crate) static SHADERS: ShaderPair = shader_pair!("rms_norm", [WGSL, FACTOR], Params);

/// `out = x / sqrt(mean(x²) + epsilon) · weight` by row: x and out `[rows, width]`, weight
/// `[width]`; width a multiple of 4. For QK-norm, rows is tokens · heads.
pub fn rms_norm(
    launcher: &Launcher,
    x: &Buffer,
    weight: &Buffer,
    epsilon: f32,
    [rows, width]: [usize; 2],
    out: &Buffer,
) -> Result<(), GpuError> {
    let shader = select(launcher, &SHADERS);
    if width == 0 || !width.is_multiple_of(4) {
        return Err(GpuError::shape(
            shader.name,
            format!("width {width}, must be a multiple of 4"),
        ));
    }
    x.holds(rows * width, shader.name, "x")?;
    weight.holds(width, shader.name, "weight")?;
    out.holds(rows * width, shader.name, "out")?;
    let params = Params {
        rows: count(shader.name, "rows", rows)?,
        quads: count(shader.name, "width", width)? / 4,
        epsilon,
        spare: 0,
    };
    let buffers = [Use::Read(x), Use::Read(weight), Use::Write(out)];
    launcher.launch(shader, &buffers, &params, items(launcher, rows))
}

/// The CPU twin.
pub fn rms_norm_cpu(x: &[f32], weight: &[f32], epsilon: f32) -> Vec<f32> {
    x.chunks(weight.len())
        .flat_map(|row| {
            let mean = row.iter().map(|v| v * v).sum::<f32>() / row.len() as f32;
            let factor = 1.0 / (mean + epsilon).sqrt();
            row.iter().zip(weight).map(move |(v, w)| v * factor * w)
        })
        .collect()
}
