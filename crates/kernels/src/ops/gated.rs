//! The gate of a gated MLP.

use bytemuck::{Pod, Zeroable};
use conclave_gpu::{Shader, Use, count, flat};

use crate::{Buffer, Gpu, GpuError};

const WGSL: &str = wgsl!("gated.wgsl");

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    quads: u32,
    gelu: u32,
    columns: u32,
    across: u32,
    first: u32,
    spare: [u32; 3],
}

pub(crate) static SHADER: Shader = Shader::new::<Params>("gated", &[WGSL]);

/// Activation of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// x · sigmoid(x)
    Silu,
    /// GELU in its tanh form.
    Gelu,
}

/// Some columns of rows.
#[derive(Debug, Clone, Copy)]
pub struct Columns<'a> {
    /// `[rows, across]`.
    pub of: &'a Buffer,
    /// Width of a row.
    pub across: usize,
    /// Offset of the columns.
    pub first: usize,
}

/// `out = act(gate) · up`: gate and out `[rows, width]`, with as many columns of `up`; widths are
/// multiples of 4.
///
/// # Errors
/// [`GpuError::Shape`] for a width that is not a multiple of 4, columns out of range, and buffers
/// too small.
pub fn gated(
    gpu: &Gpu,
    gate: &Buffer,
    up: Columns<'_>,
    activation: Activation,
    [rows, width]: [usize; 2],
    out: &Buffer,
) -> Result<(), GpuError> {
    let (name, numbers) = (SHADER.name, rows * width);
    let Columns { of, across, first } = up;
    let quads = [width, across, first].iter().all(|n| n.is_multiple_of(4));
    if !quads || width == 0 || first + width > across {
        return Err(GpuError::shape(
            name,
            format!("{width} columns from {first} on of {across}, all must be multiples of 4"),
        ));
    }
    count(name, "numbers", rows * across)?;
    gate.holds(numbers, name, "gate")?;
    of.holds(rows * across, name, "up")?;
    out.holds(numbers, name, "out")?;
    let params = Params {
        quads: count(name, "numbers", numbers)? / 4,
        gelu: u32::from(activation == Activation::Gelu),
        columns: width as u32 / 4,
        across: across as u32 / 4,
        first: first as u32 / 4,
        spare: [0; 3],
    };
    let buffers = [Use::Read(gate), Use::Read(of), Use::Write(out)];
    gpu.launch(&SHADER, &buffers, &params, flat(&SHADER, numbers / 4))
}

/// The CPU twin, on the selected columns.
pub fn gated_cpu(gate: &[f32], up: &[f32], activation: Activation) -> Vec<f32> {
    gate.iter()
        .zip(up)
        .map(|(&g, u)| {
            let curved = match activation {
                Activation::Silu => g / (1.0 + (-g).exp()),
                Activation::Gelu => {
                    let inner = (2.0 / std::f32::consts::PI).sqrt() * (g + 0.044715 * g * g * g);
                    0.5 * g * (1.0 + inner.tanh())
                }
            };
            curved * u
        })
        .collect()
}
