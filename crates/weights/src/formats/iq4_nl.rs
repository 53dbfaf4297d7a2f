//! IQ4_NL: blocks of 32 elements, an f16 scale `d` and 16 bytes of nibbles, laid out as in Q4_0,
//! that choose from a fixed table of levels: `x = d · LEVELS[q]`.

use super::nibbles;
use crate::quantised::{Bits, Levels, Plane, Quantised, RUN, Scale};

/// ggml's `kvalues_iq4nl`.
pub(super) const LEVELS: Levels = Levels::Table([
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
]);

/// The block format IQ4_NL.
#[derive(Debug, Clone, Copy)]
pub struct IQ4NL;

impl Quantised for IQ4NL {
    const NAME: &'static str = "IQ4_NL";
    const GGML_TYPE: u32 = 20;
    const ELEMENTS: usize = 32;
    const BYTES: usize = 18;
    const HALVES: &'static [usize] = &[0];
    const LEVELS: Levels = LEVELS;
    const PLANES: &'static [Plane] = &[Plane::Stored(&[(2, 16)]), Plane::Stored(&[(0, 2)])];
    type Codes = Bits<4>;
    type Scaling = Scale;

    #[inline(always)]
    fn codes(block: &[u8], _run: usize) -> [u8; RUN] {
        nibbles(&block[2..])
    }
}
