//! Faults of a model's files as a whole.

use crate::{GgufError, SafetensorsError, SourceError};

/// A fault found while a model is opened or read, with its file and its tensor or key.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CheckpointError {
    /// The source failed to read.
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
    /// A fault in a safetensors file.
    #[error("{file}: {error}")]
    Safetensors {
        /// The file.
        file: String,
        /// The fault.
        #[source]
        error: SafetensorsError,
    },
    /// A JSON file that does not parse, or holds the wrong kind of value.
    #[error("{file} is unsound: {reason}; download it again")]
    Json {
        /// The file.
        file: String,
        /// The fault and its position.
        reason: String,
    },
    /// A text file that is not UTF-8.
    #[error("{file} is not valid UTF-8; download it again")]
    Utf8 {
        /// The file.
        file: String,
    },
    /// A file that is read whole and is longer than any real one.
    #[error("{file} has {bytes} bytes, more than the {limit} that any real one has; it is damaged")]
    LongFile {
        /// The file.
        file: String,
        /// Its length.
        bytes: u64,
        /// Longest length that is read.
        limit: u64,
    },
    /// Files that the model requires are missing.
    #[error("the model is incomplete, these files are missing: {files}; add them to the others")]
    MissingFiles {
        /// Their names.
        files: String,
    },
    /// A part of a split model that does not match its name.
    #[error(
        "{file} {problem}; put the parts of one model together, each once, under their own names"
    )]
    WrongPart {
        /// The part's name.
        file: String,
        /// The mismatch.
        problem: String,
    },
    /// A split model with more or fewer tensors than its first part announces.
    #[error(
        "the parts hold {found} tensors where the first one promises {promised}; they are of \
        different models, download them again"
    )]
    TensorCount {
        /// Number announced by the first part.
        promised: u64,
        /// Number found.
        found: u64,
    },
    /// A tensor in a shard that the index omits or assigns to another shard.
    #[error(
        "{file} holds tensor `{tensor}`, which model.safetensors.index.json does not list there; \
        download the folder again"
    )]
    Unlisted {
        /// The tensor's name.
        tensor: String,
        /// The shard.
        file: String,
    },
    /// A tensor that the index assigns to a shard that lacks it.
    #[error(
        "{file} lacks tensor `{tensor}`, which model.safetensors.index.json lists there; download \
        the folder again"
    )]
    NotInShard {
        /// The tensor's name.
        tensor: String,
        /// The shard.
        file: String,
    },
    /// Weights as pickled Python objects, which run code when loaded.
    #[error(
        "{file} holds weights as pickled Python objects, which are not read; choose a model with \
        .safetensors or .gguf files"
    )]
    Pickle {
        /// The file.
        file: String,
    },
    /// Two tensors of one name in several files.
    #[error(
        "tensor `{tensor}` is both in {file} and in {other}; the files are of different models"
    )]
    DuplicateTensor {
        /// The tensor's name.
        tensor: String,
        /// The one file.
        file: String,
        /// The other.
        other: String,
    },
    /// A tensor whose elements are stored in an unsupported way.
    #[error(
        "tensor `{tensor}` is stored as {dtype}, which cannot be read; choose the model in F32, \
        F16 or BF16, or as a .gguf file"
    )]
    Dtype {
        /// The tensor's name.
        tensor: String,
        /// Its storage, as the file names it.
        dtype: String,
    },
    /// 8-bit floats whose scales are missing or unsupported.
    #[error(
        "tensor `{tensor}`: its 8-bit floats {problem}; download the folder again, or choose the \
         model in F32, F16 or BF16, or as a .gguf file"
    )]
    Scales {
        /// The tensor's name.
        tensor: String,
        /// The fault of the scales.
        problem: String,
    },
    /// A missing tensor where the folder's weights are quantised by an unsupported method.
    #[error(
        "tensor `{tensor}` is not there as plain numbers, the weights are quantised by {method}, \
         which cannot be read; choose the model in F32, F16 or BF16, or as a .gguf file"
    )]
    Quantised {
        /// The tensor's name.
        tensor: String,
        /// The method, as config.json names it.
        method: String,
    },
    /// No model among the files.
    #[error(
        "no model among {files}: choose a .gguf file, or a folder with config.json and \
        model.safetensors"
    )]
    Nothing {
        /// The files present.
        files: String,
    },
    /// A file that is no model, or a stand-in for one.
    #[error("{file} {what}: {advice}")]
    NoModel {
        /// The file.
        file: String,
        /// Its kind.
        what: String,
        /// The remedy.
        advice: String,
    },
    /// Several models in one place.
    #[error("several models in one place ({files}); choose one of these files")]
    Several {
        /// Their files.
        files: String,
    },
    /// A header longer than any real one.
    #[error(
        "{file}: its header takes {bytes} bytes, more than the {limit} that any real one does; \
        the file is damaged"
    )]
    LongHeader {
        /// The file.
        file: String,
        /// Least length of the header.
        bytes: u64,
        /// Longest length that is read.
        limit: u64,
    },
    /// A tensor that the caller requires is missing.
    #[error("tensor `{tensor}` is missing; the model is incomplete or of another kind")]
    MissingTensor {
        /// The tensor's name.
        tensor: String,
    },
    /// Rows outside a tensor.
    #[error("tensor `{tensor}` has {rows} rows, and not {start} to {end}")]
    Rows {
        /// The tensor's name.
        tensor: String,
        /// Number of its rows.
        rows: u64,
        /// First row requested.
        start: u64,
        /// The row after the last.
        end: u64,
    },
    /// A size that this machine cannot address (wasm32 has 4 GiB).
    #[error(
        "tensor `{tensor}`: {bytes} bytes at once are more than this machine can address; read \
        fewer rows, or choose a smaller model"
    )]
    TooLarge {
        /// The tensor's name.
        tensor: String,
        /// The size in question.
        bytes: u64,
    },
}
