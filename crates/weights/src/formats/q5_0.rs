//! Q5_0: blocks of 32 elements, an f16 scale `d`, a 32-bit word of fifth bits and 16 bytes of
//! nibbles, laid out as in Q4_0: `x = d · (q − 16)`.

use super::{each_block, nibbles_and_bits, read_half, scaled};
use crate::format::Layout;

pub(crate) const LAYOUT: Layout = Layout {
    name: "Q5_0",
    ggml_type: Some(6),
    block_elements: 32,
    block_bytes: 22,
    halves: &[0],
    grid: &[],
    dequantise,
    quantise: None,
};

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    each_block(bytes, out, |bytes: &[u8; 22], out: &mut [f32; 32]| {
        let quants = nibbles_and_bits(&bytes[2..], &bytes[6..]);
        let quants = quants.map(|quant| quant.cast_signed() - 16);
        scaled(read_half(bytes), &quants, out);
    });
}
