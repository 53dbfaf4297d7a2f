//! The GGUF container, versions 2 and 3, little-endian: magic, version, counts, metadata, tensor
//! directory, padding to the alignment, data. Written from ggml's `docs/gguf.md`.

use std::collections::HashSet;

use crate::cursor::Cursor;
use crate::tensor::MIN_TENSOR_BYTES;
use crate::{GgufError, Metadata, Tensor};

/// Alignment where `general.alignment` is absent.
const DEFAULT_ALIGNMENT: u32 = 32;

/// A parsed header: metadata and tensor directory, without the tensors' data.
#[derive(Debug, Clone)]
pub struct Gguf {
    metadata: Metadata,
    tensors: Vec<Tensor>,
}

impl Gguf {
    /// Parses a header from the first bytes of a file.
    ///
    /// A file can be streamed: start with some hundred kilobytes; on [`GgufError::NeedMore`] read
    /// on (to `at_least` bytes, or twice as many as before, up to the file's length) and parse
    /// again. Bytes after the header are ignored.
    ///
    /// # Errors
    /// Any [`GgufError`] of the format. Does not check that the file holds its tensors' data: see
    /// [`Gguf::parse_whole`].
    pub fn parse(header: &[u8]) -> Result<Self, GgufError> {
        let mut cursor = Cursor::new(header);
        let magic = cursor.u32()?.to_le_bytes();
        if magic != *b"GGUF" {
            return Err(GgufError::Magic { found: magic });
        }
        let version = cursor.u32()?;
        if (2..=3).contains(&version.swap_bytes()) {
            return Err(GgufError::BigEndian);
        }
        if !(2..=3).contains(&version) {
            return Err(GgufError::Version { version });
        }
        let tensor_count = cursor.u64()?;
        let entry_count = cursor.u64()?;
        let metadata = Metadata::parse(&mut cursor, entry_count)?;
        let alignment = metadata
            .opt_u32("general.alignment")?
            .unwrap_or(DEFAULT_ALIGNMENT);
        if !alignment.is_power_of_two() {
            return Err(GgufError::Alignment { alignment });
        }
        let alignment = u64::from(alignment);

        cursor.enter("the tensor directory".to_owned());
        let count = cursor.expect_items(tensor_count, MIN_TENSOR_BYTES)?;
        let mut tensors = Vec::with_capacity(count);
        let mut names = HashSet::with_capacity(count);
        for index in 0..tensor_count {
            let tensor = Tensor::parse(&mut cursor, index, alignment)?;
            if !names.insert(tensor.name.clone()) {
                return Err(GgufError::DuplicateTensor {
                    tensor: tensor.name,
                });
            }
            tensors.push(tensor);
        }
        refuse_overlaps(&tensors)?;
        // The header's end is an index into a slice: adding 2^31 at most stays far below 2^64.
        let data_start = cursor.position().next_multiple_of(alignment);
        for tensor in &mut tensors {
            let end = tensor.offset.checked_add(data_start);
            match end.filter(|offset| offset.checked_add(tensor.bytes).is_some()) {
                Some(offset) => tensor.offset = offset,
                None => {
                    return Err(GgufError::Offset {
                        tensor: tensor.name.clone(),
                        offset: tensor.offset,
                    });
                }
            }
        }
        Ok(Self { metadata, tensors })
    }

    /// Parses a whole file in memory, and checks that it holds the data of all tensors.
    ///
    /// # Errors
    /// As [`Gguf::parse`], but a file that ends too early is [`GgufError::Truncated`].
    pub fn parse_whole(file: &[u8]) -> Result<Self, GgufError> {
        let length = file.len() as u64;
        let gguf = Self::parse(file).map_err(|error| match error {
            GgufError::NeedMore { at_least, reading } => GgufError::Truncated {
                what: reading,
                needed: at_least,
                length,
            },
            error => error,
        })?;
        gguf.check_length(length)?;
        Ok(gguf)
    }

    /// Checks that a file of `length` bytes holds every tensor's data.
    ///
    /// # Errors
    /// [`GgufError::Truncated`] with the first tensor, in data order, that is cut off.
    pub(crate) fn check_length(&self, length: u64) -> Result<(), GgufError> {
        // Parsing has checked that no end overflows.
        let cut = self.tensors.iter().filter(|t| t.offset + t.bytes > length);
        match cut.min_by_key(|tensor| tensor.offset) {
            None => Ok(()),
            Some(tensor) => Err(GgufError::Truncated {
                what: format!("tensor `{}`", tensor.name),
                needed: tensor.offset + tensor.bytes,
                length,
            }),
        }
    }

    /// Metadata and tensors, consuming the header.
    pub(crate) fn into_parts(self) -> (Metadata, Vec<Tensor>) {
        (self.metadata, self.tensors)
    }

    /// All tensors, in the directory's order.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

fn refuse_overlaps(tensors: &[Tensor]) -> Result<(), GgufError> {
    let mut in_order: Vec<&Tensor> = tensors.iter().collect();
    in_order.sort_by_key(|tensor| tensor.offset);
    for pair in in_order.windows(2) {
        // Parsing has checked that offset + bytes does not overflow.
        if pair[0].offset + pair[0].bytes > pair[1].offset {
            return Err(GgufError::Overlap {
                tensor: pair[1].name.clone(),
                other: pair[0].name.clone(),
            });
        }
    }
    Ok(())
}
