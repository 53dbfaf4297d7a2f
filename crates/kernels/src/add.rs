//! Sums of activations.

use bytemuck::{Pod, Zeroable};

use crate::launch::{Shader, Use, count, flat, launch, workgroup};
use crate::{Buffer, Gpu, GpuError};

const WGSL: &str = include_str!("../../../shaders/add.wgsl");

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    quads: u32,
    spare: [u32; 3],
}

pub(crate) static SHADER: Shader = Shader {
    name: "add",
    pieces: &[WGSL],
    workgroup: workgroup(WGSL),
    params: size_of::<Params>(),
};

/// `out = a + b`, `numbers` each, a multiple of 4.
pub fn add(
    gpu: &Gpu,
    a: &Buffer,
    b: &Buffer,
    numbers: usize,
    out: &Buffer,
) -> Result<(), GpuError> {
    if !numbers.is_multiple_of(4) {
        return Err(GpuError::shape(
            SHADER.name,
            format!("{numbers} numbers, must be a multiple of 4"),
        ));
    }
    for (buffer, what) in [(a, "a"), (b, "b"), (out, "out")] {
        buffer.holds(numbers, SHADER.name, what)?;
    }
    let params = Params {
        quads: count(SHADER.name, "numbers", numbers)? / 4,
        spare: [0; 3],
    };
    let buffers = [Use::Read(a), Use::Read(b), Use::Write(out)];
    launch(gpu, &SHADER, &buffers, &params, flat(&SHADER, numbers / 4))
}

/// The CPU twin.
pub fn add_cpu(a: &[f32], b: &[f32]) -> Vec<f32> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}
