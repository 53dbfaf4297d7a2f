//! Q5_1: blocks of 32 elements, an f16 scale `d`, an f16 minimum `m`, a 32-bit word of fifth bits
//! and 16 bytes of nibbles, laid out as in Q4_0: `x = d · q + m`.

use super::nibbles_and_bits;
use crate::quantised::{Bits, Levels, Plane, Quantised, RUN, RunPart, ScaleAndMinimum};

/// The block format Q5_1.
#[derive(Debug, Clone, Copy)]
pub struct Q5_1;

impl Quantised for Q5_1 {
    const NAME: &'static str = "Q5_1";
    const GGML_TYPE: u32 = 7;
    const ELEMENTS: usize = 32;
    const BYTES: usize = 24;
    const HALVES: &'static [usize] = &[0, 2];
    const LEVELS: Levels = Levels::Offset(0);
    const PLANES: &'static [Plane] = &[
        Plane::Stored(&[(8, 16)]),
        Plane::Runs(&[RunPart::Stored(0, 4), RunPart::Ones(4)]),
    ];
    type Codes = Bits<5>;
    type Scaling = ScaleAndMinimum;

    #[inline(always)]
    fn codes(block: &[u8], _run: usize) -> [u8; RUN] {
        nibbles_and_bits(&block[4..], &block[8..])
    }
}
