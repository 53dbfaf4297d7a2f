//! Storage of each format's rows for the products: plain numbers as they are, blocks by the codes
//! and scales that conclave-weights declares. A new format needs no change here unless its codes or
//! scales are of a new kind.

use conclave_weights::quantised::{
    Bits, Power, Quantised, Scale, ScaleAndMinimum, Steps, StepsAndMinima,
};
use conclave_weights::{Format, each_format, formats};

use crate::block::Block;
use crate::codes::{self, Codes};
use crate::matrix::Rows;
use crate::packed::{Bf16x8, F16x8, F32x8, no_blocks};
use crate::scales::{self, Scales};

macro_rules! rows {
    ([$($(#[$doc:meta])* $name:ident $module:ident $kind:ident,)+] $format:expr) => {
        match $format {
            Format::F8E4M3 => None,
            $(Format::$name => Some(rows!(@$kind $module $name)),)+
        }
    };
    (@numbers f32 $name:ident) => { Box::new(no_blocks::<F32x8>()) };
    (@numbers f16 $name:ident) => { Box::new(no_blocks::<F16x8>()) };
    (@numbers bf16 $name:ident) => { Box::new(no_blocks::<Bf16x8>()) };
    (@blocks_of_32 $module:ident $name:ident) => {
        Box::new(no_blocks::<Block<formats::$module::$name, 1>>())
    };
    (@blocks_of_256 $module:ident $name:ident) => {
        Box::new(no_blocks::<Block<formats::$module::$name, 8>>())
    };
}

/// Empty rows of a format; `None` for 8-bit floats, whose scales are another tensor's.
pub(crate) fn empty_rows(format: Format) -> Option<Box<dyn Rows>> {
    each_format!(rows format)
}

/// A format of quantised blocks, with its storage.
pub(crate) trait PackedFormat: Quantised {
    /// Storage of its codes.
    type CodeStorage: Codes;
    /// Storage of its steps and minima.
    type ScaleStorage: Scales;
}

impl<F: Quantised<Codes: CodeStorage, Scaling: ScaleStorage>> PackedFormat for F {
    type CodeStorage = <F::Codes as CodeStorage>::Storage;
    type ScaleStorage = <F::Scaling as ScaleStorage>::Storage;
}

/// Codes that have a storage.
pub(crate) trait CodeStorage {
    /// The storage.
    type Storage: Codes;
}

impl CodeStorage for Bits<2> {
    type Storage = codes::Bits<2, 0>;
}

impl CodeStorage for Bits<3> {
    type Storage = codes::Bits<2, 1>;
}

impl CodeStorage for Bits<4> {
    type Storage = codes::Bits<4, 0>;
}

impl CodeStorage for Bits<5> {
    type Storage = codes::Bits<4, 1>;
}

impl CodeStorage for Bits<6> {
    /// Bytes in wasm, which take a third more memory. One row of input is as fast with either
    /// storage. Twenty rows take a third longer with bits, since two vectors do the work of one
    /// there.
    #[cfg(target_family = "wasm")]
    type Storage = codes::Bytes;
    #[cfg(not(target_family = "wasm"))]
    type Storage = codes::Bits<4, 2>;
}

impl CodeStorage for Bits<8> {
    type Storage = codes::Bytes;
}

/// Steps and minima that have a storage.
pub(crate) trait ScaleStorage {
    /// The storage.
    type Storage: Scales;
}

impl ScaleStorage for Scale {
    type Storage = scales::Halves<1>;
}

impl ScaleStorage for ScaleAndMinimum {
    type Storage = scales::Halves<2>;
}

impl ScaleStorage for Power {
    type Storage = scales::Bf16;
}

impl<const GROUPS: usize, const SHIFT: u32> ScaleStorage for Steps<GROUPS, SHIFT> {
    type Storage = scales::Steps<GROUPS, SHIFT>;
}

impl ScaleStorage for StepsAndMinima<8> {
    type Storage = scales::StepsAndMinima<8>;
}

impl ScaleStorage for StepsAndMinima<16> {
    /// The only format with these integers has four bits for each.
    type Storage = scales::Nibbles;
}
