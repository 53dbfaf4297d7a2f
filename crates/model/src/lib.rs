//! One decoder-only transformer on any backend, with a KV cache that a round of
//! the ensemble method can keep.
//!
//! A family of models is data: a file of `families/` each. `plan` finds a
//! checkpoint's tensors and checks their shapes, `reading` brings them to a decoder piece by piece.
//!
//! | to do this | use |
//! |---|---|
//! | load a model from its files | [`Model::load`] |
//! | know what it is, before loading | [`about()`] → [`About`]: [`Config`], formats, [`Memory`] |
//! | run a prompt, draft, verify in line, keep the winner | [`Session`] |
//! | keep a prefix apart, and go on from it later | [`Session::save`] → [`Saved`], [`Session::restore`] |
//! | embed a text as one vector | [`Session::embedding`] |
//! | choose the next token | [`Sampler`] |
//! | choose where it runs | a [`Backend`]: a [`Launcher`](conclave_kernels::Launcher) (our WGSL kernels), the [`Cpu`] (our products), or another crate's |
//!
//! The crate knows tokens, not text, and nothing of other members.
//!
//! ```
//! use conclave_model::{Cpu, LoadOptions, Model, Session};
//! use conclave_weights::{Checkpoint, Disk};
//!
//! # #[allow(dead_code)]
//! /// Logits of the token after `tokens`, `[vocabulary]`.
//! async fn next(path: &str, tokens: &[u32]) -> Result<Vec<f32>, Box<dyn std::error::Error>> {
//!     let source = Disk::open(path)?;
//!     let checkpoint = Checkpoint::open(&source).await?;
//!     let options = LoadOptions::with_context(2048);
//!     let model = Model::load(&checkpoint, &source, &Cpu::ALONE, options, &mut |_| ()).await?;
//!     Ok(Session::new(model).last_logits(tokens).await?)
//! }
//! ```

mod about;
pub mod cache;
pub mod config;
mod cpu;
pub mod decoder;
pub mod error;
mod expert_keys;
mod families;
pub mod family;
pub mod formats;
pub mod forward;
pub mod fused;
mod gpu;
pub mod keys;
mod line;
mod mask;
pub mod memory;
pub mod model;
pub mod operations;
pub mod pass;
mod plan;
mod pooling;
pub mod prefill;
pub mod reading;
pub mod rope;
mod rope_keys;
pub mod sampling;
mod saved;
mod score;
pub mod session;
pub mod slots;
pub mod states;
pub mod weights;

pub use about::{About, FormatInMemory, LoadOptions, about};
pub use conclave_cpu::Threads;
pub use config::{Activation, Config};
pub use cpu::Cpu;
pub use decoder::{Backend, Decoder, Footprint, Loading, Moves, Part, Wait};
pub use error::ModelError;
pub use mask::{Allowed, Mask};
pub use memory::Memory;
pub use model::Model;
pub use pass::{Pass, TargetScore};
pub use pooling::Pooling;
pub use prefill::CPU_CHUNK;
pub use sampling::{SAMPLING_OPTIONS, Sampler, Sampling, SamplingOption};
pub use saved::Saved;
pub use score::Score;
pub use session::{Counters, Draft, Prefilled, Session};
