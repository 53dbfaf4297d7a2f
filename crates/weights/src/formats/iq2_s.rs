//! IQ2_S: blocks of 256 elements in 16 groups of 16. A block is an f16 `d`, the lower bytes of the
//! indices into the code book (one index for each eight elements), a byte of signs for each eight
//! elements, the upper two bits of the indices (a byte for four indices), and a 4-bit scale `s` for
//! each group, low nibbles first: `x = d · (s + ½) / 4 · ±GRID[q]`.

use super::{grids, odd_step};
use crate::quantised::{Bits, Levels, Plane, Quantised, RUN, RunPart, Steps};

/// The block format IQ2_S.
#[derive(Debug, Clone, Copy)]
pub struct IQ2S;

impl Quantised for IQ2S {
    const NAME: &'static str = "IQ2_S";
    const GGML_TYPE: u32 = 22;
    const ELEMENTS: usize = 256;
    const BYTES: usize = 82;
    const HALVES: &'static [usize] = &[0];
    const LEVELS: Levels = grids::IQ2_LEVELS;
    const GRID: &'static [u16] = &grids::IQ2_S;
    const PLANES: &'static [Plane] = &[
        Plane::Runs(&[RunPart::Stored(2, 4), RunPart::Stored(34, 4)]),
        Plane::Runs(&[RunPart::Stored(66, 1), RunPart::Stored(74, 1)]),
        Plane::Stored(&[(0, 2)]),
    ];
    type Codes = Bits<3>;
    /// d · (s + ½) / 4.
    type Scaling = Steps<16, 3>;

    #[inline(always)]
    fn codes(block: &[u8], run: usize) -> [u8; RUN] {
        let (lower, signs) = (&block[2 + 4 * run..][..4], &block[34 + 4 * run..][..4]);
        grids::eights(|eight| {
            let upper = usize::from(block[66 + run] >> (2 * eight) & 3);
            let entry = grids::IQ2_S[usize::from(lower[eight]) | upper << 8];
            (entry, signs[eight])
        })
    }

    #[inline(always)]
    fn steps(block: &[u8], group: usize) -> [i8; 2] {
        odd_step(&block[74..], group)
    }
}
