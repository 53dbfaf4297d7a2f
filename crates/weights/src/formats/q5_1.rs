//! Q5_1: blocks of 32 elements, an f16 scale `d`, an f16 minimum `m`, a 32-bit word of fifth bits
//! and 16 bytes of nibbles, laid out as in Q4_0: `x = d · q + m`.

use super::{each_block, nibbles_and_bits, read_half};
use crate::format::Layout;

pub(crate) const LAYOUT: Layout = Layout {
    name: "Q5_1",
    ggml_type: Some(7),
    block_elements: 32,
    block_bytes: 24,
    halves: &[0, 2],
    grid: &[],
    dequantise,
    quantise: None,
};

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    each_block(bytes, out, |bytes: &[u8; 24], out: &mut [f32; 32]| {
        let (scale, minimum) = (read_half(bytes), read_half(&bytes[2..]));
        for (out, quant) in out
            .iter_mut()
            .zip(nibbles_and_bits(&bytes[4..], &bytes[8..]))
        {
            *out = scale * f32::from(quant) + minimum;
        }
    });
}
