//! Model weights as they lie in files: a GGUF reader and the block formats of its tensors.
//!
//! Nothing in a file is trusted: every length, count, offset and string is checked before it
//! is used, and a fault is a [`GgufError`] that names the metadata key or the tensor.
//!
//! | to do this | use |
//! |---|---|
//! | read the header of a file, whole or while it streams in | [`Gguf::parse`], [`GgufError::NeedMore`] |
//! | read a whole file in memory | [`Gguf::parse_whole`] |
//! | look up a metadata value with its type checked | [`Metadata::u32`], [`Metadata::opt_str`], … |
//! | find a tensor and where its bytes are | [`Gguf::tensor`], [`Gguf::data_range`] |
//! | turn blocks into numbers and back | [`dequantise`], [`quantise`] |
//!
//! ```
//! # fn read(file: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
//! use conclave_weights::{Gguf, dequantise};
//! let gguf = Gguf::parse_whole(file)?;
//! let tensor = gguf.tensor("token_embd.weight")?;
//! let bytes = gguf.data_of(tensor, file)?;
//! let mut row = vec![0.0; usize::try_from(tensor.cols())?];
//! dequantise(tensor.format, &bytes[..tensor.row_bytes()?], &mut row)?;
//! # Ok(()) }
//! ```

mod checkpoint;
mod checkpoint_error;
mod convert;
mod cursor;
#[cfg(not(target_family = "wasm"))]
mod disk;
mod error;
mod format;
mod formats;
mod gguf;
mod gguf_files;
mod hugging_face;
mod memory;
mod metadata;
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
pub use memory::Memory;
pub use metadata::Metadata;
pub use source::{Reading, Source, SourceError, SourceFile};
pub use tensor::Tensor;
pub use value::{Array, Strings, Value};
