//! F32: little-endian 32-bit floats, a block is one element.

use super::{each_block, write_each_block};
use crate::format::{Layout, Numbers};

pub(crate) const LAYOUT: Layout = Layout {
    name: "F32",
    ggml_type: Some(0),
    block_elements: 1,
    block_bytes: 4,
    halves: &[],
    grid: &[],
    numbers: Numbers::Plain(dequantise),
    quantise: Some(quantise),
};

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    each_block(bytes, out, |bytes: &[u8; 4], [out]| {
        *out = f32::from_le_bytes(*bytes);
    });
}

fn quantise(values: &[f32], out: &mut [u8]) -> Result<(), usize> {
    write_each_block(values, out, |[value], out| {
        *out = value.to_le_bytes();
        true
    })
}
