//! What can be wrong with a model's files as a whole.

use crate::{GgufError, SourceError};

/// A fault found while a model is opened or read, with the file and the tensor or key it is in.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CheckpointError {
    /// The source could not deliver.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A fault in a GGUF file.
    #[error("{file}: {error}")]
    Gguf {
        /// The file.
        file: String,
        /// The fault.
        #[source]
        error: GgufError,
    },
    /// Nothing there that is a model.
    #[error(
        "no model among {files}: choose a .gguf file, or a folder with config.json and model.safetensors"
    )]
    Nothing {
        /// The files there are.
        files: String,
    },
    /// Several models in one place.
    #[error("several models in one place ({files}); choose one of these files")]
    Several {
        /// Their files.
        files: String,
    },
    /// A header longer than any real one.
    #[error(
        "{file}: its header takes {bytes} bytes, more than the {limit} that any real one does; the file is damaged"
    )]
    LongHeader {
        /// The file.
        file: String,
        /// What the header takes at least.
        bytes: u64,
        /// The most that is read.
        limit: u64,
    },
    /// A tensor that the caller needs is not there.
    #[error("tensor `{tensor}` is missing; the model is incomplete or of another kind")]
    MissingTensor {
        /// The tensor's name.
        tensor: String,
    },
    /// Rows that a tensor does not have.
    #[error("tensor `{tensor}` has {rows} rows, and not {start} to {end}")]
    Rows {
        /// The tensor's name.
        tensor: String,
        /// Its rows.
        rows: u64,
        /// First row asked for.
        start: u64,
        /// The row after the last.
        end: u64,
    },
    /// A size that this machine cannot address (wasm32 has 4 GiB).
    #[error(
        "tensor `{tensor}`: {bytes} bytes at once are more than this machine can address; read fewer rows, or choose a smaller model"
    )]
    TooLarge {
        /// The tensor's name.
        tensor: String,
        /// The size in question.
        bytes: u64,
    },
}
