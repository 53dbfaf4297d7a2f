//! Q4_K: blocks of 256 elements in 8 groups of 32: f16 `d` and `e`, twelve bytes with a 6-bit
//! scale `s` and a 6-bit minimum `t` a group, 128 bytes of nibbles `q`, group 2i in the low and
//! group 2i + 1 in the high nibbles of the same 32 bytes: `x = d · s · q − e · t`.

use super::{each_block, read_half, scale_and_minimum};
use crate::format::Layout;

pub(crate) const LAYOUT: Layout = Layout {
    name: "Q4_K",
    ggml_type: Some(12),
    block_elements: 256,
    block_bytes: 144,
    halves: &[0, 2],
    grid: &[],
    dequantise,
    quantise: None,
};

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    each_block(bytes, out, |bytes: &[u8; 144], out: &mut [f32; 256]| {
        let (d, e) = (read_half(bytes), read_half(&bytes[2..]));
        let (packed, quants) = bytes[4..].split_at(12);
        for (group, out) in out.chunks_exact_mut(32).enumerate() {
            let (scale, minimum) = scale_and_minimum(packed, group);
            let (scale, minimum) = (d * f32::from(scale), e * f32::from(minimum));
            let quants = &quants[32 * (group / 2)..][..32];
            for (out, quant) in out.iter_mut().zip(quants) {
                *out = scale * f32::from(quant >> (4 * (group % 2)) & 15) - minimum;
            }
        }
    });
}
