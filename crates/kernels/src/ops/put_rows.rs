//! Stores hidden states for later launches: rows to a position known to the GPU.

use bytemuck::{Pod, Zeroable};
use conclave_gpu::{Shader, Use, count, flat};

use crate::{Buffer, Gpu, GpuError};

const WGSL: &str = wgsl!("put_rows.wgsl");

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Params {
    count: u32,
    rows: u32,
    quads: u32,
    index: u32,
}

pub(crate) static SHADER: Shader = Shader::new::<Params>("put_rows", &[WGSL]);

/// `out[at[index] + i] = x[i]` for the first `count` rows of x: x `[count, width]`, `at` (u32), out
/// `[rows, width]`; width a multiple of 4. Rows beyond the end of out are not written.
///
/// # Errors
/// [`GpuError::Shape`] for a width that is not a multiple of 4 and buffers too small.
pub fn put_rows(
    gpu: &Gpu,
    x: &Buffer,
    count_of: usize,
    (at, index): (&Buffer, usize),
    out: &Buffer,
    [rows, width]: [usize; 2],
) -> Result<(), GpuError> {
    let name = SHADER.name;
    if width == 0 || !width.is_multiple_of(4) || count_of == 0 {
        return Err(GpuError::shape(
            name,
            format!("[{count_of}, {width}]: there must be rows, their width a multiple of 4"),
        ));
    }
    x.holds(count_of * width, name, "x")?;
    at.holds(index + 1, name, "at")?;
    out.holds(rows * width, name, "out")?;
    count(name, "rows · width", rows * width)?;
    let params = Params {
        count: count(name, "rows of x", count_of)?,
        rows: rows as u32,
        quads: width as u32 / 4,
        index: index as u32,
    };
    let buffers = [Use::Read(x), Use::Read(at), Use::Write(out)];
    let groups = flat(&SHADER, count_of * width / 4);
    gpu.launch(&SHADER, &buffers, &params, groups)
}

/// The CPU twin.
pub fn put_rows_cpu(x: &[f32], at: usize, out: &mut [f32], width: usize) {
    for (row, x) in (at..).zip(x.chunks_exact(width)) {
        if let Some(out) = out.chunks_exact_mut(width).nth(row) {
            out.copy_from_slice(x);
        }
    }
}
