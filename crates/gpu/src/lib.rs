//! GPU access for the kernels: one wgpu device, its memory, its queue, and launches of WGSL
//! kernels.
//!
//! | to do this | use |
//! |---|---|
//! | open the device | [`Gpu::init`] with an [`AdapterChoice`] |
//! | make, fill and read memory | [`Gpu::upload`], [`Gpu::allocate`], [`Gpu::read`] |
//! | launch a kernel | a [`Shader`], its buffers as [`Use`], [`Gpu::launch`] |
//! | compile kernels ahead | [`Gpu::with_notes`], [`Gpu::build`] |
//! | measure without noise | [`Gpu::counters`] |
//!
//! Launches return at once; later failures are errors of the next [`Gpu::read`] or [`Gpu::sync`].
//!
//! ```
//! use conclave_gpu::{AdapterChoice, Gpu, GpuError, Shader, Use, flat};
//! const DOUBLE: &str = "
//!     struct Params { count: vec4<u32> }
//!     @group(0) @binding(0) var<storage, read_write> x: array<f32>;
//!     @group(0) @binding(1) var<uniform> params: Params;
//!     @compute @workgroup_size(64)
//!     fn main(@builtin(global_invocation_id) id: vec3<u32>) {
//!         if (id.x < params.count.x) { x[id.x] *= 2.0; }
//!     }";
//! static SHADER: Shader = Shader::new::<[u32; 4]>("double", &[DOUBLE]);
//! # #[allow(dead_code)]
//! async fn double(numbers: &[f32]) -> Result<Vec<f32>, GpuError> {
//!     let gpu = Gpu::init(AdapterChoice::Best).await?;
//!     let x = gpu.upload(numbers)?;
//!     let params = [numbers.len() as u32, 0, 0, 0];
//!     gpu.launch(&SHADER, &[Use::Write(&x)], &params, flat(&SHADER, numbers.len()))?;
//!     Ok(gpu.read_f32(&[&x]).await?.remove(0))
//! }
//! ```

#![cfg_attr(
    target_family = "wasm",
    allow(
        clippy::arc_with_non_send_sync,
        reason = "a browser's objects stay on their thread"
    )
)]

mod adapter;
mod batch;
mod bindings;
mod buffer;
#[cfg(target_family = "wasm")]
mod compiling;
mod counters;
mod dispatch;
mod error;
mod gpu;
mod launch;
mod pipelines;
mod queue;
mod reports;

pub use adapter::{AdapterChoice, AdapterInfo};
pub use buffer::Buffer;
pub use counters::GpuCounters;
pub use dispatch::Dispatch;
pub use error::GpuError;
pub use gpu::{Gpu, Limits};
pub use launch::{Shader, Use, count, flat, grid, number_in};
pub use pipelines::{Kernel, Notes};
pub use reports::{Heard, Reports};
