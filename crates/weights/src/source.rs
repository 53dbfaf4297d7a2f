//! Access to a model's bytes. All readers go through [`Source`], by ranges, so that a file is never
//! whole in memory.

use std::future::Future;
use std::pin::Pin;

/// A file of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Its name, without folders; only a folder's source has names such as `a/b.json`.
    pub name: String,
    /// Its length.
    pub bytes: u64,
}

/// The files of one model, read by ranges of bytes: a folder on disk, blobs in a page, bytes in
/// memory.
pub trait Source {
    /// The files; [`Source::read`] takes an index into them.
    fn files(&self) -> &[SourceFile];

    /// Fills `into` with the bytes of file `file` from `offset` on.
    ///
    /// # Errors
    /// [`SourceError`] where the file ends too early or cannot be read.
    fn read<'a>(&'a self, file: usize, offset: u64, into: &'a mut [u8]) -> Reading<'a>;
}

/// A pending read. Not `Send`: in a page everything lives on one thread.
pub type Reading<'a> = Pin<Box<dyn Future<Output = Result<(), SourceError>> + 'a>>;

/// A fault of a source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// A file ends before the requested range.
    #[error(
        "{file} has {bytes} bytes where {needed} are needed; it is incomplete, download it again"
    )]
    End {
        /// The file's name.
        file: String,
        /// Its length.
        bytes: u64,
        /// End of the range.
        needed: u64,
    },
    /// The system failed to read.
    #[error("cannot read {file}: {reason}")]
    Read {
        /// The file's name.
        file: String,
        /// The system's message and, where it is known, what to do.
        reason: String,
    },
    /// A folder that holds folders only.
    #[cfg(not(target_family = "wasm"))]
    #[error("{folder} holds no model, only folders: choose one of {folders}")]
    Folders {
        /// The folder.
        folder: String,
        /// The folders in it.
        folders: String,
    },
    /// A file index out of range.
    #[error(
        "the source has no file number {file}; open the model anew from the source that is read"
    )]
    NoFile {
        /// The index.
        file: usize,
    },
}

/// The file number `file`, if `length` bytes from `offset` on lie within it.
pub(crate) fn file_with(
    files: &[SourceFile],
    file: usize,
    offset: u64,
    length: usize,
) -> Result<&SourceFile, SourceError> {
    let found = files.get(file).ok_or(SourceError::NoFile { file })?;
    let needed = offset.saturating_add(length as u64);
    if needed > found.bytes {
        return Err(SourceError::End {
            file: found.name.clone(),
            bytes: found.bytes,
            needed,
        });
    }
    Ok(found)
}
