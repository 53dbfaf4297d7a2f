//! The gate of a gated MLP.

use bytemuck::{Pod, Zeroable};
use conclave_gpu::{Shader, Use, count, flat};

use crate::{Buffer, Gpu, GpuError};

const WGSL: &str = include_str!("../../../../shaders/gated.wgsl");

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    quads: u32,
    gelu: u32,
    spare: [u32; 2],
}

pub(crate) static SHADER: Shader = Shader::of::<Params>("gated", &[WGSL]);

/// The curve of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// x · sigmoid(x)
    Silu,
    /// GELU in its tanh form.
    Gelu,
}

/// `out = act(gate) · up`, `numbers` each, a multiple of 4.
pub fn gated(
    gpu: &Gpu,
    gate: &Buffer,
    up: &Buffer,
    activation: Activation,
    numbers: usize,
    out: &Buffer,
) -> Result<(), GpuError> {
    if !numbers.is_multiple_of(4) {
        return Err(GpuError::shape(
            SHADER.name,
            format!("{numbers} numbers, must be a multiple of 4"),
        ));
    }
    gate.holds(numbers, SHADER.name, "gate")?;
    up.holds(numbers, SHADER.name, "up")?;
    out.holds(numbers, SHADER.name, "out")?;
    let params = Params {
        quads: count(SHADER.name, "numbers", numbers)? / 4,
        gelu: u32::from(activation == Activation::Gelu),
        spare: [0; 2],
    };
    let buffers = [Use::Read(gate), Use::Read(up), Use::Write(out)];
    gpu.launch(&SHADER, &buffers, &params, flat(&SHADER, numbers / 4))
}

/// The CPU twin.
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
