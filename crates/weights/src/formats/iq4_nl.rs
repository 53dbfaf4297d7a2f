//! IQ4_NL: blocks of 32 elements, an f16 scale `d` and 16 bytes of nibbles, laid out as in Q4_0,
//! that choose from a fixed table of levels: `x = d · LEVELS[q]`.

use super::{each_block, nibbles, read_half, scaled};
use crate::format::Layout;

pub(crate) const LAYOUT: Layout = Layout {
    name: "IQ4_NL",
    ggml_type: Some(20),
    block_elements: 32,
    block_bytes: 18,
    halves: &[0],
    grid: &[],
    dequantise,
    quantise: None,
};

/// ggml's `kvalues_iq4nl`.
const LEVELS: [i8; 16] = [
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
];

/// The levels that 16 bytes of nibbles choose.
pub(super) fn levels(bytes: &[u8]) -> [i8; 32] {
    nibbles(bytes).map(|nibble| LEVELS[usize::from(nibble & 15)])
}

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    each_block(bytes, out, |bytes: &[u8; 18], out: &mut [f32; 32]| {
        scaled(read_half(bytes), &levels(&bytes[2..]), out);
    });
}
