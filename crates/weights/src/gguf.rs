//! The GGUF container, versions 2 and 3, little-endian: magic, version, counts, metadata, tensor
//! directory, padding to the alignment, data. Written from the specification in ggml's
//! `docs/gguf.md`.

use std::collections::HashMap;
use std::ops::Range;

use crate::cursor::Cursor;
use crate::tensor::SHORTEST_TENSOR;
use crate::{GgufError, Metadata, Tensor};

/// Where no `general.alignment` is given.
const DEFAULT_ALIGNMENT: u32 = 32;

/// A parsed header: metadata and tensor directory. The tensors' data stays where it is.
#[derive(Debug, Clone)]
pub struct Gguf {
    version: u32,
    metadata: Metadata,
    tensors: Vec<Tensor>,
    by_name: HashMap<String, usize>,
    alignment: u64,
    data_start: u64,
}

impl Gguf {
    /// Parses a header from the first bytes of a file.
    ///
    /// Only the header is needed, so a file can be streamed: start with some hundred kilobytes;
    /// on [`GgufError::NeedMore`] read on (to `at_least` bytes, or twice as many as before, as
    /// long as the file has them) and parse again. Bytes after the header are ignored.
    ///
    /// # Errors
    /// Any [`GgufError`] of the format. Whether the file is long enough for its tensors is
    /// checked by [`Gguf::check_length`] and [`Gguf::data_range`].
    pub fn parse(header: &[u8]) -> Result<Self, GgufError> {
        let mut cursor = Cursor::new(header);
        let magic = cursor.u32()?.to_le_bytes();
        if magic != *b"GGUF" {
            return Err(GgufError::Magic { found: magic });
        }
        let version = cursor.u32()?;
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
        let count = cursor.expect_items(tensor_count, SHORTEST_TENSOR)?;
        let mut tensors = Vec::with_capacity(count);
        let mut by_name = HashMap::with_capacity(count);
        for index in 0..tensor_count {
            let tensor = Tensor::parse(&mut cursor, index, alignment)?;
            if by_name.insert(tensor.name.clone(), tensors.len()).is_some() {
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
        Ok(Self {
            version,
            metadata,
            tensors,
            by_name,
            alignment,
            data_start,
        })
    }

    /// Parses a file that is in memory from first to last byte, and checks that all data of all
    /// tensors is there.
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

    /// Checks that a file of `file_length` bytes holds the data of every tensor.
    ///
    /// # Errors
    /// [`GgufError::Truncated`] with the first tensor, in data order, that is cut off.
    pub fn check_length(&self, file_length: u64) -> Result<(), GgufError> {
        let first_cut = self
            .tensors
            .iter()
            .filter(|tensor| self.data_range(tensor, file_length).is_err())
            .min_by_key(|tensor| tensor.offset);
        first_cut.map_or(Ok(()), |tensor| {
            self.data_range(tensor, file_length).map(drop)
        })
    }

    /// Where a tensor's bytes are in a file of `file_length` bytes, counted from its start.
    ///
    /// # Errors
    /// [`GgufError::Truncated`] where the file ends before the tensor does.
    pub fn data_range(&self, tensor: &Tensor, file_length: u64) -> Result<Range<u64>, GgufError> {
        let Some(end) = tensor.offset.checked_add(tensor.bytes) else {
            return Err(GgufError::Offset {
                tensor: tensor.name.clone(),
                offset: tensor.offset,
            });
        };
        if end > file_length {
            let what = format!("tensor `{}`", tensor.name);
            return Err(GgufError::Truncated {
                what,
                needed: end,
                length: file_length,
            });
        }
        Ok(tensor.offset..end)
    }

    /// A tensor's bytes, of a file that is in memory whole.
    ///
    /// # Errors
    /// As [`Gguf::data_range`].
    pub fn data_of<'a>(&self, tensor: &Tensor, file: &'a [u8]) -> Result<&'a [u8], GgufError> {
        let range = self.data_range(tensor, file.len() as u64)?;
        let too_large = |_| GgufError::TooLarge {
            tensor: tensor.name.clone(),
            bytes: tensor.bytes,
        };
        let start = usize::try_from(range.start).map_err(too_large)?;
        let end = usize::try_from(range.end).map_err(too_large)?;
        file.get(start..end).ok_or_else(|| GgufError::TooLarge {
            tensor: tensor.name.clone(),
            bytes: tensor.bytes,
        })
    }

    /// The tensor called `name`.
    ///
    /// # Errors
    /// [`GgufError::MissingTensor`] where there is none; [`Gguf::find`] where that is no error.
    pub fn tensor(&self, name: &str) -> Result<&Tensor, GgufError> {
        self.find(name).ok_or_else(|| GgufError::MissingTensor {
            tensor: name.to_owned(),
        })
    }

    /// The tensor called `name`, if there is one.
    pub fn find(&self, name: &str) -> Option<&Tensor> {
        self.by_name.get(name).map(|&index| &self.tensors[index])
    }

    /// Metadata and tensors, for one who needs no more.
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

    /// Version of the container, 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Alignment of tensor data in bytes, a power of two.
    pub fn alignment(&self) -> u64 {
        self.alignment
    }

    /// Where the data section begins, in bytes from the start of the file.
    pub fn data_start(&self) -> u64 {
        self.data_start
    }
}

fn refuse_overlaps(tensors: &[Tensor]) -> Result<(), GgufError> {
    let mut in_order: Vec<&Tensor> = tensors.iter().collect();
    in_order.sort_by_key(|tensor| tensor.offset);
    for pair in in_order.windows(2) {
        // Parsing has made sure that offset + bytes does not overflow.
        if pair[0].offset + pair[0].bytes > pair[1].offset {
            return Err(GgufError::Overlap {
                tensor: pair[1].name.clone(),
                other: pair[0].name.clone(),
            });
        }
    }
    Ok(())
}
