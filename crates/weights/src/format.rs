//! The formats tensors are stored in. Each lives in one file of `formats/` as a [`Layout`]; this
//! file names them and leads to them. To add a format: write its file, add it to the enum, to
//! [`Format::ALL`] and to `layout`.

use std::fmt;

use crate::BlockError;
use crate::formats::{
    bf16, f8_e4m3, f16, f32, iq2_s, iq2_xs, iq2_xxs, iq3_s, iq3_xxs, iq4_nl, iq4_xs, mxfp4, q2_k,
    q3_k, q4_0, q4_1, q4_k, q5_0, q5_1, q5_k, q6_k, q8_0,
};

/// How a tensor's elements are stored; the names are ggml's, or those of safetensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Format {
    /// 32-bit floats.
    F32,
    /// 16-bit floats (IEEE 754 binary16).
    F16,
    /// The upper halves of 32-bit floats.
    BF16,
    /// 8-bit floats (E4M3 without infinities), which only safetensors files have, with
    /// [`Scales`](crate::Scales).
    F8E4M3,
    /// Blocks of 32: an f16 scale and 32 nibbles.
    Q4_0,
    /// Blocks of 32: an f16 scale, an f16 minimum and 32 nibbles.
    Q4_1,
    /// Blocks of 32: an f16 scale and 32 quants of five bits.
    Q5_0,
    /// Blocks of 32: an f16 scale, an f16 minimum and 32 quants of five bits.
    Q5_1,
    /// Blocks of 32: an f16 scale and 32 signed bytes.
    Q8_0,
    /// Blocks of 256 with scales and minima for groups of 16: quants of two bits.
    Q2K,
    /// Blocks of 256 with scales for groups of 16: quants of three bits.
    Q3K,
    /// Blocks of 256 with scales and minima for groups of 32: quants of four bits.
    Q4K,
    /// Blocks of 256 with scales and minima for groups of 32: quants of five bits.
    Q5K,
    /// Blocks of 256 with scales for groups of 16: quants of six bits.
    Q6K,
    /// Blocks of 256 with scales for groups of 32: bytes that choose eight numbers from a code book.
    IQ2XXS,
    /// Blocks of 256 with scales for groups of 16: nine bits that choose eight from a larger book.
    IQ2XS,
    /// Blocks of 256 with scales for groups of 16: ten bits that choose eight, and free signs.
    IQ2S,
    /// Blocks of 256 with scales for groups of 32: bytes that choose four numbers from a code book.
    IQ3XXS,
    /// Blocks of 256 with scales for groups of 32: nine bits that choose four, and free signs.
    IQ3S,
    /// Blocks of 32: an f16 scale and 32 nibbles that choose from a table.
    IQ4NL,
    /// Blocks of 256 with scales for groups of 32: nibbles that choose from the same table.
    IQ4XS,
    /// Blocks of 32: a power of two and 32 floats of four bits.
    MXFP4,
}

/// Writes blocks, or names the first that cannot be written.
type Writer = fn(&[f32], &mut [u8]) -> Result<(), usize>;

/// What a format's file says about it.
pub(crate) struct Layout {
    /// ggml's name.
    pub name: &'static str,
    /// ggml's number of the type in files; `None` for a type that ggml does not have.
    pub ggml_type: Option<u32>,
    /// Elements in a block.
    pub block_elements: usize,
    /// Bytes in a block.
    pub block_bytes: usize,
    /// Where a block has an f16, in bytes. All else in it are whole numbers, of which any bits will do.
    pub halves: &'static [usize],
    /// The code book, packed as [`Format::grid`] says; empty where there is none.
    pub grid: &'static [u16],
    /// Writes the elements of whole blocks; both slices are for the same number of blocks.
    pub dequantise: fn(&[u8], &mut [f32]),
    /// Writes the bytes of whole blocks, likewise. Values are finite; the error is the number of
    /// the first block that needs a number too large for the format.
    pub quantise: Option<Writer>,
}

impl Format {
    /// All formats that a matrix can be kept in: not 8-bit floats, whose scales are tensors of their
    /// own, and which are multiplied by them on the way.
    pub const ALL: [Self; 21] = [
        Self::F32,
        Self::F16,
        Self::BF16,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q8_0,
        Self::Q2K,
        Self::Q3K,
        Self::Q4K,
        Self::Q5K,
        Self::Q6K,
        Self::IQ2XXS,
        Self::IQ2XS,
        Self::IQ2S,
        Self::IQ3XXS,
        Self::IQ3S,
        Self::IQ4NL,
        Self::IQ4XS,
        Self::MXFP4,
    ];

    pub(crate) fn layout(self) -> &'static Layout {
        match self {
            Self::F32 => &f32::LAYOUT,
            Self::F16 => &f16::LAYOUT,
            Self::BF16 => &bf16::LAYOUT,
            Self::F8E4M3 => &f8_e4m3::LAYOUT,
            Self::Q4_0 => &q4_0::LAYOUT,
            Self::Q4_1 => &q4_1::LAYOUT,
            Self::Q5_0 => &q5_0::LAYOUT,
            Self::Q5_1 => &q5_1::LAYOUT,
            Self::Q8_0 => &q8_0::LAYOUT,
            Self::Q2K => &q2_k::LAYOUT,
            Self::Q3K => &q3_k::LAYOUT,
            Self::Q4K => &q4_k::LAYOUT,
            Self::Q5K => &q5_k::LAYOUT,
            Self::Q6K => &q6_k::LAYOUT,
            Self::IQ2XXS => &iq2_xxs::LAYOUT,
            Self::IQ2XS => &iq2_xs::LAYOUT,
            Self::IQ2S => &iq2_s::LAYOUT,
            Self::IQ3XXS => &iq3_xxs::LAYOUT,
            Self::IQ3S => &iq3_s::LAYOUT,
            Self::IQ4NL => &iq4_nl::LAYOUT,
            Self::IQ4XS => &iq4_xs::LAYOUT,
            Self::MXFP4 => &mxfp4::LAYOUT,
        }
    }

    /// The format with ggml's number `type_id`.
    pub fn from_ggml_type(type_id: u32) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|format| format.ggml_type() == Some(type_id))
    }

    /// ggml's number of the type; `None` where GGUF files cannot have it.
    pub fn ggml_type(self) -> Option<u32> {
        self.layout().ggml_type
    }

    /// ggml's name, such as `Q8_0`, or that of safetensors.
    pub fn name(self) -> &'static str {
        self.layout().name
    }

    /// Elements in a block, 1 for plain numbers.
    pub fn block_elements(self) -> usize {
        self.layout().block_elements
    }

    /// Bytes in a block.
    pub fn block_bytes(self) -> usize {
        self.layout().block_bytes
    }

    /// Where the f16 of a block lie, in bytes: its scales and minima. In a format of blocks with any
    /// of them all other bits are whole numbers, so that random bits with sound f16 are a sound block.
    pub fn halves(self) -> &'static [usize] {
        self.layout().halves
    }

    /// The code book of IQ2 and IQ3, as kernels upload it; empty for formats without one.
    ///
    /// An entry is the magnitudes of a run of elements, the first in the lowest bits:
    ///
    /// | format | elements | bits of one | which stand for |
    /// |---|---|---|---|
    /// | IQ2_XXS, IQ2_XS, IQ2_S | 8 | 2 | 8, 25, 43 (3 does not occur) |
    /// | IQ3_XXS | 4 | 3 | 4, 12, 20, 28, 36, 44, 52, 62 |
    /// | IQ3_S | 4 | 3 | 1, 3, 5, 7, 9, 11, 13, 15 |
    ///
    /// An element is its group's step times its magnitude, negative where its sign bit is set. The
    /// books have 256 (_XXS), 512 (IQ2_XS, IQ3_S) or 1024 (IQ2_S) entries.
    pub fn grid(self) -> &'static [u16] {
        self.layout().grid
    }

    /// Bytes that `elements` take, if they are whole blocks and the number fits this machine.
    pub fn bytes_of(self, elements: usize) -> Option<usize> {
        if !elements.is_multiple_of(self.block_elements()) {
            return None;
        }
        (elements / self.block_elements()).checked_mul(self.block_bytes())
    }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// Writes the elements of whole blocks in `bytes` to `out`.
///
/// # Errors
/// [`BlockError::Length`] unless `bytes` are exactly the blocks of `out.len()` elements.
pub fn dequantise(format: Format, bytes: &[u8], out: &mut [f32]) -> Result<(), BlockError> {
    let layout = format.layout();
    if format.bytes_of(out.len()) != Some(bytes.len()) {
        return Err(BlockError::Length {
            format,
            bytes: bytes.len(),
            elements: out.len(),
        });
    }
    (layout.dequantise)(bytes, out);
    Ok(())
}

/// Writes `values` as blocks to `out`, by ggml's reference rules, bit for bit.
///
/// # Errors
/// [`BlockError::Length`] unless `out` is exactly as long as the blocks of `values.len()`
/// elements; [`BlockError::Value`] at a number that is not finite or too large for the format;
/// [`BlockError::NoWriter`] for the formats that are only read.
pub fn quantise(format: Format, values: &[f32], out: &mut [u8]) -> Result<(), BlockError> {
    let layout = format.layout();
    let write = layout.quantise.ok_or(BlockError::NoWriter { format })?;
    if format.bytes_of(values.len()) != Some(out.len()) {
        return Err(BlockError::Length {
            format,
            bytes: out.len(),
            elements: values.len(),
        });
    }
    // NaNs and infinities have the largest bits.
    if !largest_magnitude(values).is_finite()
        && let Some(index) = values.iter().position(|value| !value.is_finite())
    {
        return Err(BlockError::Value {
            format,
            index,
            value: values[index],
        });
    }
    write(values, out).map_err(|number| {
        let start = number * layout.block_elements;
        let (within, value) = largest(&values[start..][..layout.block_elements]);
        BlockError::Value {
            format,
            index: start + within,
            value,
        }
    })
}

/// The largest magnitude, NaNs being the largest of all. Compared as bits, which have the same
/// order, so that compilers make vectors of it.
pub(crate) fn largest_magnitude(values: &[f32]) -> f32 {
    let magnitudes = values.iter().map(|value| value.to_bits() & 0x7fff_ffff);
    f32::from_bits(magnitudes.fold(0, u32::max))
}

/// Index and value of the element of largest magnitude, the first of equals.
pub(crate) fn largest(values: &[f32]) -> (usize, f32) {
    let magnitude = largest_magnitude(values);
    let index = values.iter().position(|value| value.abs() == magnitude);
    let index = index.unwrap_or_default();
    (index, values.get(index).copied().unwrap_or_default())
}

/// ggml's name of the number of a type that cannot be read.
pub(crate) fn type_name(type_id: u32) -> &'static str {
    match type_id {
        9 => "Q8_1",
        15 => "Q8_K",
        16 => "IQ2_XXS",
        17 => "IQ2_XS",
        18 => "IQ3_XXS",
        19 => "IQ1_S",
        21 => "IQ3_S",
        22 => "IQ2_S",
        24 => "I8",
        25 => "I16",
        26 => "I32",
        27 => "I64",
        28 => "F64",
        29 => "IQ1_M",
        34 => "TQ1_0",
        35 => "TQ2_0",
        40 => "NVFP4",
        41 => "Q1_0",
        _ => "unknown",
    }
}
