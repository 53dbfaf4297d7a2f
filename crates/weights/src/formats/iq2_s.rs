//! IQ2_S: blocks of 256 elements in 16 groups of 16: f16 `d`, for each eight elements the lower
//! byte of an entry's number in the code book, then for each eight a byte of signs, the upper two
//! bits of four entries in each of eight bytes, and a 4-bit scale `s` a group, low nibbles first:
//! `x = d · (s + ½) / 4 · ±GRID[q]`.

use super::{each_block, grids, nibble, read_half, scaled};
use crate::format::Layout;

pub(crate) const LAYOUT: Layout = Layout {
    name: "IQ2_S",
    ggml_type: Some(22),
    block_elements: 256,
    block_bytes: 82,
    halves: &[0],
    grid: &grids::IQ2_S,
    dequantise,
    quantise: None,
};

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    each_block(bytes, out, |bytes: &[u8; 82], out: &mut [f32; 256]| {
        let d = read_half(bytes);
        let (lower, rest) = bytes[2..].split_at(32);
        let (signs, rest) = rest.split_at(32);
        let (upper, scales) = rest.split_at(8);
        for (eight, out) in out.chunks_exact_mut(8).enumerate() {
            let step = d * (0.5 + f32::from(nibble(scales, eight / 2))) * 0.25;
            let upper = usize::from(upper[eight / 4] >> (2 * (eight % 4)) & 3);
            let entry = grids::IQ2_S[usize::from(lower[eight]) | upper << 8];
            scaled(step, &grids::eight(entry, signs[eight]), out);
        }
    });
}
