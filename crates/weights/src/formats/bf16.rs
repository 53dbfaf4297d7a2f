//! BF16: the upper halves of little-endian 32-bit floats, a block is one element.

use half::bf16 as Brain;

use super::{each_block, write_each_block};
use crate::format::Layout;

pub(crate) const LAYOUT: Layout = Layout {
    name: "BF16",
    ggml_type: 30,
    block_elements: 1,
    block_bytes: 2,
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
    write_each_block(values, out, |[value], out| {
        let brain = Brain::from_f32(*value);
        *out = brain.to_le_bytes();
        brain.is_finite()
    })
}
