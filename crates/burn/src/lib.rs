//! The open core: the decoder in burn tensor operations, on any GPU that burn's wgpu runs on or on
//! the CPU by burn's flex.
//!
//! It computes a block by its equations, one tensor operation after the other, where the fused
//! engine launches six kernels. So it runs models that the fused engine refuses, and gives an
//! independent result to compare the fused kernels with, on the same GPU. Four operations are not
//! burn's own ([`operations`]): rows of a quantised embedding, products on quantised weights, the
//! append to the quantised KV cache, and the masked attention that verifies in line. On a GPU they
//! launch the WGSL of `conclave-kernels`, on flex they call `conclave-cpu`.
//!
//! [`Burn`] is a [`Backend`](conclave_model::Backend) like the others:
//!
//! ```
//! use conclave_burn::Burn;
//! use conclave_model::{LoadOptions, Model, ModelError};
//! use conclave_weights::{Checkpoint, Source};
//!
//! # #[allow(dead_code)]
//! /// Loads a model whose operations are burn's own, on the CPU.
//! async fn load(checkpoint: &Checkpoint, source: &dyn Source) -> Result<Model, ModelError> {
//!     let options = LoadOptions::with_context(2048);
//!     Model::load(checkpoint, source, &Burn::flex(), options, &mut |_| ()).await
//! }
//! ```

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
