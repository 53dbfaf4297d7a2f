//! IQ2_XS: blocks of 256 elements in 16 groups of 16: f16 `d`, 32 words of 16 bits for eight
//! elements each, an entry of the code book in the lower nine bits and seven bits of signs above,
//! and a 4-bit scale `s` a group, low nibbles first: `x = d · (s + ½) / 4 · ±GRID[q]`.

use super::{each_block, grids, nibble, read_half, scaled};
use crate::format::Layout;

pub(crate) const LAYOUT: Layout = Layout {
    name: "IQ2_XS",
    ggml_type: Some(17),
    block_elements: 256,
    block_bytes: 74,
    halves: &[0],
    grid: &grids::IQ2_XS,
    dequantise,
    quantise: None,
};

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    each_block(bytes, out, |bytes: &[u8; 74], out: &mut [f32; 256]| {
        let d = read_half(bytes);
        let (words, scales) = bytes[2..].split_at(64);
        let (words, _) = words.as_chunks::<2>();
        for (eight, (word, out)) in words.iter().zip(out.chunks_exact_mut(8)).enumerate() {
            let word = u16::from_le_bytes(*word);
            let step = d * (0.5 + f32::from(nibble(scales, eight / 2))) * 0.25;
            let entry = grids::IQ2_XS[usize::from(word & 511)];
            let signs = grids::signs(u32::from(word >> 9));
            scaled(step, &grids::eight(entry, signs), out);
        }
    });
}
