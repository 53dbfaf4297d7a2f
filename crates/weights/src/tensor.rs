//! A tensor of a model file, and how a GGUF file's directory describes one.

use crate::cursor::Cursor;
use crate::format::type_name;
use crate::{Format, GgufError, Scales};

/// Bytes of the shortest possible entry: an empty name, no dimensions, a type and an offset.
pub(crate) const MIN_TENSOR_BYTES: u64 = 8 + 4 + 4 + 8;

/// ggml's maximum number of dimensions.
const MAX_DIMENSIONS: u32 = 4;

/// A tensor as the file's directory describes it.
///
/// **Shape order.** GGUF writes dimensions in ggml's `ne` order, the fastest-moving first. A
/// PyTorch weight `[out, in]` is `[in, out]` here. Rows are contiguous: [`Tensor::cols`] is the
/// length of a row (`shape[0]`, `in`), [`Tensor::rows`] the number of rows (`out`). Shapes from
/// safetensors files are turned round to match.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// The tensor's name, such as `blk.0.attn_q.weight`.
    pub name: String,
    /// Dimensions in `ne` order, none for a scalar, each at least 1.
    pub shape: Vec<u64>,
    /// Storage format of the elements.
    pub format: Format,
    /// Factors on 8-bit floats, applied as they are read; `None` for other formats.
    pub scales: Option<Scales>,
    /// Its file: an index into [`Source::files`](crate::Source::files).
    pub file: usize,
    /// Offset of the first byte, from the start of that file.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl Tensor {
    /// Length of a row, in elements: the first dimension.
    pub fn cols(&self) -> u64 {
        self.shape.first().copied().unwrap_or(1)
    }

    /// Number of rows: the product of all dimensions after the first.
    pub fn rows(&self) -> u64 {
        self.shape.iter().skip(1).product()
    }

    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.shape.iter().product()
    }

    /// The format of rows from [`Checkpoint::read_rows`](crate::Checkpoint::read_rows): the stored
    /// one, or F32 for elements with scales.
    pub fn read_as(&self) -> Format {
        match self.scales {
            Some(_) => Format::F32,
            None => self.format,
        }
    }

    /// Reads entry `index` of the directory; its offset still counts from the data section.
    pub(crate) fn parse(
        cursor: &mut Cursor<'_>,
        index: u64,
        alignment: u64,
    ) -> Result<Self, GgufError> {
        cursor.enter(format!("the name of tensor {index}"));
        let name = cursor.string()?.to_owned();
        cursor.enter(format!("the entry of tensor `{name}`"));
        let dimensions = cursor.u32()?;
        if dimensions > MAX_DIMENSIONS {
            return Err(GgufError::Shape {
                tensor: name,
                shape: vec![u64::from(dimensions)],
                reason: "more than four dimensions; this is their number",
            });
        }
        let mut shape = Vec::with_capacity(MAX_DIMENSIONS as usize);
        for _ in 0..dimensions {
            shape.push(cursor.u64()?);
        }
        let type_id = cursor.u32()?;
        let offset = cursor.u64()?;

        let Some(format) = Format::from_ggml_type(type_id) else {
            let known = Format::ALL.into_iter();
            let known = known.filter(|format| format.ggml_type().is_some());
            let known = known.map(Format::name).collect::<Vec<_>>().join(", ");
            return Err(GgufError::UnknownFormat {
                tensor: name,
                type_id,
                type_name: type_name(type_id),
                known,
            });
        };
        let bytes = match size(&shape, format) {
            Ok(bytes) => bytes,
            Err(reason) => {
                return Err(GgufError::Shape {
                    tensor: name,
                    shape,
                    reason,
                });
            }
        };
        if offset % alignment != 0 {
            return Err(GgufError::Misaligned {
                tensor: name,
                offset,
                alignment,
            });
        }
        if offset.checked_add(bytes).is_none() {
            return Err(GgufError::Offset {
                tensor: name,
                offset,
            });
        }
        Ok(Self {
            name,
            shape,
            format,
            scales: None,
            file: 0,
            offset,
            bytes,
        })
    }
}

/// Bytes of a tensor; the error is the broken rule of its shape.
pub(crate) fn size(shape: &[u64], format: Format) -> Result<u64, &'static str> {
    if shape.contains(&0) {
        return Err("a dimension is zero");
    }
    let cols = shape.first().copied().unwrap_or(1);
    if cols % format.block_elements() as u64 != 0 {
        return Err("a row is no whole number of the format's blocks");
    }
    let elements = shape
        .iter()
        .try_fold(1_u64, |product, &size| product.checked_mul(size));
    elements
        .and_then(|elements| {
            (elements / format.block_elements() as u64).checked_mul(format.block_bytes() as u64)
        })
        .filter(|&bytes| i64::try_from(bytes).is_ok())
        .ok_or("its size overflows")
}
