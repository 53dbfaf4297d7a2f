//! Q5_K: Q4_K with 32 bytes of fifth bits before the nibbles: bit `i` of byte `j` belongs to
//! element `32 i + j`.

use super::q4_k::Q4K;
use super::{joined, run_bits};
use crate::quantised::{Bits, Levels, Plane, Quantised, RUN, RunPart, StepsAndMinima};

/// The block format Q5_K.
#[derive(Debug, Clone, Copy)]
pub struct Q5K;

impl Quantised for Q5K {
    const NAME: &'static str = "Q5_K";
    const GGML_TYPE: u32 = 13;
    const ELEMENTS: usize = 256;
    const BYTES: usize = 176;
    const HALVES: &'static [usize] = &[0, 2];
    const LEVELS: Levels = Levels::Offset(0);
    const PLANES: &'static [Plane] = &[
        Plane::Runs(&[RunPart::Nibbles]),
        Plane::Runs(&[RunPart::Ones(4)]),
        Plane::Stored(&[(0, 16)]),
    ];
    type Codes = Bits<5>;
    type Scaling = StepsAndMinima<8>;

    #[inline(always)]
    fn codes(block: &[u8], run: usize) -> [u8; RUN] {
        joined(
            run_bits::<4>(&block[48..], run),
            run_bits::<1>(&block[16..], run),
            4,
        )
    }

    #[inline(always)]
    fn steps(block: &[u8], group: usize) -> [i8; 2] {
        Q4K::steps(block, group)
    }
}
