//! What can be wrong with a model's files as a whole.

use crate::{GgufError, SafetensorsError, SourceError};

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
    /// A fault in a safetensors file.
    #[error("{file}: {error}")]
    Safetensors {
        /// The file.
        file: String,
        /// The fault.
        #[source]
        error: SafetensorsError,
    },
    /// A JSON file that is none, or not of the kind that belongs there.
    #[error("{file} is unsound: {reason}; download it again")]
    Json {
        /// The file.
        file: String,
        /// What is wrong and where.
        reason: String,
    },
    /// A text file that is not UTF-8.
    #[error("{file} is not valid UTF-8; download it again")]
    Utf8 {
        /// The file.
        file: String,
    },
    /// A file that is read whole and longer than any real one.
    #[error("{file} has {bytes} bytes, more than the {limit} that any real one has; it is damaged")]
    LongFile {
        /// The file.
        file: String,
        /// Its length.
        bytes: u64,
        /// The most that is read.
        limit: u64,
    },
    /// Files that the model cannot do without.
    #[error("the model is incomplete, these files are missing: {files}; add them to the others")]
    MissingFiles {
        /// Their names.
        files: String,
    },
    /// A part of a split model that is not the part its name says.
    #[error(
        "{file} {problem}; put the parts of one model together, each once, under their own names"
    )]
    WrongPart {
        /// The part's name.
        file: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A split model with more or fewer tensors than its first part says.
    #[error(
        "the parts hold {found} tensors where the first one promises {promised}; they are of different models, download them again"
    )]
    TensorCount {
        /// What the first part says.
        promised: u64,
        /// What is there.
        found: u64,
    },
    /// A tensor in a shard that the index does not know, or knows in another.
    #[error(
        "{file} holds tensor `{tensor}`, which model.safetensors.index.json does not list there; download the folder again"
    )]
    Unlisted {
        /// The tensor's name.
        tensor: String,
        /// The shard.
        file: String,
    },
    /// A tensor that the index lists in a shard that does not have it.
    #[error(
        "{file} lacks tensor `{tensor}`, which model.safetensors.index.json lists there; download the folder again"
    )]
    NotInShard {
        /// The tensor's name.
        tensor: String,
        /// The shard.
        file: String,
    },
    /// Weights as Python objects, which only Python can read, and only on trust.
    #[error(
        "{file} holds weights as pickled Python objects, which are not read; choose a model with .safetensors or .gguf files"
    )]
    Pickle {
        /// The file.
        file: String,
    },
    /// Two tensors of the same name in several files.
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
    /// A tensor whose elements are stored in a way that is not read.
    #[error(
        "tensor `{tensor}` is stored as {dtype}, which cannot be read; choose the model in F32, F16 or BF16, or as a .gguf file"
    )]
    Dtype {
        /// The tensor's name.
        tensor: String,
        /// How it is stored, as the file has it.
        dtype: String,
    },
    /// 8-bit floats whose scales are missing, or not as they are read.
    #[error(
        "tensor `{tensor}`: its 8-bit floats {problem}; download the folder again, or choose the model in F32, F16 or \
         BF16, or as a .gguf file"
    )]
    Scales {
        /// The tensor's name.
        tensor: String,
        /// What is wrong with the scales.
        problem: String,
    },
    /// A tensor that is missing where the folder's weights are quantised in a way that is not read.
    #[error(
        "tensor `{tensor}` is not there as plain numbers, the weights are quantised by {method}, which cannot be read; \
         choose the model in F32, F16 or BF16, or as a .gguf file"
    )]
    Quantised {
        /// The tensor's name.
        tensor: String,
        /// The method as config.json names it.
        method: String,
    },
    /// Nothing there that is a model.
    #[error(
        "no model among {files}: choose a .gguf file, or a folder with config.json and model.safetensors"
    )]
    Nothing {
        /// The files there are.
        files: String,
    },
    /// A file that holds something else than a model, or stands for one.
    #[error("{file} {what}")]
    NoModel {
        /// The file.
        file: String,
        /// What it is, and what to do.
        what: &'static str,
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
