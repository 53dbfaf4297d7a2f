//! A model's header, from whatever files the model came in: what it says of itself, and where its
//! tensors lie. Data is read from the [`Source`] by rows, when it is wanted.

use std::collections::HashMap;
use std::ops::Range;

use crate::gguf_files::header;
use crate::{CheckpointError, HuggingFace, Metadata, Source, Tensor};

/// What a model says of itself, in the words of its kind of file.
#[derive(Debug, Clone, PartialEq)]
pub enum Description {
    /// The metadata of a GGUF file.
    Gguf(Metadata),
    /// The JSON files of a Hugging Face folder.
    HuggingFace(HuggingFace),
}

/// A model's header. Every tensor it lists lies within its file, none overlaps another, and no two
/// have one name.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    description: Description,
    tensors: Vec<Tensor>,
    by_name: HashMap<String, usize>,
}

impl Checkpoint {
    /// Reads the header of the model in `source`: a GGUF file, or a Hugging Face folder.
    ///
    /// # Errors
    /// [`CheckpointError`] for no model, for several, and for every fault of a header.
    pub async fn open(source: &dyn Source) -> Result<Self, CheckpointError> {
        let gguf: Vec<usize> = (0..source.files().len())
            .filter(|&file| source.files()[file].name.ends_with(".gguf"))
            .collect();
        match gguf[..] {
            [] => Err(CheckpointError::Nothing {
                files: names(source, 0..source.files().len()),
            }),
            [file] => {
                let (metadata, mut tensors) = header(source, file).await?.into_parts();
                for tensor in &mut tensors {
                    tensor.file = file;
                }
                Ok(Self::new(Description::Gguf(metadata), tensors))
            }
            _ => Err(CheckpointError::Several {
                files: names(source, gguf),
            }),
        }
    }

    fn new(description: Description, tensors: Vec<Tensor>) -> Self {
        let by_name = tensors
            .iter()
            .enumerate()
            .map(|(index, tensor)| (tensor.name.clone(), index))
            .collect();
        Self {
            description,
            tensors,
            by_name,
        }
    }

    /// What the model says of itself.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// All tensors, in the order of their files and directories.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The tensor called `name`, if there is one.
    pub fn find(&self, name: &str) -> Option<&Tensor> {
        self.by_name.get(name).map(|&index| &self.tensors[index])
    }

    /// The tensor called `name`.
    ///
    /// # Errors
    /// [`CheckpointError::MissingTensor`] where there is none.
    pub fn tensor(&self, name: &str) -> Result<&Tensor, CheckpointError> {
        self.find(name)
            .ok_or_else(|| CheckpointError::MissingTensor {
                tensor: name.to_owned(),
            })
    }

    /// Reads rows of a tensor as they are stored, `rows.len() × row_bytes` bytes. What `into` held
    /// before is dropped, its memory is used again.
    ///
    /// # Errors
    /// [`CheckpointError::Rows`] for rows that the tensor does not have,
    /// [`CheckpointError::TooLarge`] for more than can be in memory,
    /// [`CheckpointError::Source`] where the source fails.
    pub async fn read_rows(
        &self,
        source: &dyn Source,
        tensor: &Tensor,
        rows: Range<u64>,
        into: &mut Vec<u8>,
    ) -> Result<(), CheckpointError> {
        let count = rows.end.checked_sub(rows.start);
        let Some(count) = count.filter(|_| rows.end <= tensor.rows()) else {
            return Err(CheckpointError::Rows {
                tensor: tensor.name.clone(),
                rows: tensor.rows(),
                start: rows.start,
                end: rows.end,
            });
        };
        // Rows are part of a tensor whose size in bytes is known to be a u64.
        let row_bytes = tensor.bytes / tensor.rows().max(1);
        let bytes = count.saturating_mul(row_bytes);
        let start = rows.start.saturating_mul(row_bytes);
        let length = usize::try_from(bytes)
            .ok()
            .filter(|&length| isize::try_from(length).is_ok())
            .ok_or_else(|| CheckpointError::TooLarge {
                tensor: tensor.name.clone(),
                bytes,
            })?;
        into.clear();
        into.resize(length, 0);
        let offset = tensor.offset.saturating_add(start);
        Ok(source.read(tensor.file, offset, into).await?)
    }
}

/// The names of some of a source's files, for messages: the first dozen.
fn names(source: &dyn Source, files: impl IntoIterator<Item = usize>) -> String {
    let mut names: Vec<&str> = files
        .into_iter()
        .map(|file| source.files()[file].name.as_str())
        .collect();
    let rest = names.len().saturating_sub(12);
    names.truncate(12);
    match (names.is_empty(), rest) {
        (true, _) => "no files".to_owned(),
        (false, 0) => names.join(", "),
        (false, rest) => format!("{} and {rest} more", names.join(", ")),
    }
}
