//! Files in memory: for tests, and for models that arrive as bytes.

use std::future::ready;

use crate::source::file_with;
use crate::{Reading, Source, SourceError, SourceFile};

/// A [`Source`] over bytes in memory.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    files: Vec<SourceFile>,
    contents: Vec<Vec<u8>>,
}

impl Memory {
    /// A source of several named files.
    pub fn new(files: Vec<(String, Vec<u8>)>) -> Self {
        let (files, contents) = files
            .into_iter()
            .map(|(name, content)| {
                let bytes = content.len() as u64;
                (SourceFile { name, bytes }, content)
            })
            .unzip();
        Self { files, contents }
    }

    /// A source of one file.
    pub fn file(name: impl Into<String>, content: Vec<u8>) -> Self {
        Self::new(vec![(name.into(), content)])
    }

    fn copy(&self, file: usize, offset: u64, into: &mut [u8]) -> Result<(), SourceError> {
        file_with(&self.files, file, offset, into.len())?;
        let start = usize::try_from(offset).ok();
        let range = start.and_then(|start| Some(start..start.checked_add(into.len())?));
        let bytes = range.and_then(|range| self.contents.get(file)?.get(range));
        into.copy_from_slice(bytes.ok_or(SourceError::NoFile { file })?);
        Ok(())
    }
}

impl Source for Memory {
    fn files(&self) -> &[SourceFile] {
        &self.files
    }

    fn read<'a>(&'a self, file: usize, offset: u64, into: &'a mut [u8]) -> Reading<'a> {
        Box::pin(ready(self.copy(file, offset, into)))
    }
}
