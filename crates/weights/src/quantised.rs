//! What a format of quantised blocks is, said once in its file of `formats/`: [`dequantise`], the
//! products of the CPU and what GPUs are given all follow from it.
//!
//! A number is `step · level + minimum`. A *level* is what a *code*, a whole number of a few bits,
//! stands for; 16 or 32 elements, a *group*, share step and minimum. Elements are told in *runs* of
//! 32: a block is one of them or eight.
//!
//! [`dequantise`]: crate::dequantise

use std::fmt::Debug;

use crate::formats::{from_brain, from_half, to_half};

/// Elements of a run.
pub const RUN: usize = 32;

/// Writes the elements of whole blocks, or names the first block that needs a number too large for
/// the format. Both slices are for the same number of blocks, and elements are finite.
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
    /// Where a block has an f16, in bytes: its scale and, behind that, its floor. All else in it
    /// are whole numbers, of which any bits will do.
    const HALVES: &'static [usize];
    /// What codes stand for.
    const LEVELS: Levels;
    /// The code book that codes are looked up in, packed as [`Format::grid`](crate::Format::grid)
    /// says; empty where there is none.
    const GRID: &'static [u16] = &[];
    /// What a block is taken apart into for a GPU.
    const PLANES: &'static [Plane];
    /// Writes blocks by ggml's reference rules; `None` for formats that are only read.
    const QUANTISE: Option<Writer> = None;
    /// How many bits a code has: [`Bits`].
    type Codes;
    /// How steps and minima are made.
    type Scaling: Scaling;

    /// The codes of a run of a block.
    fn codes(block: &[u8], run: usize) -> [u8; RUN];

    /// The bits of a block's scale and floor; of a floor that it does not have they mean nothing.
    #[inline(always)]
    fn halves(block: &[u8]) -> [u16; 2] {
        let mut halves = [0; 2];
        for (half, &at) in halves.iter_mut().zip(Self::HALVES) {
            *half = u16::from_le_bytes([block[at], block[at + 1]]);
        }
        halves
    }

    /// Writes scale and floor, as near to what `next` says as they can be, so that any bytes become
    /// a sound block.
    fn set_scales(block: &mut [u8], next: &mut dyn FnMut() -> f32) {
        for &at in Self::HALVES {
            block[at..at + 2].copy_from_slice(&to_half(next()).to_le_bytes());
        }
    }

    /// What scale and floor are to be multiplied with in a group.
    #[inline(always)]
    fn steps(_block: &[u8], _group: usize) -> [i8; 2] {
        [1; 2]
    }
}

/// What codes stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Levels {
    /// The code less a constant, at most 128.
    Less(u8),
    /// An entry of a table.
    Table([i8; 16]),
}

impl Levels {
    /// The level of a code.
    #[inline(always)]
    pub fn of(self, code: u8) -> i16 {
        match self {
            Self::Less(less) => i16::from(code) - i16::from(less),
            Self::Table(levels) => i16::from(levels[usize::from(code & 15)]),
        }
    }
}

/// Codes of so many bits.
#[derive(Debug, Clone, Copy)]
pub struct Bits<const BITS: usize>;

/// How steps and minima are made of a block's scale and floor and of a group's integers.
pub trait Scaling {
    /// Elements that share a step.
    const GROUP: usize;
    /// Whether there are minima.
    const MINIMA: bool;

    /// Step and minimum.
    fn of(halves: [u16; 2], steps: [i8; 2]) -> [f32; 2];
}

/// One scale a block of 32.
#[derive(Debug, Clone, Copy)]
pub struct Scale;

impl Scaling for Scale {
    const GROUP: usize = 32;
    const MINIMA: bool = false;

    fn of([scale, _]: [u16; 2], _steps: [i8; 2]) -> [f32; 2] {
        [from_half(scale), 0.0]
    }
}

/// One scale and one minimum a block of 32.
#[derive(Debug, Clone, Copy)]
pub struct ScaleAndMinimum;

impl Scaling for ScaleAndMinimum {
    const GROUP: usize = 32;
    const MINIMA: bool = true;

    fn of(halves: [u16; 2], _steps: [i8; 2]) -> [f32; 2] {
        halves.map(from_half)
    }
}

/// One power of two a block of 32, with the range of an f32: the bits of a BF16.
#[derive(Debug, Clone, Copy)]
pub struct Power;

impl Scaling for Power {
    const GROUP: usize = 32;
    const MINIMA: bool = false;

    fn of([scale, _]: [u16; 2], _steps: [i8; 2]) -> [f32; 2] {
        [from_brain(scale), 0.0]
    }
}

/// An integer for each of `GROUPS` groups of a block of 256, times its scale, over 2 to the
/// `SHIFT`.
#[derive(Debug, Clone, Copy)]
pub struct Steps<const GROUPS: usize, const SHIFT: u32 = 0>;

impl<const GROUPS: usize, const SHIFT: u32> Scaling for Steps<GROUPS, SHIFT> {
    const GROUP: usize = 256 / GROUPS;
    const MINIMA: bool = false;

    fn of([scale, _]: [u16; 2], [step, _]: [i8; 2]) -> [f32; 2] {
        // A power of two: nothing is rounded.
        let part = 1.0 / f32::from(1_u8 << SHIFT);
        [from_half(scale) * f32::from(step) * part, 0.0]
    }
}

/// The same without a shift, and as many integers which, times the floor, are taken away.
#[derive(Debug, Clone, Copy)]
pub struct StepsAndMinima<const GROUPS: usize>;

impl<const GROUPS: usize> Scaling for StepsAndMinima<GROUPS> {
    const GROUP: usize = 256 / GROUPS;
    const MINIMA: bool = true;

    fn of([scale, floor]: [u16; 2], [step, minimum]: [i8; 2]) -> [f32; 2] {
        let of = |half, integer| from_half(half) * f32::from(integer);
        [of(scale, step), -of(floor, minimum)]
    }
}

/// Bytes of a block that lie together on a GPU, whose threads read them at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plane {
    /// What the block has from these bytes on, as many as these.
    Stored(&'static [(usize, usize)]),
    /// Of each run these parts, one behind another.
    Runs(&'static [Part]),
}

/// What a plane has of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The low four bits of each code: byte `i` has element `i`'s in its low and element `16 + i`'s
    /// in its high half.
    Nibbles,
    /// Two bits of each code from this one up: byte `k` of word `w` has those of elements `16 w +
    /// k`, `+ 4`, `+ 8` and `+ 12`, from its lowest bits up.
    Twos(u32),
    /// This bit of each code: bit `q` of byte `k` is that of element `4 q + k`.
    Ones(u32),
    /// As many bytes of the block as the second says, for the first run from the first on, for the
    /// others behind.
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

impl Part {
    const fn bytes(self) -> usize {
        match self {
            Self::Nibbles => RUN / 2,
            Self::Twos(_) => RUN / 4,
            Self::Ones(_) => RUN / 8,
            Self::Stored(_, bytes) => bytes,
        }
    }
}
