//! Reads model weights from files: GGUF, single or split, Hugging Face folders with safetensors,
//! and the block formats of their tensors.
//!
//! Files are untrusted: every length, count, offset and string is checked before use, and a fault
//! is a typed error that names the file, the key or the tensor.
//!
//! | to do this | use |
//! |---|---|
//! | open a model, whatever its files | [`Checkpoint::open`] on a [`Source`]: [`Disk`], [`Memory`], or your own |
//! | read its description | [`Checkpoint::description`]: [`Metadata`] or [`HuggingFace`] |
//! | find a tensor and read some of its rows | [`Checkpoint::tensor`], [`Checkpoint::read_rows`] |
//! | turn blocks into numbers and back | [`dequantise`], [`quantise`] |
//! | turn blocks into blocks of another format | [`convert()`] |
//! | read the header of one GGUF file in memory | [`Gguf::parse`], [`Gguf::parse_whole`] |
//!
//! ```
//! # async fn first_row() -> Result<Vec<f32>, Box<dyn std::error::Error>> {
//! use conclave_weights::{Checkpoint, Disk, dequantise};
//! let disk = Disk::open("models/SmolLM2-135M-Instruct")?;
//! let model = Checkpoint::open(&disk).await?;
//! let tensor = model.tensor("model.embed_tokens.weight")?;
//! let mut bytes = Vec::new();
//! model.read_rows(&disk, tensor, 0..1, &mut bytes).await?;
//! let mut row = vec![0.0; usize::try_from(tensor.cols())?];
//! dequantise(tensor.read_as(), &bytes, &mut row)?;
//! # Ok(row) }
//! ```

mod checkpoint;
mod checkpoint_error;
mod convert;
mod cursor;
#[cfg(not(target_family = "wasm"))]
mod disk;
mod error;
mod format;
pub mod formats;
mod gguf;
mod gguf_files;
mod hugging_face;
mod json;
mod memory;
mod metadata;
mod no_model;
pub mod quantised;
mod safetensors;
mod safetensors_error;
mod scales;
mod source;
mod tensor;
mod value;

pub use checkpoint::{Checkpoint, Description};
pub use checkpoint_error::CheckpointError;
pub use convert::convert;
#[cfg(not(target_family = "wasm"))]
pub use disk::Disk;
pub use error::{BlockError, GgufError};
pub use format::{Format, dequantise, quantise};
pub use gguf::Gguf;
pub use hugging_face::HuggingFace;
pub use json::without_python;
pub use memory::Memory;
pub use metadata::Metadata;
#[cfg(not(target_family = "wasm"))]
pub use no_model::refuse_no_template;
pub use safetensors::Unreadable;
pub use safetensors_error::SafetensorsError;
pub use scales::Scales;
pub use source::{Reading, Source, SourceError, SourceFile};
pub use tensor::Tensor;
pub use value::{Array, Strings, Value};
