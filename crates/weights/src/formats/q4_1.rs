//! Q4_1: blocks of 32 elements, an f16 scale `d`, an f16 minimum `m` and 16 bytes of nibbles `q`,
//! laid out as in Q4_0: `x = d · q + m`.

use super::{each_block, nibbles, read_half};
use crate::format::Layout;

pub(crate) const LAYOUT: Layout = Layout {
    name: "Q4_1",
    ggml_type: Some(3),
    block_elements: 32,
    block_bytes: 20,
    halves: &[0, 2],
    grid: &[],
    dequantise,
    quantise: None,
};

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    each_block(bytes, out, |bytes: &[u8; 20], out: &mut [f32; 32]| {
        let (scale, minimum) = (read_half(bytes), read_half(&bytes[2..]));
        for (out, quant) in out.iter_mut().zip(nibbles(&bytes[4..])) {
            *out = scale * f32::from(quant) + minimum;
        }
    });
}
