//! Q2_K: blocks of 256 elements in 16 groups of 16: 16 bytes with a 4-bit scale `s` (low) and a
//! 4-bit minimum `t` (high) a group, 64 bytes of 2-bit quants `q`, f16 `d` and f16 `e`:
//! `x = d · s · q − e · t`.

use super::run_bits;
use crate::quantised::{Bits, Levels, Plane, Quantised, RUN, RunPart, StepsAndMinima};

/// The block format Q2_K.
#[derive(Debug, Clone, Copy)]
pub struct Q2K;

impl Quantised for Q2K {
    const NAME: &'static str = "Q2_K";
    const GGML_TYPE: u32 = 10;
    const ELEMENTS: usize = 256;
    const BYTES: usize = 84;
    const HALVES: &'static [usize] = &[80, 82];
    const LEVELS: Levels = Levels::Offset(0);
    const PLANES: &'static [Plane] = &[
        Plane::Runs(&[RunPart::Twos(0)]),
        Plane::Stored(&[(0, 16)]),
        Plane::Stored(&[(80, 4)]),
    ];
    type Codes = Bits<2>;
    type Scaling = StepsAndMinima<16>;

    #[inline(always)]
    fn codes(block: &[u8], run: usize) -> [u8; RUN] {
        run_bits::<2>(&block[16..], run)
    }

    #[inline(always)]
    fn steps(block: &[u8], group: usize) -> [i8; 2] {
        [block[group] & 15, block[group] >> 4].map(u8::cast_signed)
    }
}
