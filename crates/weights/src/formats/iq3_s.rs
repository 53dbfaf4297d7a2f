//! IQ3_S: blocks of 256 elements in 8 groups of 32: f16 `d`, for each four elements the lower byte
//! of an entry's number in the code book, the ninth bits of eight entries in each of eight bytes,
//! for each eight elements a byte of signs, and a 4-bit scale `s` a group, low nibbles first:
//! `x = d · (2 s + 1) · ±GRID[q]`.

use super::{each_block, grids, nibble, read_half, scaled};
use crate::format::Layout;

pub(crate) const LAYOUT: Layout = Layout {
    name: "IQ3_S",
    ggml_type: Some(21),
    block_elements: 256,
    block_bytes: 110,
    halves: &[0],
    grid: &grids::IQ3_S,
    dequantise,
    quantise: None,
};

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    each_block(bytes, out, |bytes: &[u8; 110], out: &mut [f32; 256]| {
        let d = read_half(bytes);
        let (lower, rest) = bytes[2..].split_at(64);
        let (ninths, rest) = rest.split_at(8);
        let (signs, scales) = rest.split_at(32);
        for (eight, out) in out.chunks_exact_mut(8).enumerate() {
            let step = d * f32::from(1 + 2 * nibble(scales, eight / 4));
            let entry = |four: usize| {
                let ninth = usize::from(ninths[four / 8] >> (four % 8) & 1);
                grids::IQ3_S[usize::from(lower[four]) | ninth << 8]
            };
            let entries = [entry(2 * eight), entry(2 * eight + 1)];
            scaled(step, &grids::odd_fours(entries, signs[eight]), out);
        }
    });
}
