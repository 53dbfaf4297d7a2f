//! IQ4_XS: blocks of 256 elements in 8 groups of 32: f16 `d`, the upper two bits of the groups'
//! scales `s` in a 16-bit word, their lower four in four bytes, and 16 bytes a group as in IQ4_NL:
//! `x = d · (s − 32) · LEVELS[q]`.

use super::{iq4_nl, nibbles};
use crate::quantised::{Bits, Levels, Plane, Quantised, RUN, Steps};

/// The block format IQ4_XS.
#[derive(Debug, Clone, Copy)]
pub struct IQ4XS;

impl Quantised for IQ4XS {
    const NAME: &'static str = "IQ4_XS";
    const GGML_TYPE: u32 = 23;
    const ELEMENTS: usize = 256;
    const BYTES: usize = 136;
    const HALVES: &'static [usize] = &[0];
    const LEVELS: Levels = iq4_nl::LEVELS;
    const PLANES: &'static [Plane] = &[Plane::Stored(&[(8, 128)]), Plane::Stored(&[(0, 8)])];
    type Codes = Bits<4>;
    type Scaling = Steps<8>;

    #[inline(always)]
    fn codes(block: &[u8], run: usize) -> [u8; RUN] {
        nibbles(&block[8 + 16 * run..])
    }

    #[inline(always)]
    fn steps(block: &[u8], group: usize) -> [i8; 2] {
        let low = block[4 + group / 2] >> (4 * (group % 2)) & 15;
        let high = block[2 + group / 4] >> (2 * (group % 4)) & 3;
        [(low | high << 4).cast_signed() - 32, 0]
    }
}
