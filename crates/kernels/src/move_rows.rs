//! Keeping the winner's rows: a move within the caches.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use crate::launch::{Shader, Use, count, flat, launch, workgroup};
use crate::{Buffer, Gpu, GpuError};

const WGSL: &str = include_str!("../../../shaders/move_rows.wgsl");

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    pairs: u32,
    src: u32,
    dst: u32,
    count: u32,
}

pub(crate) static SHADER: Shader = Shader {
    name: "move_rows",
    pieces: &[WGSL],
    workgroup: workgroup(WGSL),
    params: size_of::<Params>(),
};

/// Move the rows `src` of both caches `[capacity, words]` to `dst..`, where `dst` is not
/// behind `src.start`; they may overlap. A row is an even number of 32-bit words.
pub fn move_rows(
    gpu: &Gpu,
    keys: &Buffer,
    values: &Buffer,
    words: usize,
    src: Range<usize>,
    dst: usize,
) -> Result<(), GpuError> {
    let name = SHADER.name;
    if words == 0 || !words.is_multiple_of(2) {
        return Err(GpuError::shape(
            name,
            format!("rows of {words} words, must be a multiple of 2"),
        ));
    }
    if dst > src.start || src.end < src.start {
        return Err(GpuError::shape(
            name,
            format!("rows {src:?} to {dst}: rows move towards the start only"),
        ));
    }
    if src.is_empty() || src.start == dst {
        return Ok(());
    }
    keys.holds(src.end * words, name, "keys")?;
    values.holds(src.end * words, name, "values")?;
    let params = Params {
        pairs: count(name, "words", words)? / 2,
        src: count(name, "src", src.start)?,
        dst: count(name, "dst", dst)?,
        count: count(name, "rows", src.len())?,
    };
    let buffers = [Use::Write(keys), Use::Write(values)];
    launch(gpu, &SHADER, &buffers, &params, flat(&SHADER, words / 2))
}

/// The CPU twin, for one cache.
pub fn move_rows_cpu(cache: &mut [f32], width: usize, src: Range<usize>, dst: usize) {
    cache.copy_within(src.start * width..src.end * width, dst * width);
}
