//! Description of a quantised block format, given once in its file of `formats/`: [`dequantise`],
//! the CPU products and the GPU uploads all follow from it.
//!
//! A number is `step · level + minimum`. A *level* is the value of a *code*, an integer of a few
//! bits; 16 or 32 elements, a *group*, share step and minimum. A *run* is 32 elements: a block is
//! one run or eight.
//!
//! [`dequantise`]: crate::dequantise

use std::fmt::Debug;

use crate::formats::{from_bf16, from_half, to_half};

/// Elements of a run.
pub const RUN: usize = 32;

/// Writes the elements of whole blocks; the error is the index of the first block that needs a
/// number too large for the format. Both slices hold the same number of blocks, and elements are
/// finite.
pub type Writer = fn(&[f32], &mut [u8]) -> Result<(), usize>;

/// A format of quantised blocks.
pub trait Quantised: Copy + Debug + Send + Sync + 'static {
    /// ggml's name.
    const NAME: &'static str;
    /// ggml's number of the type in files.
    const GGML_TYPE: u32;
    /// Elements in a block, one run or eight.
    const ELEMENTS: usize;
    /// Bytes in a block.
    const BYTES: usize;
    /// Byte offsets of a block's f16 numbers: its scale, then its floor. All other bits are
    /// integers, for which any value is sound.
    const HALVES: &'static [usize];
    /// Levels of the codes.
    const LEVELS: Levels;
    /// The code book, packed as [`Format::grid`](crate::Format::grid) describes; empty where there
    /// is none.
    const GRID: &'static [u16] = &[];
    /// The planes that a block is split into for a GPU.
    const PLANES: &'static [Plane];
    /// Writes blocks by ggml's reference rules; `None` for read-only formats.
    const QUANTISE: Option<Writer> = None;
    /// Bits of a code: [`Bits`].
    type Codes;
    /// Computation of steps and minima.
    type Scaling: Scaling;

    /// The codes of a run of a block.
    fn codes(block: &[u8], run: usize) -> [u8; RUN];

    /// The bits of a block's scale and floor; arbitrary for a floor that the format lacks.
    #[inline(always)]
    fn halves(block: &[u8]) -> [u16; 2] {
        let mut halves = [0; 2];
        for (half, &at) in halves.iter_mut().zip(Self::HALVES) {
            *half = u16::from_le_bytes([block[at], block[at + 1]]);
        }
        halves
    }

    /// Writes scale and floor, as near to the numbers of `next` as possible, so that any bytes
    /// become a sound block.
    fn set_scales(block: &mut [u8], next: &mut dyn FnMut() -> f32) {
        for &at in Self::HALVES {
            block[at..at + 2].copy_from_slice(&to_half(next()).to_le_bytes());
        }
    }

    /// Factors of a group on scale and floor.
    #[inline(always)]
    fn steps(_block: &[u8], _group: usize) -> [i8; 2] {
        [1; 2]
    }
}

/// Levels of codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Levels {
    /// The code minus a constant, at most 128.
    Offset(u8),
    /// An entry of a table.
    Table([i8; 16]),
}

impl Levels {
    /// The level of a code.
    #[inline(always)]
    pub fn level(self, code: u8) -> i16 {
        match self {
            Self::Offset(offset) => i16::from(code) - i16::from(offset),
            Self::Table(levels) => i16::from(levels[usize::from(code & 15)]),
        }
    }
}

/// Codes of `BITS` bits.
#[derive(Debug, Clone, Copy)]
pub struct Bits<const BITS: usize>;

/// Computes steps and minima from a block's scale and floor and a group's integers.
pub trait Scaling {
    /// Elements that share a step.
    const GROUP: usize;
    /// Whether there are minima.
    const MINIMA: bool;

    /// Step and minimum.
    fn step_and_minimum(halves: [u16; 2], steps: [i8; 2]) -> [f32; 2];
}

/// One scale for a block of 32.
#[derive(Debug, Clone, Copy)]
pub struct Scale;

impl Scaling for Scale {
    const GROUP: usize = 32;
    const MINIMA: bool = false;

    fn step_and_minimum([scale, _]: [u16; 2], _steps: [i8; 2]) -> [f32; 2] {
        [from_half(scale), 0.0]
    }
}

/// One scale and one minimum for a block of 32.
#[derive(Debug, Clone, Copy)]
pub struct ScaleAndMinimum;

impl Scaling for ScaleAndMinimum {
    const GROUP: usize = 32;
    const MINIMA: bool = true;

    fn step_and_minimum(halves: [u16; 2], _steps: [i8; 2]) -> [f32; 2] {
        halves.map(from_half)
    }
}

/// One power of two for a block of 32, with the range of an f32: the bits of a BF16.
#[derive(Debug, Clone, Copy)]
pub struct Power;

impl Scaling for Power {
    const GROUP: usize = 32;
    const MINIMA: bool = false;

    fn step_and_minimum([scale, _]: [u16; 2], _steps: [i8; 2]) -> [f32; 2] {
        [from_bf16(scale), 0.0]
    }
}

/// An integer for each of `GROUPS` groups of a block of 256, times the block's scale, over 2 to the
/// `SHIFT`.
#[derive(Debug, Clone, Copy)]
pub struct Steps<const GROUPS: usize, const SHIFT: u32 = 0>;

impl<const GROUPS: usize, const SHIFT: u32> Scaling for Steps<GROUPS, SHIFT> {
    const GROUP: usize = 256 / GROUPS;
    const MINIMA: bool = false;

    fn step_and_minimum([scale, _]: [u16; 2], [step, _]: [i8; 2]) -> [f32; 2] {
        // A power of two: exact.
        let part = 1.0 / f32::from(1_u8 << SHIFT);
        [from_half(scale) * f32::from(step) * part, 0.0]
    }
}

/// As [`Steps`] without a shift, with as many integer minima: each, times the floor, is subtracted.
#[derive(Debug, Clone, Copy)]
pub struct StepsAndMinima<const GROUPS: usize>;

impl<const GROUPS: usize> Scaling for StepsAndMinima<GROUPS> {
    const GROUP: usize = 256 / GROUPS;
    const MINIMA: bool = true;

    fn step_and_minimum([scale, floor]: [u16; 2], [step, minimum]: [i8; 2]) -> [f32; 2] {
        let of = |half, integer| from_half(half) * f32::from(integer);
        [of(scale, step), -of(floor, minimum)]
    }
}

/// Bytes of a block that lie together on a GPU, whose threads read them at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plane {
    /// Bytes of the block: offset and length of each piece.
    Stored(&'static [(usize, usize)]),
    /// These parts of each run, in sequence.
    Runs(&'static [RunPart]),
}

/// A part of a run in a plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunPart {
    /// The low four bits of each code: byte `i` holds element `i`'s low and element `16 + i`'s
    /// high.
    Nibbles,
    /// Two bits of each code, of which this is the lower. Byte `k` of word `w` holds the bits of
    /// elements `16 w + k`, `16 w + k + 4`, `16 w + k + 8` and `16 w + k + 12`, from its lowest
    /// bits up.
    Twos(u32),
    /// This bit of each code: bit `q` of byte `k` belongs to element `4 q + k`.
    Ones(u32),
    /// Offset of the first run's bytes in the block, and bytes for each run; runs follow each
    /// other.
    Stored(usize, usize),
}

impl Plane {
    /// Bytes of a block of `runs` runs.
    pub const fn bytes(self, runs: usize) -> usize {
        let (mut bytes, mut i) = (0, 0);
        match self {
            Self::Stored(parts) => {
                while i < parts.len() {
                    bytes += parts[i].1;
                    i += 1;
                }
            }
            Self::Runs(parts) => {
                while i < parts.len() {
                    bytes += runs * parts[i].bytes();
                    i += 1;
                }
            }
        }
        bytes
    }
}

impl RunPart {
    const fn bytes(self) -> usize {
        match self {
            Self::Nibbles => RUN / 2,
            Self::Twos(_) => RUN / 4,
            Self::Ones(_) => RUN / 8,
            Self::Stored(_, bytes) => bytes,
        }
    }
}
