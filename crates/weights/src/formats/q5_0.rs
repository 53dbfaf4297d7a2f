//! Q5_0: blocks of 32 elements, an f16 scale `d`, a 32-bit word of fifth bits and 16 bytes of
//! nibbles, laid out as in Q4_0: `x = d · (q − 16)`.

use super::{each_block, nibbles_and_bits, q8_0, read_half, recode_each_block, scaled};
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

fn quants(bytes: &[u8; 22]) -> [i8; 32] {
    nibbles_and_bits(&bytes[2..], &bytes[6..]).map(|quant| quant.cast_signed() - 16)
}

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    each_block(bytes, out, |bytes, out: &mut [f32; 32]| {
        scaled(read_half(bytes), &quants(bytes), out);
    });
}

/// The same numbers as Q8_0.
pub(crate) fn to_q8_0(bytes: &[u8], out: &mut [u8]) {
    recode_each_block(bytes, out, |bytes, out| {
        q8_0::pack(bytes, &quants(bytes), out);
    });
}
