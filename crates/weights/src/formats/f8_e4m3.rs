//! F8_E4M3: 8-bit floats with four bits of exponent and three of mantissa, a block is one element.
//! There are no infinities: 448 is the largest, and the next is NaN. ggml has no such type.

use super::each_block;
use super::small_floats::from_e4m3;
use crate::format::{Layout, Numbers};

pub(crate) const LAYOUT: Layout = Layout {
    name: "F8_E4M3",
    ggml_type: None,
    block_elements: 1,
    block_bytes: 1,
    halves: &[],
    grid: &[],
    numbers: Numbers::Plain(dequantise),
    quantise: None,
};

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    each_block(bytes, out, |&[bits], [out]| *out = from_e4m3(bits));
}
