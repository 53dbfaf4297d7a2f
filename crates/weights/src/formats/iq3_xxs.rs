//! IQ3_XXS: blocks of 256 elements in 8 groups of 32: f16 `d`, for each four elements a byte that
//! chooses an entry of the code book, and a 32-bit word a group as in IQ2_XXS, with seven bits of
//! signs for each eight elements and a 4-bit scale `s` above: `x = d · (s + ½) / 2 · ±GRID[q]`.

use super::{each_block, grids, read_half, scaled};
use crate::format::Layout;

pub(crate) const LAYOUT: Layout = Layout {
    name: "IQ3_XXS",
    ggml_type: Some(18),
    block_elements: 256,
    block_bytes: 98,
    halves: &[0],
    grid: &grids::IQ3_XXS,
    dequantise,
    quantise: None,
};

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    each_block(bytes, out, |bytes: &[u8; 98], out: &mut [f32; 256]| {
        let d = read_half(bytes);
        let (entries, words) = bytes[2..].split_at(64);
        let (words, _) = words.as_chunks::<4>();
        for (eight, out) in out.chunks_exact_mut(8).enumerate() {
            let signs = u32::from_le_bytes(words[eight / 4]);
            let step = d * (0.5 + (signs >> 28) as f32) * 0.5;
            let entry = |four: usize| grids::IQ3_XXS[usize::from(entries[2 * eight + four])];
            let signs = grids::signs(signs >> (7 * (eight % 4)));
            scaled(step, &grids::fours([entry(0), entry(1)], signs), out);
        }
    });
}
