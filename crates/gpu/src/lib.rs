//! The GPU under the kernels: one device on wgpu, its memory, its queue, and launches of WGSL that
//! others bring.
//!
//! Launches return at once. What goes wrong later is an error of the next [`Gpu::read`]
//! or [`Gpu::sync`].

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
