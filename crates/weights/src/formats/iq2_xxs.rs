//! IQ2_XXS: blocks of 256 elements in 8 groups of 32. A block is an f16 `d`, then two 32-bit words
//! for each group. Each of the four bytes of the first word is the index of an entry of the code
//! book, which has eight elements. The second word has seven bits of signs for each entry, the
//! first entry's lowest, and a 4-bit scale `s` above them: `x = d · (s + ½) / 4 · ±GRID[q]`.

use super::{grids, word};
use crate::quantised::{Bits, Levels, Plane, Quantised, RUN, Steps};

/// The block format IQ2_XXS.
#[derive(Debug, Clone, Copy)]
pub struct IQ2XXS;

impl Quantised for IQ2XXS {
    const NAME: &'static str = "IQ2_XXS";
    const GGML_TYPE: u32 = 16;
    const ELEMENTS: usize = 256;
    const BYTES: usize = 66;
    const HALVES: &'static [usize] = &[0];
    const LEVELS: Levels = grids::IQ2_LEVELS;
    const GRID: &'static [u16] = &grids::IQ2_XXS;
    const PLANES: &'static [Plane] = &[Plane::Stored(&[(2, 64)]), Plane::Stored(&[(0, 2)])];
    type Codes = Bits<3>;
    /// d · (s + ½) / 4.
    type Scaling = Steps<8, 3>;

    #[inline(always)]
    fn codes(block: &[u8], run: usize) -> [u8; RUN] {
        let group = &block[2 + 8 * run..][..8];
        let signs = word(&group[4..]);
        grids::eights(|eight| {
            let entry = grids::IQ2_XXS[usize::from(group[eight])];
            (entry, grids::even_signs(signs >> (7 * eight)))
        })
    }

    #[inline(always)]
    fn steps(block: &[u8], group: usize) -> [i8; 2] {
        [(block[2 + 8 * group + 7] >> 4 << 1 | 1).cast_signed(), 0]
    }
}
