//! Q3_K: blocks of 256 elements in 16 groups of 16: 32 bytes of third bits, 64 bytes with the lower
//! two bits of the quants `q`, twelve bytes with a 6-bit scale `s` a group, f16 `d`:
//! `x = d · (s − 32) · (q − 4)`.

use super::{joined, run_bits};
use crate::quantised::{Bits, Levels, Plane, Quantised, RUN, RunPart, Steps};

/// The block format Q3_K.
#[derive(Debug, Clone, Copy)]
pub struct Q3K;

impl Quantised for Q3K {
    const NAME: &'static str = "Q3_K";
    const GGML_TYPE: u32 = 11;
    const ELEMENTS: usize = 256;
    const BYTES: usize = 110;
    const HALVES: &'static [usize] = &[108];
    const LEVELS: Levels = Levels::Offset(4);
    const PLANES: &'static [Plane] = &[
        Plane::Runs(&[RunPart::Twos(0)]),
        Plane::Runs(&[RunPart::Ones(2)]),
        Plane::Stored(&[(96, 12)]),
        Plane::Stored(&[(108, 2)]),
    ];
    type Codes = Bits<3>;
    type Scaling = Steps<16>;

    #[inline(always)]
    fn codes(block: &[u8], run: usize) -> [u8; RUN] {
        joined(
            run_bits::<2>(&block[32..], run),
            run_bits::<1>(block, run),
            2,
        )
    }

    /// `s − 32`: the lower four bits lie in eight bytes, the upper two in the next four.
    #[inline(always)]
    fn steps(block: &[u8], group: usize) -> [i8; 2] {
        let low = block[96 + group % 8] >> (4 * (group / 8)) & 15;
        let high = block[104 + group % 4] >> (2 * (group / 4)) & 3;
        [(low | high << 4).cast_signed() - 32, 0]
    }
}
