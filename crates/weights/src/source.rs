//! Where a model's bytes come from. Everything that reads a model reads it through [`Source`], by
//! ranges, so that a file need never be whole in memory.

use std::future::Future;
use std::pin::Pin;

/// A file of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Its name, without folders; only a folder's source gives names such as `a/b.json`.
    pub name: String,
    /// Its length.
    pub bytes: u64,
}

/// The files of one model, read by ranges of bytes: a folder on disk, blobs in a page, bytes in
/// memory.
pub trait Source {
    /// The files there are; [`Source::read`] knows them by their index.
    fn files(&self) -> &[SourceFile];

    /// Fills `into` with the bytes of file number `file` from `offset` on.
    ///
    /// # Errors
    /// The future ends in a [`SourceError`] where the file ends too early or cannot be read.
    fn read<'a>(&'a self, file: usize, offset: u64, into: &'a mut [u8]) -> Reading<'a>;
}

/// A read under way. Not `Send`: in a page everything lives on one thread.
pub type Reading<'a> = Pin<Box<dyn Future<Output = Result<(), SourceError>> + 'a>>;

/// A fault of a source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// A file ends before the range that was asked for.
    #[error(
        "{file} has {bytes} bytes where {needed} are needed; it is incomplete, download it again"
    )]
    End {
        /// The file's name.
        file: String,
        /// Its length.
        bytes: u64,
        /// Where the range ends.
        needed: u64,
    },
    /// The system could not read.
    #[error("cannot read {file}: {reason}; check that it is still there and may be read")]
    Read {
        /// The file's name.
        file: String,
        /// What the system says.
        reason: String,
    },
    /// A file number that the source does not have.
    #[error(
        "the source has no file number {file}; open the model anew from the source that is read"
    )]
    NoFile {
        /// The number.
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
