//! IQ3_XXS: blocks of 256 elements in 8 groups of 32. A block is an f16 `d`, a byte for each four
//! elements (an index into the code book), and a 32-bit word for each group as in IQ2_XXS, with
//! seven bits of signs for each eight elements and a 4-bit scale `s` above: `x = d · (s + ½) / 2 ·
//! ±GRID[q]`.

use super::{grids, word};
use crate::quantised::{Bits, Levels, Plane, Quantised, RUN, Steps};

/// The block format IQ3_XXS.
#[derive(Debug, Clone, Copy)]
pub struct IQ3XXS;

impl Quantised for IQ3XXS {
    const NAME: &'static str = "IQ3_XXS";
    const GGML_TYPE: u32 = 18;
    const ELEMENTS: usize = 256;
    const BYTES: usize = 98;
    const HALVES: &'static [usize] = &[0];
    const LEVELS: Levels = Levels::Table([
        4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62,
    ]);
    const GRID: &'static [u16] = &grids::IQ3_XXS;
    const PLANES: &'static [Plane] = &[
        Plane::Stored(&[(2, 64)]),
        Plane::Stored(&[(66, 32)]),
        Plane::Stored(&[(0, 2)]),
    ];
    type Codes = Bits<4>;
    /// d · (s + ½) / 2.
    type Scaling = Steps<8, 2>;

    #[inline(always)]
    fn codes(block: &[u8], run: usize) -> [u8; RUN] {
        let entries = &block[2 + 8 * run..][..8];
        let signs = word(&block[66 + 4 * run..]);
        let entry = |four: usize| grids::IQ3_XXS[usize::from(entries[four])];
        grids::fours(entry, |eight| grids::even_signs(signs >> (7 * eight)))
    }

    #[inline(always)]
    fn steps(block: &[u8], group: usize) -> [i8; 2] {
        [(block[66 + 4 * group + 3] >> 4 << 1 | 1).cast_signed(), 0]
    }
}
