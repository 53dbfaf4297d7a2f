//! Errors, each with advice on what to do next.

use std::path::PathBuf;
use std::time::Duration;

use crate::progress::in_words;

/// Reason why a text is not a reference to a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// Starts with `hf:`, but the rest is invalid.
    #[error(
        "`{text}` {why}; write hf:OWNER/REPO/FILE.gguf or, for a whole folder, hf:OWNER/REPO, with \
         @REVISION after it for a revision other than main: \
         hf:owner/model-GGUF/model-Q4_K_M.gguf@main"
    )]
    Hub {
        /// Text that was given.
        text: String,
        /// Problem with it.
        why: String,
    },
    /// A URL, but not one of a GGUF file.
    #[error(
        "`{text}` {why}; write the address of one file, like \
        https://example.org/models/model-Q4_K_M.gguf"
    )]
    Address {
        /// Text that was given, without secrets.
        text: String,
        /// Problem with it.
        why: &'static str,
    },
    /// Empty text.
    #[error(
        "no model is named; write a path, an address of a .gguf file, or hf:OWNER/REPO/FILE.gguf"
    )]
    Empty,
}

/// A file name that is unsafe as part of a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the name `{name}` {why}")]
pub struct NameError {
    /// The name, with unusual characters escaped.
    pub name: String,
    /// Problem with it.
    pub why: &'static str,
}

/// Reason why a model could not be fetched, listed or removed.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The text is not a reference.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// There is no folder for models.
    #[error("no folder to keep models in: set CONCLAVE_MODELS, or name one by --models-dir")]
    NoCache,
    /// The path does not exist.
    #[error("{path} does not exist{hint}")]
    NoSuchPath {
        /// Path that was given.
        path: PathBuf,
        /// A suggestion, or empty.
        hint: String,
    },
    /// An I/O error.
    #[error("{path}: {source}")]
    Disk {
        /// Path read or written.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// Not enough free space.
    #[error(
        "{needed} more are needed in {path}, {free} are free; remove models (`conclave models`), \
         or name another folder by --models-dir; chunks that are finished stay",
        needed = in_words(*.needed),
        free = in_words(*.free)
    )]
    NoSpace {
        /// Cache folder.
        path: PathBuf,
        /// Bytes still to be stored.
        needed: u64,
        /// Bytes free.
        free: u64,
    },
    /// Access denied.
    #[error("{what}: {why} (HTTP {status})")]
    Denied {
        /// Reference or URL.
        what: String,
        /// Reason, and what to do.
        why: String,
        /// 401 or 403.
        status: u16,
    },
    /// There is no such repository, revision or file.
    #[error("{what} is not there{hint}")]
    NotThere {
        /// Reference or URL.
        what: String,
        /// Available alternatives, or empty.
        hint: String,
    },
    /// Another status that a retry would not change.
    #[error("{what}: the server answers HTTP {status}, which no further try will change")]
    Status {
        /// URL.
        what: String,
        /// HTTP status.
        status: u16,
    },
    /// The server asks for a longer wait than is reasonable.
    #[error("{what}: the server asks to wait {} s (HTTP {status}); try again then, what is \
        finished stays", wait.as_secs())]
    Later {
        /// URL.
        what: String,
        /// Requested wait.
        wait: Duration,
        /// 429 or 503.
        status: u16,
    },
    /// The connection or the server failed too often in a row.
    #[error(
        "{what}: {why}, {attempts} times in a row; what is finished stays, the same command goes \
        on from there"
    )]
    Unreachable {
        /// URL.
        what: String,
        /// Last failure.
        why: String,
        /// Number of attempts.
        attempts: u32,
    },
    /// The hub or server sent an invalid response.
    #[error("{what}: {why}")]
    Nonsense {
        /// Reference or URL.
        what: String,
        /// Description of the problem.
        why: String,
    },
    /// The folder lacks files of a model, or the choice is ambiguous.
    #[error("{what} {why}")]
    NoModel {
        /// Reference to the model.
        what: String,
        /// Missing files, and available ones.
        why: String,
    },
    /// A file name from the network is unsafe as a path.
    #[error("{what} has a file that is not taken: {source}")]
    Name {
        /// Reference to the model.
        what: String,
        /// The name, and why.
        source: NameError,
    },
    /// The file at a URL changed repeatedly during its download.
    #[error("{what} changed while it was downloaded, more than once; try again later")]
    Changed {
        /// URL.
        what: String,
    },
    /// The bytes do not match the listed digest.
    #[error(
        "{what}: {file} arrived twice with another digest than its hub names ({expected}, got \
         {found}); nothing of it was kept. The line or a proxy changes it, or the copy there is \
         damaged"
    )]
    Mismatch {
        /// Reference to the model.
        what: String,
        /// File.
        file: String,
        /// Listed digest.
        expected: String,
        /// Digest of the received bytes.
        found: String,
    },
    /// Cancelled by the caller.
    #[error("stopped; what is finished stays, the same command goes on from there")]
    Stopped,
    /// The model is not stored.
    #[error("{what} is not stored{hint}")]
    NotStored {
        /// Reference to the model.
        what: String,
        /// Stored models, or why it can't be removed.
        hint: String,
    },
    /// Another process is downloading the model.
    #[error("{what} is being downloaded by another process; stop that first")]
    Busy {
        /// Reference to the model.
        what: String,
    },
}

impl HubError {
    /// Returns a function that wraps an I/O error on `path`.
    pub(crate) fn disk(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Disk { path, source }
    }
}
