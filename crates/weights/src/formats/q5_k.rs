//! Q5_K: Q4_K with 32 bytes of fifth bits before the nibbles: bit `i` of byte `j` belongs to
//! element `32 i + j`.

use super::q4_k::Q4K;
use super::{joined, of_run};
use crate::quantised::{Bits, Levels, Part, Plane, Quantised, RUN, StepsAndMinima};

/// Q5_K.
#[derive(Debug, Clone, Copy)]
pub struct Q5K;

impl Quantised for Q5K {
    const NAME: &'static str = "Q5_K";
    const GGML_TYPE: u32 = 13;
    const ELEMENTS: usize = 256;
    const BYTES: usize = 176;
    const HALVES: &'static [usize] = &[0, 2];
    const LEVELS: Levels = Levels::Less(0);
    const PLANES: &'static [Plane] = &[
        Plane::Runs(&[Part::Nibbles]),
        Plane::Runs(&[Part::Ones(4)]),
        Plane::Stored(&[(0, 16)]),
    ];
    type Codes = Bits<5>;
    type Scaling = StepsAndMinima<8>;

    #[inline(always)]
    fn codes(block: &[u8], run: usize) -> [u8; RUN] {
        joined(
            of_run::<4>(&block[48..], run),
            of_run::<1>(&block[16..], run),
            4,
        )
    }

    #[inline(always)]
    fn steps(block: &[u8], group: usize) -> [i8; 2] {
        Q4K::steps(block, group)
    }
}
