//! Q2_K: blocks of 256 elements in 16 groups of 16: 16 bytes with a 4-bit scale `s` (low) and a
//! 4-bit minimum `t` (high) a group, 64 bytes of 2-bit quants `q`, f16 `d` and f16 `e`:
//! `x = d · s · q − e · t`.

use super::{each_block, read_half};
use crate::format::Layout;

pub(crate) const LAYOUT: Layout = Layout {
    name: "Q2_K",
    ggml_type: Some(10),
    block_elements: 256,
    block_bytes: 84,
    halves: &[80, 82],
    grid: &[],
    dequantise,
    quantise: None,
};

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    each_block(bytes, out, |bytes: &[u8; 84], out: &mut [f32; 256]| {
        let (scales, quants) = bytes.split_at(16);
        let (d, e) = (read_half(&bytes[80..]), read_half(&bytes[82..]));
        for (group, out) in out.chunks_exact_mut(16).enumerate() {
            let (half, pair, second) = (group / 8, group / 2 % 4, group % 2);
            let scale = d * f32::from(scales[group] & 15);
            let minimum = e * f32::from(scales[group] >> 4);
            let quants = &quants[32 * half + 16 * second..][..16];
            for (out, quant) in out.iter_mut().zip(quants) {
                *out = scale * f32::from(quant >> (2 * pair) & 3) - minimum;
            }
        }
    });
}
