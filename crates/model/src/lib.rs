//! One decoder-only transformer, run three ways, with a KV cache that a round of
//! the ensemble method can keep.
//!
//! What tells one family of models from another is data: a file of `families/` each. `plan` finds
//! a checkpoint's tensors and checks their shapes, `reading` brings them to a decoder piece by piece.
//!
//! | to do this | use |
//! |---|---|
//! | load a model from its files | [`Model::load`] |
//! | know what it is, before loading | [`about()`] → [`About`]: [`Config`], formats, [`Memory`] |
//! | run a prompt, draft, verify in line, keep the winner | [`Session`] |
//! | choose the next token | [`Sampler`] |
//! | choose where it runs | [`Backend::Gpu`] (our WGSL kernels), [`Backend::Cpu`] (our products), [`Backend::Burn`] (burn tensor operations: what the others are held to) |
//!
//! The crate knows tokens, not text, and nothing of other members.

mod both;
#[cfg(not(target_family = "wasm"))]
mod burn_decoder;
pub mod config;
mod cpu_decoder;
pub mod error;
mod families;
pub mod family;
mod formats;
mod gpu_decoder;
mod gpu_scratch;
mod gpu_weights;
mod host;
pub mod keys;
mod launched;
mod line;
pub mod load;
pub mod memory;
pub mod pass;
mod plan;
pub mod prefill;
mod reading;
pub mod rope;
mod rope_keys;
pub mod sampling;
pub mod session;
mod slots;
mod weights;

pub use config::{Activation, Config};
pub use error::ModelError;
pub use load::{About, Backend, Kept, LoadOptions, Model, about};
pub use memory::Memory;
pub use pass::{Pass, TargetScore};
pub use prefill::{CPU_CHUNK, gpu_chunk};
pub use sampling::{Sampler, Sampling};
pub use session::{Counters, Draft, Prefilled, Score, Session};
