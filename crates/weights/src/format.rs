//! The formats of tensors. Each has one file in `formats/`, which also lists them; this file gives
//! access to them.

use std::fmt;

use crate::quantised::{Levels, Plane, Quantised, RUN, Scaling, Writer};
use crate::{BlockError, each_format, formats};

/// A format's properties, from its file.
pub(crate) struct Layout {
    /// ggml's name.
    pub name: &'static str,
    /// ggml's number of the type in files; `None` for a type that ggml lacks.
    pub ggml_type: Option<u32>,
    /// Number of elements in a block.
    pub block_elements: usize,
    /// Bytes in a block.
    pub block_bytes: usize,
    /// Byte offsets of a block's f16 numbers. All other bits are integers, for which any value is
    /// sound.
    pub halves: &'static [usize],
    /// The code book, packed as [`Format::grid`] says; empty where there is none.
    pub grid: &'static [u16],
    /// Content of a block.
    pub numbers: Numbers,
    /// Writes the bytes of whole blocks; both slices hold the same number of blocks. Values are
    /// finite; the error is the index of the first block that needs a number too large for the
    /// format.
    pub quantise: Option<Writer>,
}

/// Content of a block.
pub(crate) enum Numbers {
    /// One number. Writes as many numbers as the bytes hold.
    Plain(fn(&[u8], &mut [f32])),
    /// Quanta: [`Quantised`], as functions.
    Quanta(Quanta),
}

/// A [`Quantised`] format, as functions.
pub(crate) struct Quanta {
    levels: Levels,
    planes: &'static [Plane],
    /// Number of elements that share a step.
    group: usize,
    minima: bool,
    codes: fn(&[u8], usize) -> [u8; RUN],
    /// Step and minimum of a group of a block.
    scale: fn(&[u8], usize) -> [f32; 2],
    set_scales: fn(&mut [u8], &mut dyn FnMut() -> f32),
}

impl Layout {
    const fn quantised<F: Quantised>() -> Self {
        Self {
            name: F::NAME,
            ggml_type: Some(F::GGML_TYPE),
            block_elements: F::ELEMENTS,
            block_bytes: F::BYTES,
            halves: F::HALVES,
            grid: F::GRID,
            numbers: Numbers::Quanta(Quanta {
                levels: F::LEVELS,
                planes: F::PLANES,
                group: F::Scaling::GROUP,
                minima: F::Scaling::MINIMA,
                codes: F::codes,
                scale: |block, group| {
                    F::Scaling::step_and_minimum(F::halves(block), F::steps(block, group))
                },
                set_scales: F::set_scales,
            }),
            quantise: F::QUANTISE,
        }
    }

    /// Writes the elements of whole blocks; both slices hold the same number of blocks.
    pub(crate) fn dequantise(&self, bytes: &[u8], out: &mut [f32]) {
        let quanta = match &self.numbers {
            Numbers::Plain(dequantise) => return dequantise(bytes, out),
            Numbers::Quanta(quanta) => quanta,
        };
        let blocks = bytes.chunks_exact(self.block_bytes);
        for (block, out) in blocks.zip(out.chunks_exact_mut(self.block_elements)) {
            for (run, out) in out.chunks_exact_mut(RUN).enumerate() {
                quanta.dequantise(block, run, out);
            }
        }
    }
}

impl Quanta {
    /// Writes the numbers of a run of a block.
    fn dequantise(&self, block: &[u8], run: usize, out: &mut [f32]) {
        let levels = (self.codes)(block, run).map(|code| self.levels.level(code));
        let levels = levels.chunks_exact(self.group);
        for (group, (out, levels)) in out.chunks_exact_mut(self.group).zip(levels).enumerate() {
            let [step, minimum] = (self.scale)(block, RUN / self.group * run + group);
            for (out, &level) in out.iter_mut().zip(levels) {
                *out = step * f32::from(level);
                // Adding 0 would change the sign of −0.
                if self.minima {
                    *out += minimum;
                }
            }
        }
    }
}

macro_rules! formats {
    ([$($(#[$doc:meta])* $name:ident $module:ident $kind:ident,)+]) => {
        /// Storage of a tensor's elements, named as in ggml or safetensors.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Format {
            $($(#[$doc])* $name,)+
            /// 8-bit floats (E4M3 without infinities), only in safetensors files, with
            /// [`Scales`](crate::Scales).
            F8E4M3,
        }

        impl Format {
            /// All formats that a matrix can be kept in. Excludes 8-bit floats: their scales are
            /// separate tensors, by which loading multiplies them.
            pub const ALL: [Self; [$(Self::$name),+].len()] = [$(Self::$name),+];

            pub(crate) fn layout(self) -> &'static Layout {
                match self {
                    $(Self::$name => formats!(@$kind $module $name),)+
                    Self::F8E4M3 => &formats::f8_e4m3::LAYOUT,
                }
            }
        }
    };
    (@numbers $module:ident $name:ident) => { &formats::$module::LAYOUT };
    (@blocks_of_32 $module:ident $name:ident) => { formats!(@blocks 32 $module $name) };
    (@blocks_of_256 $module:ident $name:ident) => { formats!(@blocks 256 $module $name) };
    (@blocks $elements:literal $module:ident $name:ident) => {
        &const {
            assert!(<formats::$module::$name as Quantised>::ELEMENTS == $elements);
            Layout::quantised::<formats::$module::$name>()
        }
    };
}

each_format!(formats);

impl Format {
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

    /// Byte offsets of a block's f16 numbers: its scales and minima. In a format with any, all
    /// other bits are integers, so that random bits with sound f16 make a sound block.
    pub fn halves(self) -> &'static [usize] {
        self.layout().halves
    }

    /// The code book of IQ2 and IQ3, as kernels upload it; empty for formats without one.
    ///
    /// An entry is the magnitudes of consecutive elements, the first in the lowest bits:
    ///
    /// | format | elements | bits of one | levels |
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

    /// The planes that blocks are split into for a GPU; empty for plain numbers, which stay as they
    /// are.
    pub fn planes(self) -> &'static [Plane] {
        match &self.layout().numbers {
            Numbers::Plain(_) => &[],
            Numbers::Quanta(quanta) => quanta.planes,
        }
    }

    /// Makes a block of any bytes sound: writes its scale and its floor, or the number it consists
    /// of, as near to the numbers of `next` as possible. Nothing else in a block can be unsound.
    ///
    /// # Errors
    /// As [`quantise`], for a number.
    pub fn set_scales(
        self,
        block: &mut [u8],
        next: &mut dyn FnMut() -> f32,
    ) -> Result<(), BlockError> {
        match &self.layout().numbers {
            Numbers::Plain(_) => quantise(self, &[next()], block),
            Numbers::Quanta(quanta) => {
                (quanta.set_scales)(block, next);
                Ok(())
            }
        }
    }

    /// The codes of a run of a block; zeros for plain numbers.
    pub fn codes(self, block: &[u8], run: usize) -> [u8; RUN] {
        match &self.layout().numbers {
            Numbers::Plain(_) => [0; RUN],
            Numbers::Quanta(quanta) => (quanta.codes)(block, run),
        }
    }

    /// Bytes of `elements`, if they are whole blocks and the number fits this machine.
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
    layout.dequantise(bytes, out);
    Ok(())
}

/// Writes `values` as blocks to `out`, by ggml's reference rules, bit for bit.
///
/// # Errors
/// [`BlockError::Length`] unless `out` has exactly the length of the blocks of `values.len()`
/// elements; [`BlockError::Value`] at a number that is not finite or too large for the format;
/// [`BlockError::NoWriter`] for read-only formats.
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

/// The largest magnitude, NaN ranking highest. Compares bits, which have the same order, so that
/// compilers vectorise it.
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

/// ggml's name for an unsupported type number.
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
