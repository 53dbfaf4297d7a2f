//! Q6_K: blocks of 256 elements in 16 groups of 16: 128 bytes with the lower four bits of the
//! quants `q`, 64 bytes with their upper two, a signed byte `s` a group, f16 `d`:
//! `x = d · s · (q − 32)`. Each half of a block has four runs of 32 elements; its 64 bytes of
//! nibbles hold runs 0 and 1 low and runs 2 and 3 high, its 32 bytes of pairs hold run `r` in
//! bits `2r` and `2r + 1`.

use super::{bits, joined, run_bits};
use crate::quantised::{Bits, Levels, Plane, Quantised, RUN, RunPart, Steps};

/// The block format Q6_K.
#[derive(Debug, Clone, Copy)]
pub struct Q6K;

impl Quantised for Q6K {
    const NAME: &'static str = "Q6_K";
    const GGML_TYPE: u32 = 14;
    const ELEMENTS: usize = 256;
    const BYTES: usize = 210;
    const HALVES: &'static [usize] = &[208];
    const LEVELS: Levels = Levels::Offset(32);
    const PLANES: &'static [Plane] = &[
        Plane::Runs(&[RunPart::Nibbles]),
        Plane::Runs(&[RunPart::Twos(4)]),
        Plane::Stored(&[(192, 16)]),
        Plane::Stored(&[(208, 2)]),
    ];
    type Codes = Bits<6>;
    type Scaling = Steps<16>;

    #[inline(always)]
    fn codes(block: &[u8], run: usize) -> [u8; RUN] {
        let (half, quarter) = (run / 4, run % 4);
        let low = bits::<4>(&block[64 * half + 32 * (quarter % 2)..], 4 * (quarter / 2));
        joined(low, run_bits::<2>(&block[128..], run), 4)
    }

    #[inline(always)]
    fn steps(block: &[u8], group: usize) -> [i8; 2] {
        [block[192 + group].cast_signed(), 0]
    }
}
