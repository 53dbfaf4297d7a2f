//! Q5_0: blocks of 32 elements, an f16 scale `d`, a 32-bit word of fifth bits and 16 bytes of
//! nibbles, laid out as in Q4_0: `x = d · (q − 16)`.

use super::nibbles_and_bits;
use crate::quantised::{Bits, Levels, Plane, Quantised, RUN, RunPart, Scale};

/// The block format Q5_0.
#[derive(Debug, Clone, Copy)]
pub struct Q5_0;

impl Quantised for Q5_0 {
    const NAME: &'static str = "Q5_0";
    const GGML_TYPE: u32 = 6;
    const ELEMENTS: usize = 32;
    const BYTES: usize = 22;
    const HALVES: &'static [usize] = &[0];
    const LEVELS: Levels = Levels::Offset(16);
    const PLANES: &'static [Plane] = &[
        Plane::Stored(&[(6, 16)]),
        Plane::Runs(&[RunPart::Ones(4)]),
        Plane::Stored(&[(0, 2)]),
    ];
    type Codes = Bits<5>;
    type Scaling = Scale;

    #[inline(always)]
    fn codes(block: &[u8], _run: usize) -> [u8; RUN] {
        nibbles_and_bits(&block[2..], &block[6..])
    }
}
