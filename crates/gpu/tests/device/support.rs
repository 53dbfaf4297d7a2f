//! The one device that the tests share, and a kernel for it.

use std::sync::OnceLock;

use conclave_gpu::{AdapterChoice, Buffer, Gpu, GpuError, Shader, Use, flat};

static GPU: OnceLock<Gpu> = OnceLock::new();

pub fn gpu() -> &'static Gpu {
    GPU.get_or_init(|| {
        let gpu = pollster::block_on(open()).unwrap_or_else(|error| {
            panic!("these tests need an adapter (Debian: mesa-vulkan-drivers): {error}")
        });
        println!("adapter: {:?}", gpu.adapter());
        gpu
    })
}

pub async fn open() -> Result<Gpu, GpuError> {
    Gpu::init(AdapterChoice::Best).await
}

/// The content of these buffers.
pub fn read(buffers: &[&Buffer]) -> Vec<Vec<f32>> {
    pollster::block_on(gpu().read_f32(buffers)).expect("a read")
}

pub fn upload<T: bytemuck::Pod>(data: &[T]) -> Buffer {
    gpu().upload(data).expect("an upload")
}

/// A buffer of `numbers`, filled with a value that no test makes.
pub fn marked(numbers: usize) -> Buffer {
    upload(&vec![12345.0_f32; numbers])
}

static ADD: Shader = Shader::new::<[u32; 4]>(
    "add",
    &["
        @group(0) @binding(0) var<storage, read> a: array<f32>;
        @group(0) @binding(1) var<storage, read> b: array<f32>;
        @group(0) @binding(2) var<storage, read_write> out: array<f32>;
        @group(0) @binding(3) var<uniform> params: vec4<u32>;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) at: vec3<u32>) {
            if (at.x < params.x) {
                out[at.x] = a[at.x] + b[at.x];
            }
        }"],
);

/// `out = a + b`: a minimal kernel.
pub fn add(
    gpu: &Gpu,
    a: &Buffer,
    b: &Buffer,
    numbers: usize,
    out: &Buffer,
) -> Result<(), GpuError> {
    for (buffer, what) in [(a, "a"), (b, "b"), (out, "out")] {
        buffer.holds(numbers, ADD.name, what)?;
    }
    let buffers = [Use::Read(a), Use::Read(b), Use::Write(out)];
    let groups = flat(&ADD, numbers);
    gpu.launch(&ADD, &buffers, &[numbers as u32, 0, 0, 0], groups)
}
