//! Q5_K: Q4_K with 32 bytes of fifth bits before the nibbles: bit `i` of byte `j` belongs to
//! element `32 i + j`.

use super::{each_block, read_half, scale_and_minimum};
use crate::format::Layout;

pub(crate) const LAYOUT: Layout = Layout {
    name: "Q5_K",
    ggml_type: Some(13),
    block_elements: 256,
    block_bytes: 176,
    halves: &[0, 2],
    grid: &[],
    dequantise,
    quantise: None,
};

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    each_block(bytes, out, |bytes: &[u8; 176], out: &mut [f32; 256]| {
        let (d, e) = (read_half(bytes), read_half(&bytes[2..]));
        let (packed, fifths) = bytes[4..].split_at(12);
        let (fifths, quants) = fifths.split_at(32);
        for (group, out) in out.chunks_exact_mut(32).enumerate() {
            let (scale, minimum) = scale_and_minimum(packed, group);
            let (scale, minimum) = (d * f32::from(scale), e * f32::from(minimum));
            let quants = &quants[32 * (group / 2)..][..32];
            for ((out, quant), fifth) in out.iter_mut().zip(quants).zip(fifths) {
                let quant = quant >> (4 * (group % 2)) & 15 | (fifth >> group & 1) << 4;
                *out = scale * f32::from(quant) - minimum;
            }
        }
    });
}
