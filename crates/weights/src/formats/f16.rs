//! F16: little-endian 16-bit floats, a block is one element.

use super::{each_block, from_half, to_half, write_each_pair};
use crate::format::{Layout, Numbers};

pub(crate) const LAYOUT: Layout = Layout {
    name: "F16",
    ggml_type: Some(1),
    block_elements: 1,
    block_bytes: 2,
    halves: &[0],
    grid: &[],
    numbers: Numbers::Plain(dequantise),
    quantise: Some(quantise),
};

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    each_block(bytes, out, |bytes: &[u8; 2], [out]| {
        *out = from_half(u16::from_le_bytes(*bytes));
    });
}

/// Rounds to nearest even.
fn quantise(values: &[f32], out: &mut [u8]) -> Result<(), usize> {
    write_each_pair(values, out, 0x7c00, to_half)
}
