//! BF16: the upper halves of little-endian 32-bit floats, a block is one element.

use super::small_floats::to_bf16;
use super::{each_block, from_bf16, write_each_pair};
use crate::format::{Layout, Numbers};

pub(crate) const LAYOUT: Layout = Layout {
    name: "BF16",
    ggml_type: Some(30),
    block_elements: 1,
    block_bytes: 2,
    halves: &[],
    grid: &[],
    numbers: Numbers::Plain(dequantise),
    quantise: Some(quantise),
};

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    each_block(bytes, out, |bytes: &[u8; 2], [out]| {
        *out = from_bf16(u16::from_le_bytes(*bytes));
    });
}

/// Rounds to nearest even.
fn quantise(values: &[f32], out: &mut [u8]) -> Result<(), usize> {
    write_each_pair(values, out, 0x7f80, to_bf16)
}
