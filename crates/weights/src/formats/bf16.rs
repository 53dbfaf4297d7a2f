//! BF16: the upper halves of little-endian 32-bit floats, a block is one element.

use super::small_floats::to_brain;
use super::{each_block, write_each_pair};
use crate::format::Layout;

pub(crate) const LAYOUT: Layout = Layout {
    name: "BF16",
    ggml_type: Some(30),
    block_elements: 1,
    block_bytes: 2,
    halves: &[],
    grid: &[],
    dequantise,
    quantise: Some(quantise),
};

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    each_block(bytes, out, |&[low, high]: &[u8; 2], [out]| {
        *out = f32::from_le_bytes([0, 0, low, high]);
    });
}

/// Rounds to nearest even.
fn quantise(values: &[f32], out: &mut [u8]) -> Result<(), usize> {
    write_each_pair(values, out, 0x7f80, to_brain)
}
