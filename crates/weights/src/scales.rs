//! Scales of 8-bit floats: separate tensors, as transformers (`fp8`) and compressed-tensors publish
//! them. An element is its float times the scale of its block, which is the whole matrix, a row, or
//! a rectangle of the size in `config.json`.

use std::collections::HashMap;
use std::ops::Range;

use serde_json::Value;

use crate::safetensors::{Directory, Unreadable};
use crate::{CheckpointError, Format, HuggingFace, Tensor};

/// Elements multiplied at a time, on the stack.
const PIECE: usize = 128;

/// Suffixes of the scales' tensor names. Both are factors: `inv` meant the inverse of the divisor
/// used at quantisation.
const ENDINGS: [&str; 2] = ["_scale_inv", "_scale"];

/// Factors on a tensor's elements: a number for each block of its rows and columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Scales {
    /// Tensor of the scales; each of its rows has the scales of the blocks in one row of blocks.
    pub numbers: Box<Tensor>,
    /// Rows of a block.
    pub rows: u64,
    /// Number of columns of a block.
    pub cols: u64,
}

/// Attaches scales to every tensor of 8-bit floats. Tensors without fitting scales, or of an
/// unknown quantisation method, become unreadable.
pub(crate) fn attach(directory: &mut Directory, described: &HuggingFace) {
    let floats = |tensor: &Tensor| tensor.format == Format::F8E4M3;
    if !directory.tensors.iter().any(floats) {
        return;
    }
    let known = described.quantised_by().is_none();
    let settings = described.quantisation().filter(|_| known);
    let beside = ScaleLookup {
        block: settings.map(block_size),
        tensors: by_name(&directory.tensors, |tensor| &tensor.name),
        unreadable: by_name(&directory.unreadable, |tensor| &tensor.name),
    };
    let found = directory.tensors.iter();
    let found: Vec<_> = found
        .map(|tensor| floats(tensor).then(|| beside.scales_of(tensor)))
        .collect();
    let tensors = std::mem::take(&mut directory.tensors);
    for (mut tensor, scales) in tensors.into_iter().zip(found) {
        match scales.transpose() {
            Ok(scales) => {
                tensor.scales = scales;
                directory.tensors.push(tensor);
            }
            Err(problem) => directory.unreadable.push(Unreadable {
                name: tensor.name,
                dtype: tensor.format.name().to_owned(),
                problem,
                file: tensor.file,
                bytes: tensor.bytes,
            }),
        }
    }
}

fn by_name<T>(all: &[T], name: fn(&T) -> &String) -> HashMap<&str, &T> {
    all.iter().map(|one| (name(one).as_str(), one)).collect()
}

/// Rows and columns of the blocks in `config.json`, if given; the error describes the fault.
fn block_size(settings: &Value) -> Result<Option<[u64; 2]>, String> {
    let groups = settings.get("config_groups").and_then(Value::as_object);
    let of_groups = groups
        .into_iter()
        .flat_map(serde_json::Map::values)
        .filter_map(|group| group.get("weights")?.get("block_structure"));
    let mut found = None;
    for size in settings
        .get("weight_block_size")
        .into_iter()
        .chain(of_groups)
    {
        if size.is_null() {
            continue;
        }
        let pair = size.as_array().map(Vec::as_slice);
        let (Some([rows, cols]), true) = (pair, found.is_none_or(|found| found == size)) else {
            return Err("config.json gives no one size of its blocks".to_owned());
        };
        if rows.as_u64().unwrap_or(0) == 0 || cols.as_u64().unwrap_or(0) == 0 {
            return Err("config.json gives its blocks an impossible size".to_owned());
        }
        found = Some(size);
    }
    Ok(found.map(|size| [0, 1].map(|at| size[at].as_u64().unwrap_or(1))))
}

/// Lookup of a tensor's scales.
struct ScaleLookup<'a> {
    /// The blocks' size; `None` without a known method.
    block: Option<Result<Option<[u64; 2]>, String>>,
    tensors: HashMap<&'a str, &'a Tensor>,
    unreadable: HashMap<&'a str, &'a Unreadable>,
}

impl ScaleLookup<'_> {
    /// A tensor's scales. The error describes the fault, where it is known.
    fn scales_of(&self, tensor: &Tensor) -> Result<Scales, Option<String>> {
        let block = self.block.as_ref().ok_or(None)?;
        let block = block.as_ref().map_err(|problem| Some(problem.clone()))?;
        self.fitting(tensor, *block).map_err(Some)
    }

    fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name) || self.unreadable.contains_key(name)
    }

    fn fitting(&self, tensor: &Tensor, block: Option<[u64; 2]>) -> Result<Scales, String> {
        let [cols, rows] = tensor.shape[..] else {
            return Err("are no matrix".to_owned());
        };
        let points = format!("{}_zero_point", tensor.name);
        if self.has(&points) {
            return Err(format!("have zero points (`{points}`), which are not read"));
        }
        let [first, second] = ENDINGS.map(|ending| format!("{}{ending}", tensor.name));
        let name = match (self.has(&first), self.has(&second)) {
            (true, false) => first,
            (false, true) => second,
            (false, false) => return Err(format!("have no scales, `{first}` or `{second}`")),
            (true, true) => return Err(format!("have two scales, `{first}` and `{second}`")),
        };
        if let Some(scales) = self.unreadable.get(name.as_str()) {
            let dtype = &scales.dtype;
            return Err(format!("have scales stored as {dtype} (`{name}`)"));
        }
        let numbers = self.tensors.get(name.as_str()).copied();
        let plain =
            |numbers: &&Tensor| matches!(numbers.format, Format::F32 | Format::F16 | Format::BF16);
        let Some(numbers) = numbers.filter(plain) else {
            return Err(format!(
                "have scales (`{name}`) that have scales themselves"
            ));
        };
        let across = |[_, width]: [u64; 2]| cols.div_ceil(width);
        let down = |[height, _]: [u64; 2]| rows.div_ceil(height);
        let sizes = match numbers.shape[..] {
            _ if numbers.elements() == 1 => Some([rows, cols]),
            [1, each] if each == rows => Some([1, cols]),
            [width, height] => {
                block.filter(|&block| (across(block), down(block)) == (width, height))
            }
            _ => None,
        };
        let Some([rows, cols]) = sizes else {
            let shape: Vec<u64> = numbers.shape.iter().rev().copied().collect();
            return Err(format!(
                "have scales of the shape {shape:?} (`{name}`), which are neither one for each of \
                 its {rows} rows nor one for each block"
            ));
        };
        Ok(Scales {
            numbers: Box::new(numbers.clone()),
            rows,
            cols,
        })
    }
}

impl Scales {
    /// The rows of `numbers` for these rows of the tensor.
    pub(crate) fn rows_for(&self, rows: &Range<u64>) -> Range<u64> {
        rows.start / self.rows..rows.end.div_ceil(self.rows)
    }

    /// The numbers in `bytes`, checked to be finite.
    pub(crate) fn factors(
        &self,
        bytes: &[u8],
        tensor: &Tensor,
    ) -> Result<Vec<f32>, CheckpointError> {
        let format = self.numbers.format;
        let mut factors = vec![0.0; bytes.len() / format.block_bytes()];
        format.layout().dequantise(bytes, &mut factors);
        match factors.iter().find(|factor| !factor.is_finite()) {
            None => Ok(factors),
            Some(factor) => Err(CheckpointError::Scales {
                tensor: tensor.name.clone(),
                problem: format!("have a scale of {factor} (`{}`)", self.numbers.name),
            }),
        }
    }

    /// Expands 8-bit floats to F32 in place. The floats lie in the last quarter of `bytes`, `cols`
    /// for each of the tensor's rows from `first` on; `factors` are those of [`Scales::rows_for`].
    /// The four bytes written for a float lie before all unread floats.
    pub(crate) fn multiply(&self, factors: &[f32], first: u64, cols: usize, bytes: &mut [u8]) {
        let floats = bytes.len() / 4 * 3;
        // A block may be declared wider than the row.
        let width = usize::try_from(self.cols).unwrap_or(cols).min(cols).max(1);
        let across = cols.div_ceil(width).max(1);
        let (mut stored, mut values) = ([0; PIECE], [0.0; PIECE]);
        let mut done = 0;
        for row in 0..(bytes.len() / 4 / cols.max(1)) as u64 {
            let down = (first + row) / self.rows - first / self.rows;
            let factors = factors.chunks_exact(across).nth(down as usize);
            for (block, factor) in factors.unwrap_or_default().iter().enumerate() {
                let mut left = width.min(cols - block * width);
                while left > 0 {
                    let count = left.min(PIECE);
                    let (stored, values) = (&mut stored[..count], &mut values[..count]);
                    stored.copy_from_slice(&bytes[floats + done..][..count]);
                    Format::F8E4M3.layout().dequantise(stored, values);
                    let (places, _) = bytes[4 * done..].as_chunks_mut::<4>();
                    for (place, value) in places.iter_mut().zip(values) {
                        *place = (*value * factor).to_le_bytes();
                    }
                    done += count;
                    left -= count;
                }
            }
        }
    }
}
