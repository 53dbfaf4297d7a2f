//! The rows of a pass whose logits are wanted, after the last norm.

use bytemuck::{Pod, Zeroable};
use conclave_gpu::{Use, count};

use crate::ops::rms_norm::FACTOR;
use crate::serial::{ShaderPair, items, select, shader_pair};
use crate::{Buffer, GpuError, Launcher, Rows, rms_norm_cpu};

const WGSL: &str = wgsl!("pick_norm.wgsl");

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    rows: u32,
    quads: u32,
    epsilon: f32,
    spare: u32,
}

pub(crate) static SHADERS: ShaderPair = shader_pair!("pick_norm", [WGSL, FACTOR], Params);

/// `out[i] = norm(x[picks[i]])`: x `[x_rows, width]`, `picks` `[m]` (u32), out `[m, width]`; width
/// a multiple of 4. A pick past the end takes the last row.
///
/// # Errors
/// [`GpuError::Shape`] for a width that is not a multiple of 4 and buffers too small.
pub fn pick_norm(
    launcher: &Launcher,
    (x, [x_rows, width]): (&Buffer, [usize; 2]),
    picks: &Buffer,
    rows: Rows<'_>,
    (weight, epsilon): (&Buffer, f32),
    out: &Buffer,
) -> Result<(), GpuError> {
    let shader = select(launcher, &SHADERS);
    let name = shader.name;
    if width == 0 || !width.is_multiple_of(4) || x_rows == 0 {
        return Err(GpuError::shape(
            name,
            format!("[{x_rows}, {width}]: there must be rows, their width a multiple of 4"),
        ));
    }
    x.holds(x_rows * width, name, "x")?;
    picks.holds(rows.count, name, "picks")?;
    weight.holds(width, name, "weight")?;
    rows.counts.holds(1, name, "counts")?;
    out.holds(rows.count * width, name, "out")?;
    let params = Params {
        rows: count(name, "rows", x_rows)?,
        quads: count(name, "width", width)? / 4,
        epsilon,
        spare: 0,
    };
    count(name, "rows · width", x_rows * width)?;
    let buffers = [
        Use::Read(x),
        Use::Read(picks),
        Use::Read(weight),
        Use::Read(rows.counts),
        Use::Write(out),
    ];
    launcher.launch(shader, &buffers, &params, items(launcher, rows.count))
}

/// The CPU twin.
pub fn pick_norm_cpu(x: &[f32], picks: &[u32], weight: &[f32], epsilon: f32) -> Vec<f32> {
    let width = weight.len();
    let last = x.len() / width - 1;
    let picked = picks.iter().flat_map(|&pick| {
        let row = (pick as usize).min(last);
        x[row * width..][..width].to_vec()
    });
    rms_norm_cpu(&picked.collect::<Vec<_>>(), weight, epsilon)
}
