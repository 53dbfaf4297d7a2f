//! One decoder-only transformer, run two ways, with a KV cache that a round of
//! the ensemble method can keep.
//!
//! | to do this | use |
//! |---|---|
//! | read a model file | [`load`](load::load) → [`Model`] |
//! | know what it is | [`Config`], [`Model::about`] |
//! | run a prompt, draft, verify in line, keep the winner | [`Session`] |
//! | choose the next token | [`Sampler`] |
//! | compare the two ways | [`Backend::Burn`] (burn tensor operations: the oracle and the CPU path), [`Backend::Gpu`] (our WGSL kernels) |
//!
//! The crate knows tokens, not text, and nothing of other members.

mod burn_decoder;
pub mod config;
pub mod error;
mod families;
pub mod family;
mod formats;
mod gpu_decoder;
pub mod keys;
pub mod load;
pub mod memory;
pub mod pass;
mod plan;
mod reading;
pub mod rope;
mod rope_keys;
pub mod sampling;
pub mod session;
mod weights;

pub use config::{Activation, Config};
pub use error::ModelError;
pub use load::{About, Backend, Kept, LoadOptions, Model, about};
pub use memory::Memory;
pub use pass::{Pass, TargetScore};
pub use sampling::{Sampler, Sampling};
pub use session::{Counters, Draft, Score, Session};
