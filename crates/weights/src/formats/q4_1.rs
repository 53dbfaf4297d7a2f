//! Q4_1: blocks of 32 elements, an f16 scale `d`, an f16 minimum `m` and 16 bytes of nibbles `q`,
//! laid out as in Q4_0: `x = d · q + m`.

use super::nibbles;
use crate::quantised::{Bits, Levels, Plane, Quantised, RUN, ScaleAndMinimum};

/// The block format Q4_1.
#[derive(Debug, Clone, Copy)]
pub struct Q4_1;

impl Quantised for Q4_1 {
    const NAME: &'static str = "Q4_1";
    const GGML_TYPE: u32 = 3;
    const ELEMENTS: usize = 32;
    const BYTES: usize = 20;
    const HALVES: &'static [usize] = &[0, 2];
    const LEVELS: Levels = Levels::Offset(0);
    const PLANES: &'static [Plane] = &[Plane::Stored(&[(4, 16)]), Plane::Stored(&[(0, 4)])];
    type Codes = Bits<4>;
    type Scaling = ScaleAndMinimum;

    #[inline(always)]
    fn codes(block: &[u8], _run: usize) -> [u8; RUN] {
        nibbles(&block[4..])
    }
}
