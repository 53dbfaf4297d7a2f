//! What can go wrong on the way to a model, each with what to do next.

use std::path::PathBuf;
use std::time::Duration;

use crate::progress::in_words;

/// Why a text is no reference to a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// It starts with `hf:` and does not go on as it should.
    #[error(
        "`{text}` {why}; write hf:OWNER/REPO/FILE.gguf or, for a whole folder, hf:OWNER/REPO, and @REVISION behind it \
         for another than main: hf:owner/model-GGUF/model-Q4_K_M.gguf@main"
    )]
    Hub {
        /// What was given.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// It is an address, but not one of a GGUF file.
    #[error(
        "`{text}` {why}; write the address of one file, like https://example.org/models/model-Q4_K_M.gguf"
    )]
    Address {
        /// What was given, without what may be secret in it.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Nothing at all.
    #[error(
        "no model is named; write a path, an address of a .gguf file, or hf:OWNER/REPO/FILE.gguf"
    )]
    Empty,
}

/// A name that may not become part of a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the name `{name}` {why}")]
pub struct NameError {
    /// The name, its odd characters escaped.
    pub name: String,
    /// What is wrong with it.
    pub why: &'static str,
}

/// Why a model could not be had.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The text names no model.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// No folder to keep models in.
    #[error("no folder to keep models in: set CONCLAVE_MODELS, or name one by --models-dir")]
    NoCache,
    /// A path that is not there.
    #[error("{path} does not exist{hint}")]
    NoSuchPath {
        /// The path.
        path: PathBuf,
        /// What may have been meant.
        hint: String,
    },
    /// The disk or the file system said no.
    #[error("{path}: {source}")]
    Disk {
        /// Where.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
    /// Too little room.
    #[error(
        "{needed} more are needed in {path}, {free} are free; remove models (`conclave models`), or name another folder \
         by --models-dir; chunks that are finished stay", needed = in_words(*.needed), free = in_words(*.free)
    )]
    NoSpace {
        /// The cache.
        path: PathBuf,
        /// Bytes still to be stored.
        needed: u64,
        /// Bytes free.
        free: u64,
    },
    /// 401 or 403.
    #[error("{what}: {why} (HTTP {status})")]
    Denied {
        /// The reference or the address.
        what: String,
        /// What the server wants, and what to do.
        why: String,
        /// 401 or 403.
        status: u16,
    },
    /// No such repository, revision or file.
    #[error("{what} is not there{hint}")]
    NotThere {
        /// The reference or the address.
        what: String,
        /// What is.
        hint: String,
    },
    /// Another answer that another try would not change.
    #[error("{what}: the server answers HTTP {status}, which no further try will change")]
    Status {
        /// The address.
        what: String,
        /// The status.
        status: u16,
    },
    /// The server asks for more patience than a command should have.
    #[error("{what}: the server asks to wait {} s (HTTP {status}); try again then, what is finished stays", wait.as_secs())]
    Later {
        /// The address.
        what: String,
        /// How long.
        wait: Duration,
        /// 429 or 503.
        status: u16,
    },
    /// The line or the server failed too often.
    #[error(
        "{what}: {why}, {attempts} times in a row; what is finished stays, the same command goes on from there"
    )]
    Unreachable {
        /// The address.
        what: String,
        /// The last fault.
        why: String,
        /// How often.
        attempts: u32,
    },
    /// What the hub or the server says makes no sense.
    #[error("{what}: {why}")]
    Nonsense {
        /// The reference or the address.
        what: String,
        /// What it says.
        why: String,
    },
    /// A folder without what a model needs, or an offer of several.
    #[error("{what} {why}")]
    NoModel {
        /// The reference.
        what: String,
        /// What it lacks, and what it has.
        why: String,
    },
    /// A name from the network that may not become a path.
    #[error("{what} has a file that is not taken: {source}")]
    Name {
        /// The reference.
        what: String,
        /// Which name, and why.
        source: NameError,
    },
    /// The file behind an address changed while it was downloaded, again and again.
    #[error("{what} changed while it was downloaded, more than once; try again later")]
    Changed {
        /// The address.
        what: String,
    },
    /// The bytes are not those the hub names.
    #[error(
        "{what}: {file} arrived twice with another digest than its hub names ({expected}, got {found}); nothing of it was \
         kept. The line or a proxy changes it, or the copy there is damaged"
    )]
    Mismatch {
        /// The reference.
        what: String,
        /// The file.
        file: String,
        /// As the hub says.
        expected: String,
        /// As it arrived.
        found: String,
    },
    /// Stopped by the caller.
    #[error("stopped; what is finished stays, the same command goes on from there")]
    Stopped,
    /// A model that is not stored.
    #[error("{what} is not stored{hint}")]
    NotStored {
        /// The reference.
        what: String,
        /// What is.
        hint: String,
    },
    /// A model that another process is working on.
    #[error("{what} is being downloaded by another process; stop that first")]
    Busy {
        /// The reference.
        what: String,
    },
}

impl HubError {
    /// A failed read or write of `path`.
    pub(crate) fn disk(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Disk { path, source }
    }
}
