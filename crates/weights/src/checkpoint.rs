//! A model's header, from whatever files the model came in: its description and its tensors'
//! positions. Data is read from the [`Source`] by rows, on demand.

use std::collections::HashMap;
use std::ops::Range;

use crate::no_model::{adapter, refuse_piece, vocabulary};
use crate::safetensors::Unreadable;
use crate::{CheckpointError, HuggingFace, Metadata, Source, Tensor, gguf_files, hugging_face};

/// A model's description of itself, in the terms of its kind of file.
#[derive(Debug, Clone, PartialEq)]
// Its size varies: another crate of the build decides whether JSON keeps the order of its fields.
#[allow(clippy::large_enum_variant, reason = "there is one a model")]
pub enum Description {
    /// The metadata of a GGUF file.
    Gguf(Metadata),
    /// The JSON files of a Hugging Face folder.
    HuggingFace(HuggingFace),
}

/// A model's header. Every tensor listed lies within its file, tensors do not overlap, and names
/// are unique.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    description: Description,
    tensors: Vec<Tensor>,
    unreadable: Vec<Unreadable>,
    left_out: Vec<CheckpointError>,
    by_name: HashMap<String, usize>,
}

impl Checkpoint {
    /// Reads the header of the model in `source`: a GGUF file, the parts of a split one, or a
    /// Hugging Face folder (which wins where both kinds of file are present). A file that is no
    /// sound model is left out where another is one.
    ///
    /// # Errors
    /// [`CheckpointError`] for no model, for several, and for every fault of a header.
    pub async fn open(source: &dyn Source) -> Result<Self, CheckpointError> {
        let files = source.files();
        let is_gguf = |name: &str| name.to_ascii_lowercase().ends_with(".gguf");
        let chosen = |choose: &dyn Fn(&str) -> bool| -> Vec<usize> {
            let all = 0..files.len();
            all.filter(|&file| choose(&files[file].name)).collect()
        };
        let mut gguf = chosen(&is_gguf);
        let mut left_out = Vec::new();
        let mut folder = None;
        if hugging_face::has_weights(source) {
            match hugging_face::open(source).await {
                // A stand-in of its files hides no GGUF file.
                Err(error @ CheckpointError::NoModel { .. }) if !gguf.is_empty() => {
                    left_out.push(error);
                }
                opened => folder = Some(opened?),
            }
        } else if gguf.is_empty() {
            // Read before it is refused by its name: it may be whole.
            let piece = |name: &str| !name.ends_with(".safetensors") && refuse_piece(name).is_err();
            gguf = chosen(&piece);
            if gguf.is_empty() && hugging_face::is_folder(source) {
                folder = Some(hugging_face::open(source).await?);
            }
        }
        let (description, tensors, unreadable) = match folder {
            Some((described, weights)) => {
                for file in gguf {
                    left_out.push(gguf_files::beside_a_folder(source, file).await);
                }
                let described = Description::HuggingFace(described);
                (described, weights.tensors, weights.unreadable)
            }
            None if gguf.is_empty() && files.len() != 1 => {
                return Err(CheckpointError::Nothing {
                    files: list(files.iter().map(|file| file.name.as_str())),
                });
            }
            None => {
                // A single file may have any name: a download cache's are numbers.
                let gguf = if gguf.is_empty() { vec![0] } else { gguf };
                let opened = gguf_files::open(source, &gguf, &mut left_out).await;
                let (metadata, tensors) = opened?;
                (Description::Gguf(metadata), tensors, Vec::new())
            }
        };
        left_out.extend(adapter(source));
        let mut by_name = HashMap::with_capacity(tensors.len());
        for (index, tensor) in tensors.iter().enumerate() {
            if let Some(earlier) = by_name.insert(tensor.name.clone(), index) {
                let file = |file: usize| files.get(file).map_or("", |file| &file.name).to_owned();
                return Err(CheckpointError::DuplicateTensor {
                    tensor: tensor.name.clone(),
                    file: file(tensors[earlier].file),
                    other: file(tensor.file),
                });
            }
        }
        Ok(Self {
            description,
            tensors,
            unreadable,
            left_out,
            by_name,
        })
    }

    /// The model's description of itself.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// All tensors, in the order of their files and directories.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Tensors that cannot be read: integers, 8-bit floats without their scales, packed quants of
    /// other methods. Only safetensors files have them.
    pub fn unreadable(&self) -> &[Unreadable] {
        &self.unreadable
    }

    /// Files beside the model that do not belong to it, each with its kind or fault.
    pub fn left_out(&self) -> &[CheckpointError] {
        &self.left_out
    }

    /// Whether the files have a tensor called `name`, readable or not. Use this, not
    /// [`Checkpoint::find`], before doing without a tensor.
    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some() || self.unreadable.iter().any(|tensor| tensor.name == name)
    }

    /// The readable tensor called `name`.
    pub fn find(&self, name: &str) -> Option<&Tensor> {
        self.by_name.get(name).map(|&index| &self.tensors[index])
    }

    /// The tensor called `name`.
    ///
    /// # Errors
    /// [`CheckpointError::MissingTensor`] where it is absent; [`CheckpointError::Dtype`],
    /// [`CheckpointError::Scales`] and [`CheckpointError::Quantised`] where its storage cannot be
    /// read.
    pub fn tensor(&self, name: &str) -> Result<&Tensor, CheckpointError> {
        if let Some(tensor) = self.find(name) {
            return Ok(tensor);
        }
        let tensor = name.to_owned();
        if let Some(found) = self.unreadable.iter().find(|tensor| tensor.name == name) {
            return Err(match found.problem.clone() {
                Some(problem) => CheckpointError::Scales { tensor, problem },
                None => CheckpointError::Dtype {
                    tensor,
                    dtype: found.dtype.clone(),
                },
            });
        }
        let method = match &self.description {
            Description::HuggingFace(described) => described.quantised_by(),
            Description::Gguf(_) => None,
        };
        Err(match method {
            Some(method) => CheckpointError::Quantised { tensor, method },
            None => CheckpointError::MissingTensor { tensor },
        })
    }

    /// Refuses a GGUF file that holds a vocabulary and nothing else, to be called before its
    /// weights are sought.
    ///
    /// # Errors
    /// [`CheckpointError::NoModel`].
    pub fn refuse_vocabulary(&self) -> Result<(), CheckpointError> {
        match self.description {
            Description::Gguf(_) if self.tensors.is_empty() => Err(vocabulary("the file")),
            _ => Ok(()),
        }
    }

    /// Reads rows of a tensor in the format of [`Tensor::read_as`]: as stored, or multiplied by the
    /// tensor's scales. Replaces the content of `into` and reuses its memory.
    ///
    /// # Errors
    /// [`CheckpointError::Rows`] for rows that the tensor lacks, [`CheckpointError::TooLarge`] for
    /// more than memory can address, [`CheckpointError::Scales`] for scales that are not finite,
    /// [`CheckpointError::Source`] where the source fails.
    pub async fn read_rows(
        &self,
        source: &dyn Source,
        tensor: &Tensor,
        rows: Range<u64>,
        into: &mut Vec<u8>,
    ) -> Result<(), CheckpointError> {
        let (offset, bytes) = place(tensor, &rows)?;
        let Some(scales) = &tensor.scales else {
            into.resize(length(tensor, bytes)?, 0);
            return Ok(source.read(tensor.file, offset, into).await?);
        };
        let (at, size) = place(&scales.numbers, &scales.rows_for(&rows))?;
        let mut factors = vec![0; length(&scales.numbers, size)?];
        source.read(scales.numbers.file, at, &mut factors).await?;
        let factors = scales.factors(&factors, tensor)?;
        // Four bytes each.
        into.resize(length(tensor, bytes.saturating_mul(4))?, 0);
        let stored = into.len() / 4 * 3;
        source
            .read(tensor.file, offset, &mut into[stored..])
            .await?;
        let cols = length(tensor, tensor.cols())?;
        scales.multiply(&factors, rows.start, cols, into);
        Ok(())
    }
}

/// Offset of the first of `rows`, and their length in bytes.
fn place(tensor: &Tensor, rows: &Range<u64>) -> Result<(u64, u64), CheckpointError> {
    let count = rows.end.checked_sub(rows.start);
    let Some(count) = count.filter(|_| rows.end <= tensor.rows()) else {
        return Err(CheckpointError::Rows {
            tensor: tensor.name.clone(),
            rows: tensor.rows(),
            start: rows.start,
            end: rows.end,
        });
    };
    // The whole tensor's size in bytes is known to fit u64.
    let row_bytes = tensor.bytes / tensor.rows().max(1);
    let start = rows.start.saturating_mul(row_bytes);
    Ok((
        tensor.offset.saturating_add(start),
        count.saturating_mul(row_bytes),
    ))
}

/// A length that this machine can address.
fn length(tensor: &Tensor, bytes: u64) -> Result<usize, CheckpointError> {
    let length = usize::try_from(bytes).ok();
    let length = length.filter(|&length| isize::try_from(length).is_ok());
    length.ok_or_else(|| CheckpointError::TooLarge {
        tensor: tensor.name.clone(),
        bytes,
    })
}

/// Index of the source's file called `name`.
pub(crate) fn named(source: &dyn Source, name: &str) -> Option<usize> {
    source.files().iter().position(|file| file.name == name)
}

/// Names for a message: the first dozen, and how many more follow.
pub(crate) fn list<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    let mut listed = String::new();
    let mut more = 0_usize;
    for (index, name) in names.into_iter().enumerate() {
        if index >= 12 {
            more += 1;
            continue;
        }
        if index > 0 {
            listed.push_str(", ");
        }
        listed.push_str(name.as_ref());
    }
    if listed.is_empty() {
        listed.push_str("no files");
    }
    if more > 0 {
        listed.push_str(&format!(" and {more} more"));
    }
    listed
}
