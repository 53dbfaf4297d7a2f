//! The open core: the decoder in burn tensor operations, on any GPU that burn's wgpu runs on or on
//! the CPU by burn's flex.
//!
//! The fused engine's six kernels a block are written out here as the mathematics say them, so that
//! a family the fused engine has no plan for can be run, and the fused kernels can be held to
//! something on the very GPU they run on. Four operations are not burn's own ([`operations`]): rows
//! of a quantised embedding, products on quantised weights, the append to the quantised KV cache,
//! and the masked attention that verifies in line. On a GPU they launch the WGSL of
//! `conclave-kernels`, on flex they call `conclave-cpu`.
//!
//! [`Burn`] is a [`Backend`](conclave_model::Backend) like the others.

mod cache;
mod cube;
mod decoder;
mod device;
mod experts;
mod flex;
pub mod operations;
mod pass;
mod plain;
mod proof;
mod recurrence;
mod tensors;
mod weights;

pub use device::Burn;
