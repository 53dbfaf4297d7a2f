//! From WGSL text to a queued dispatch.
//!
//! Parameters are a uniform, identified by their content: a launch with known parameters writes
//! nothing. Values that change from step to step (positions, cache rows, prefix lengths) are
//! therefore not parameters, but lie in buffers that kernels write.

use crate::{Buffer, GpuError};

/// WebGPU's limit of workgroups in a dimension; a launch above it is silently dropped.
const MAX_GROUPS: u32 = 65_535;

/// A kernel's WGSL, in pieces to concatenate, and the constants that its launcher relies on.
#[derive(Debug)]
pub struct Shader {
    /// Unique name.
    pub name: &'static str,
    /// Pieces of the text; the first has the entry point.
    pub pieces: &'static [&'static str],
    /// Number of threads in a workgroup, parsed from the WGSL.
    pub workgroup: u32,
    /// Bytes of the launcher's parameter struct.
    pub params: usize,
}

impl Shader {
    /// A kernel with parameters `P`; the first piece has the entry point.
    pub const fn new<P>(name: &'static str, pieces: &'static [&'static str]) -> Self {
        Self {
            name,
            pieces,
            workgroup: workgroup(pieces[0]),
            params: size_of::<P>(),
        }
    }

    /// The complete WGSL.
    pub fn text(&self) -> String {
        self.pieces.concat()
    }
}

/// A kernel's access to a buffer.
#[derive(Debug, Clone, Copy)]
pub enum Use<'a> {
    /// `var<storage, read>`
    Read(&'a Buffer),
    /// `var<storage, read_write>`
    Write(&'a Buffer),
}

impl<'a> Use<'a> {
    pub(crate) fn buffer(self) -> &'a Buffer {
        match self {
            Self::Read(buffer) | Self::Write(buffer) => buffer,
        }
    }
}

/// Checks that the workgroups are within the limit, and that no output is another argument too.
pub(crate) fn check(
    shader: &Shader,
    buffers: &[Use<'_>],
    groups: [u32; 3],
) -> Result<(), GpuError> {
    if groups.iter().any(|&count| count == 0 || count > MAX_GROUPS) {
        return Err(GpuError::shape(
            shader.name,
            format!("{groups:?} workgroups; each must be in 1..={MAX_GROUPS}"),
        ));
    }
    for (i, used) in buffers.iter().enumerate() {
        if let Use::Write(written) = used {
            let others = buffers.iter().enumerate();
            let shared = others
                .filter(|(j, _)| i != *j)
                .any(|(_, other)| other.buffer().same(written));
            if shared {
                return Err(GpuError::shape(
                    shader.name,
                    "an output is also another argument; use a second buffer",
                ));
            }
        }
    }
    Ok(())
}

/// `count` workgroups in x and y; kernels compute their index as `y · groups.x + x`.
pub fn grid(count: usize) -> [u32; 3] {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    let y = count.div_ceil(MAX_GROUPS).max(1);
    [count.div_ceil(y), y, 1]
}

/// Workgroups for `threads` threads.
pub fn flat(shader: &Shader, threads: usize) -> [u32; 3] {
    grid(threads.div_ceil(shader.workgroup as usize))
}

/// A size as u32, in which kernels count.
///
/// # Errors
/// [`GpuError::Shape`] beyond 32 bits.
pub fn count(kernel: &'static str, what: &'static str, value: usize) -> Result<u32, GpuError> {
    u32::try_from(value)
        .map_err(|_| GpuError::shape(kernel, format!("{what} is {value}, beyond 32 bits")))
}

/// The number after the first `marker` in a WGSL text, parsed at compile time, so that launcher and
/// shader cannot drift apart.
///
/// # Panics
/// Without a marker; at compile time in a constant.
pub const fn number_in(text: &str, marker: &str) -> u32 {
    let (text, marker) = (text.as_bytes(), marker.as_bytes());
    let mut at = 0;
    while at + marker.len() < text.len() {
        let mut same = 0;
        while same < marker.len() && text[at + same] == marker[same] {
            same += 1;
        }
        if same == marker.len() {
            let mut value = 0;
            let mut digit = at + same;
            while digit < text.len() && text[digit].is_ascii_digit() {
                value = value * 10 + (text[digit] - b'0') as u32;
                digit += 1;
            }
            assert!(value > 0, "no number after the marker");
            return value;
        }
        at += 1;
    }
    panic!("marker not found in the shader");
}

/// Parses the workgroup size, all in x.
const fn workgroup(text: &str) -> u32 {
    number_in(text, "@workgroup_size(")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AdapterChoice, Gpu};

    const DOUBLE: &str = "
        @group(0) @binding(0) var<storage, read_write> data: array<f32>;
        @group(0) @binding(1) var<uniform> params: vec4<u32>;
        @compute @workgroup_size(1) fn main() { data[params.x] *= 2.0; }";

    const fn shader(name: &'static str, pieces: &'static [&'static str]) -> Shader {
        Shader {
            name,
            pieces,
            workgroup: 1,
            params: 16,
        }
    }

    static GOOD: Shader = shader("good", &[DOUBLE]);
    static BROKEN: Shader = shader("broken", &["fn main() -> nothing {}"]);

    /// Work that the driver refuses is an error of the next read, once, without a panic.
    #[test]
    fn refused_work_is_an_error_of_the_next_read() {
        pollster::block_on(async {
            let gpu = Gpu::init(AdapterChoice::Best)
                .await
                .unwrap_or_else(|error| panic!("this test needs an adapter: {error}"));
            let refused = |result| matches!(result, Err(GpuError::Refused { .. }));
            let params = [0_u32; 4];

            let data = gpu.upload(&[1.0_f32; 4]).unwrap();
            gpu.launch(&BROKEN, &[Use::Write(&data)], &params, [1, 1, 1])
                .unwrap();
            assert!(refused(gpu.read_f32(&[&data]).await));

            // A bind group with one buffer too many.
            let data = gpu.upload(&[1.0_f32; 4]).unwrap();
            let other = gpu.upload(&[1.0_f32; 4]).unwrap();
            let buffers = [Use::Write(&data), Use::Read(&other)];
            gpu.launch(&GOOD, &buffers, &params, [1, 1, 1]).unwrap();
            assert!(refused(gpu.read_f32(&[&data]).await));

            let data = gpu.upload(&[1.0_f32; 4]).unwrap();
            gpu.launch(&GOOD, &[Use::Write(&data)], &params, [1, 1, 1])
                .unwrap();
            assert_eq!(
                gpu.read_f32(&[&data]).await,
                Ok(vec![vec![2.0, 1.0, 1.0, 1.0]])
            );
        });
    }

    const COUNT: &str = "
        @group(0) @binding(0) var<storage, read_write> data: array<f32>;
        @group(0) @binding(1) var<uniform> params: vec4<u32>;
        @compute @workgroup_size(1) fn main() { data[params.x] += 1.0; }";

    static COUNTS: Shader = shader("count", &[COUNT]);

    /// More parameters than slots.
    #[test]
    fn parameters_never_run_out() {
        pollster::block_on(async {
            let gpu = Gpu::init(AdapterChoice::Best)
                .await
                .unwrap_or_else(|error| panic!("this test needs an adapter: {error}"));
            let data = gpu.upload(&[0.0_f32; 4]).unwrap();
            let buffers = [Use::Write(&data)];
            for i in 0..9000_u32 {
                gpu.launch(&COUNTS, &buffers, &[i % 3, i, 0, 0], [1, 1, 1])
                    .unwrap();
            }
            let last = [3_u32, 0, 0, 0];
            gpu.launch(&COUNTS, &buffers, &last, [1, 1, 1]).unwrap();
            let read = gpu.read_f32(&[&data]).await.unwrap();
            assert_eq!(read, [[3000.0, 3000.0, 3000.0, 1.0]]);
            let counters = gpu.counters();
            assert_eq!((counters.bind_groups, counters.pipelines), (1, 1));
            assert_eq!(counters.dispatches, 9001);
            // 32, then 64 each; and where slots are recycled.
            assert!((142..=145).contains(&counters.submits), "{counters:?}");
            assert_eq!(counters.passes, counters.submits);
        });
    }

    #[test]
    fn grids_cover_their_workgroups() {
        for count in [1, 2, 65_535, 65_536, 131_071, 8 * 65_535 + 1, 4_000_000_000] {
            let [x, y, z] = grid(count);
            assert!(x <= MAX_GROUPS && y <= MAX_GROUPS && z == 1, "{count}");
            assert!(x as usize * y as usize >= count, "{count}");
            assert!((x as usize * y as usize) < count + y as usize, "{count}");
        }
    }
}
