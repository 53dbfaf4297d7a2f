//! IQ3_S: blocks of 256 elements in 8 groups of 32. A block is an f16 `d`, the lower bytes of the
//! indices into the code book (one index for each four elements), their ninth bits (a byte for
//! eight indices), a byte of signs for each eight elements, and a 4-bit scale `s` for each group,
//! low nibbles first: `x = d · (2 s + 1) · ±GRID[q]`.

use super::{grids, odd_step};
use crate::quantised::{Bits, Levels, Plane, Quantised, RUN, Steps};

/// The block format IQ3_S.
#[derive(Debug, Clone, Copy)]
pub struct IQ3S;

impl Quantised for IQ3S {
    const NAME: &'static str = "IQ3_S";
    const GGML_TYPE: u32 = 21;
    const ELEMENTS: usize = 256;
    const BYTES: usize = 110;
    const HALVES: &'static [usize] = &[0];
    const LEVELS: Levels =
        Levels::Table([1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15]);
    const GRID: &'static [u16] = &grids::IQ3_S;
    const PLANES: &'static [Plane] = &[
        Plane::Stored(&[(2, 64)]),
        Plane::Stored(&[(74, 32)]),
        Plane::Stored(&[(66, 8), (106, 4)]),
        Plane::Stored(&[(0, 2)]),
    ];
    type Codes = Bits<4>;
    type Scaling = Steps<8>;

    #[inline(always)]
    fn codes(block: &[u8], run: usize) -> [u8; RUN] {
        let (lower, signs) = (&block[2 + 8 * run..][..8], &block[74 + 4 * run..][..4]);
        let entry = |four: usize| {
            let ninth = usize::from(block[66 + run] >> four & 1);
            grids::IQ3_S[usize::from(lower[four]) | ninth << 8]
        };
        grids::fours(entry, |eight| signs[eight])
    }

    #[inline(always)]
    fn steps(block: &[u8], group: usize) -> [i8; 2] {
        odd_step(&block[106..], group)
    }
}
