//! Q4_K: blocks of 256 elements in 8 groups of 32: f16 `d` and `e`, twelve bytes with a 6-bit
//! scale `s` and a 6-bit minimum `t` a group, 128 bytes of nibbles `q`, group 2i in the low and
//! group 2i + 1 in the high nibbles of the same 32 bytes: `x = d · s · q − e · t`.

use super::run_bits;
use crate::quantised::{Bits, Levels, Plane, Quantised, RUN, RunPart, StepsAndMinima};

/// The block format Q4_K.
#[derive(Debug, Clone, Copy)]
pub struct Q4K;

impl Quantised for Q4K {
    const NAME: &'static str = "Q4_K";
    const GGML_TYPE: u32 = 12;
    const ELEMENTS: usize = 256;
    const BYTES: usize = 144;
    const HALVES: &'static [usize] = &[0, 2];
    const LEVELS: Levels = Levels::Offset(0);
    const PLANES: &'static [Plane] = &[Plane::Runs(&[RunPart::Nibbles]), Plane::Stored(&[(0, 16)])];
    type Codes = Bits<4>;
    type Scaling = StepsAndMinima<8>;

    #[inline(always)]
    fn codes(block: &[u8], run: usize) -> [u8; RUN] {
        run_bits::<4>(&block[16..], run)
    }

    /// The 6-bit scale and minimum of a group. Those of the first four groups lie in the lower six
    /// bits of eight bytes. Those of the others have their lower four bits in the next four bytes,
    /// and their upper two in the two highest bits of the first eight.
    #[inline(always)]
    fn steps(block: &[u8], group: usize) -> [i8; 2] {
        let packed = &block[4..16];
        let both = if group < 4 {
            [packed[group] & 63, packed[group + 4] & 63]
        } else {
            let (low, high) = (packed[group + 4], |index: usize| packed[index] >> 6 << 4);
            [low & 15 | high(group - 4), low >> 4 | high(group)]
        };
        both.map(u8::cast_signed)
    }
}
