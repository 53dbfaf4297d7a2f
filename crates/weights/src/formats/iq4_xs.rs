//! IQ4_XS: blocks of 256 elements in 8 groups of 32: f16 `d`, the upper two bits of the groups'
//! scales `s` in a 16-bit word, their lower four in four bytes, and 16 bytes a group as in IQ4_NL:
//! `x = d · (s − 32) · LEVELS[q]`.

use super::{each_block, iq4_nl, read_half, scaled};
use crate::format::Layout;

pub(crate) const LAYOUT: Layout = Layout {
    name: "IQ4_XS",
    ggml_type: Some(23),
    block_elements: 256,
    block_bytes: 136,
    halves: &[0],
    grid: &[],
    dequantise,
    quantise: None,
};

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    each_block(bytes, out, |bytes: &[u8; 136], out: &mut [f32; 256]| {
        let d = read_half(bytes);
        let upper = u16::from_le_bytes([bytes[2], bytes[3]]);
        let (lower, quants) = bytes[4..].split_at(4);
        for (group, out) in out.chunks_exact_mut(32).enumerate() {
            let low = lower[group / 2] >> (4 * (group % 2)) & 15;
            let high = (upper >> (2 * group)).to_le_bytes()[0] & 3;
            let scale = (low | high << 4).cast_signed() - 32;
            let levels = iq4_nl::levels(&quants[16 * group..][..16]);
            scaled(d * f32::from(scale), &levels, out);
        }
    });
}
