//! IQ2_XS: blocks of 256 elements in 16 groups of 16. A block is an f16 `d`, a 16-bit word for each
//! eight elements (an index into the code book in the lower nine bits, seven bits of signs above),
//! and a 4-bit scale `s` for each group, low nibbles first: `x = d · (s + ½) / 4 · ±GRID[q]`.

use super::{grids, odd_step};
use crate::quantised::{Bits, Levels, Plane, Quantised, RUN, Steps};

/// The block format IQ2_XS.
#[derive(Debug, Clone, Copy)]
pub struct IQ2XS;

impl Quantised for IQ2XS {
    const NAME: &'static str = "IQ2_XS";
    const GGML_TYPE: u32 = 17;
    const ELEMENTS: usize = 256;
    const BYTES: usize = 74;
    const HALVES: &'static [usize] = &[0];
    const LEVELS: Levels = grids::IQ2_LEVELS;
    const GRID: &'static [u16] = &grids::IQ2_XS;
    const PLANES: &'static [Plane] = &[
        Plane::Stored(&[(2, 64)]),
        Plane::Stored(&[(66, 8)]),
        Plane::Stored(&[(0, 2)]),
    ];
    type Codes = Bits<3>;
    /// d · (s + ½) / 4.
    type Scaling = Steps<16, 3>;

    #[inline(always)]
    fn codes(block: &[u8], run: usize) -> [u8; RUN] {
        let words = &block[2 + 8 * run..][..8];
        grids::eights(|eight| {
            let word = u16::from_le_bytes([words[2 * eight], words[2 * eight + 1]]);
            let entry = grids::IQ2_XS[usize::from(word & 511)];
            (entry, grids::even_signs(u32::from(word >> 9)))
        })
    }

    #[inline(always)]
    fn steps(block: &[u8], group: usize) -> [i8; 2] {
        odd_step(&block[66..], group)
    }
}
