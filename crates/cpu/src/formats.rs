//! Storage of each format's rows for the products: plain numbers as they are, blocks by the codes
//! and scales that conclave-weights declares. A new format needs no change here unless its codes or
//! scales are of a new kind.

use conclave_weights::quantised::{
    Bits, Power, Quantised, Scale, ScaleAndMinimum, Steps, StepsAndMinima,
};
use conclave_weights::{Format, each_format, formats};

use crate::block::Block;
use crate::codes::{self, Codes, UnpackedCodes};
use crate::matrix::Rows;
use crate::packed::{Bf16x8, F16x8, F32x8, no_blocks};
use crate::run::{Run, Unpacked};
use crate::scales::{self, Scales};

macro_rules! rows {
    ([$($(#[$doc:meta])* $name:ident $module:ident $kind:ident,)+] $format:expr, $quads:expr) => {
        match $format {
            Format::F8E4M3 => None,
            $(Format::$name => Some(rows!(@$kind $module $name $quads)),)+
        }
    };
    (@numbers f32 $name:ident $quads:expr) => { Box::new(no_blocks::<F32x8>()) };
    (@numbers f16 $name:ident $quads:expr) => { Box::new(no_blocks::<F16x8>()) };
    (@numbers bf16 $name:ident $quads:expr) => { Box::new(no_blocks::<Bf16x8>()) };
    (@blocks_of_32 $module:ident $name:ident $quads:expr) => {
        empty_blocks::<formats::$module::$name, 1>($quads)
    };
    (@blocks_of_256 $module:ident $name:ident $quads:expr) => {
        empty_blocks::<formats::$module::$name, 8>($quads)
    };
}

/// Empty rows of a format, stored for products of `quads` or of pairs; `None` for 8-bit floats,
/// whose scales are another tensor's.
pub(crate) fn empty_rows(format: Format, quads: bool) -> Option<Box<dyn Rows>> {
    each_format!(rows format, quads)
}

fn empty_blocks<F: PackedFormat, const RUNS: usize>(quads: bool) -> Box<dyn Rows> {
    // Outside of wasm, products of pairs wait for memory: what is smaller is faster.
    if quads || !cfg!(any(test, target_family = "wasm")) {
        Box::new(no_blocks::<Block<F, F::QuadStorage, RUNS>>())
    } else {
        Box::new(no_blocks::<Block<F, F::PairStorage, RUNS>>())
    }
}

/// A format of quantised blocks, with its storage.
pub(crate) trait PackedFormat: Quantised {
    /// Storage of its codes where products of quads are faster.
    type QuadStorage: Codes;
    /// Storage of its codes where products of pairs are faster.
    type PairStorage: Codes;
    /// Storage of its steps and minima.
    type ScaleStorage: Scales;
    /// An unpacked run.
    type Unpacked<C: UnpackedCodes>: Unpacked<C>;
}

impl<F: Quantised<Codes: CodeStorage, Scaling: ScaleStorage>> PackedFormat for F {
    type QuadStorage = <F::Codes as CodeStorage>::InQuads;
    type PairStorage = <F::Codes as CodeStorage>::InPairs;
    type ScaleStorage = <F::Scaling as ScaleStorage>::Storage;
    type Unpacked<C: UnpackedCodes> = <F::Scaling as ScaleStorage>::Unpacked<C>;
}

/// Codes that have a storage.
pub(crate) trait CodeStorage {
    /// The storage for products of quads.
    type InQuads: Codes;
    /// The storage for products of pairs.
    type InPairs: Codes;
}

impl CodeStorage for Bits<2> {
    type InQuads = codes::Bits<2, 0>;
    type InPairs = Self::InQuads;
}

impl CodeStorage for Bits<3> {
    type InQuads = codes::Bits<2, 1>;
    type InPairs = Self::InQuads;
}

impl CodeStorage for Bits<4> {
    type InQuads = codes::Bits<4, 0>;
    type InPairs = Self::InQuads;
}

impl CodeStorage for Bits<5> {
    type InQuads = codes::Bits<4, 1>;
    /// They take a fifth more memory.
    type InPairs = codes::Threes;
}

impl CodeStorage for Bits<6> {
    /// Bytes in wasm, which take a third more memory. One row of input is as fast with either
    /// storage. Twenty rows take a third longer with bits, since two vectors do the work of one
    /// there.
    #[cfg(target_family = "wasm")]
    type InQuads = codes::Bytes;
    #[cfg(not(target_family = "wasm"))]
    type InQuads = codes::Bits<4, 2>;
    type InPairs = Self::InQuads;
}

impl CodeStorage for Bits<8> {
    type InQuads = codes::Bytes;
    type InPairs = Self::InQuads;
}

/// Steps and minima that have a storage.
pub(crate) trait ScaleStorage {
    /// The storage.
    type Storage: Scales;
    /// A run with these, unpacked.
    type Unpacked<C: UnpackedCodes>: Unpacked<C>;
}

impl ScaleStorage for Scale {
    type Storage = scales::Halves<1>;
    type Unpacked<C: UnpackedCodes> = Run<C, 1, false>;
}

impl ScaleStorage for ScaleAndMinimum {
    type Storage = scales::Halves<2>;
    type Unpacked<C: UnpackedCodes> = Run<C, 1, true>;
}

impl ScaleStorage for Power {
    type Storage = scales::Bf16;
    type Unpacked<C: UnpackedCodes> = Run<C, 1, false>;
}

impl<const SHIFT: u32> ScaleStorage for Steps<8, SHIFT> {
    type Storage = scales::Steps<8, SHIFT>;
    type Unpacked<C: UnpackedCodes> = Run<C, 1, false>;
}

impl<const SHIFT: u32> ScaleStorage for Steps<16, SHIFT> {
    type Storage = scales::Steps<16, SHIFT>;
    type Unpacked<C: UnpackedCodes> = Run<C, 2, false>;
}

impl ScaleStorage for StepsAndMinima<8> {
    type Storage = scales::StepsAndMinima<8>;
    type Unpacked<C: UnpackedCodes> = Run<C, 1, true>;
}

impl ScaleStorage for StepsAndMinima<16> {
    /// The only format with these integers has four bits for each.
    type Storage = scales::Nibbles;
    type Unpacked<C: UnpackedCodes> = Run<C, 2, true>;
}
