//! How each format's rows are kept for the products: plain numbers as they are, and of blocks
//! whatever holds the codes and scales that conclave-weights says they have. A new format has
//! nothing to add here, unless it is made as none is yet.

use conclave_weights::quantised::{
    Bits, Power, Quantised, Scale, ScaleAndMinimum, Steps, StepsAndMinima,
};
use conclave_weights::{Format, each_format, formats};

use crate::block::Block;
use crate::codes::{self, Codes};
use crate::matrix::Rows;
use crate::packed::{Brain, Half, Single};
use crate::scales::{self, Scales};

macro_rules! rows {
    ([$($(#[$doc:meta])* $name:ident $module:ident $kind:ident,)+] $format:expr) => {
        match $format {
            Format::F8E4M3 => None,
            $(Format::$name => Some(rows!(@$kind $module $name)),)+
        }
    };
    (@numbers f32 $name:ident) => { Box::new(Vec::<Single>::new()) };
    (@numbers f16 $name:ident) => { Box::new(Vec::<Half>::new()) };
    (@numbers bf16 $name:ident) => { Box::new(Vec::<Brain>::new()) };
    (@blocks_of_32 $module:ident $name:ident) => {
        Box::new(Vec::<Block<formats::$module::$name, 1>>::new())
    };
    (@blocks_of_256 $module:ident $name:ident) => {
        Box::new(Vec::<Block<formats::$module::$name, 8>>::new())
    };
}

/// No rows yet of a format; `None` for 8-bit floats, whose scales are another tensor's.
pub(crate) fn rows_of(format: Format) -> Option<Box<dyn Rows>> {
    each_format!(rows format)
}

/// A format of quantised blocks, with what holds them here.
pub(crate) trait Kept: Quantised {
    /// What holds its codes.
    type HeldCodes: Codes;
    /// What holds its steps and minima.
    type HeldScales: Scales;
}

impl<F: Quantised<Codes: HeldCodes, Scaling: HeldScales>> Kept for F {
    type HeldCodes = <F::Codes as HeldCodes>::Held;
    type HeldScales = <F::Scaling as HeldScales>::Held;
}

/// Codes that something here holds.
pub(crate) trait HeldCodes {
    /// What.
    type Held: Codes;
}

impl HeldCodes for Bits<2> {
    type Held = codes::Bits<2, 0>;
}

impl HeldCodes for Bits<3> {
    type Held = codes::Bits<2, 1>;
}

impl HeldCodes for Bits<4> {
    type Held = codes::Bits<4, 0>;
}

impl HeldCodes for Bits<5> {
    type Held = codes::Bits<4, 1>;
}

impl HeldCodes for Bits<6> {
    /// A nibble and two bits, `Bits<4, 2>`, would save a quarter of this. Rows of one are as fast,
    /// but twenty take a third more in wasm, where two vectors do the work of one.
    type Held = codes::Bytes;
}

impl HeldCodes for Bits<8> {
    type Held = codes::Bytes;
}

/// Steps and minima that something here holds.
pub(crate) trait HeldScales {
    /// What.
    type Held: Scales;
}

impl HeldScales for Scale {
    type Held = scales::Halves<1>;
}

impl HeldScales for ScaleAndMinimum {
    type Held = scales::Halves<2>;
}

impl HeldScales for Power {
    type Held = scales::Brain;
}

impl<const GROUPS: usize, const SHIFT: u32> HeldScales for Steps<GROUPS, SHIFT> {
    type Held = scales::Steps<GROUPS, SHIFT>;
}

impl HeldScales for StepsAndMinima<8> {
    type Held = scales::StepsAndMinima<8>;
}

impl HeldScales for StepsAndMinima<16> {
    /// Of the one format that has them they are four bits each.
    type Held = scales::Nibbles;
}
