//! IQ2_XXS: blocks of 256 elements in 8 groups of 32: f16 `d`, then two 32-bit words a group. The
//! four bytes of the first choose entries of the code book, eight elements each; the second has
//! seven bits of signs for each of them, the lowest first, and above these a 4-bit scale `s`:
//! `x = d · (s + ½) / 4 · ±GRID[q]`.

use super::{each_block, grids, read_half, scaled};
use crate::format::Layout;

pub(crate) const LAYOUT: Layout = Layout {
    name: "IQ2_XXS",
    ggml_type: Some(16),
    block_elements: 256,
    block_bytes: 66,
    halves: &[0],
    grid: &grids::IQ2_XXS,
    dequantise,
    quantise: None,
};

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    each_block(bytes, out, |bytes: &[u8; 66], out: &mut [f32; 256]| {
        let d = read_half(bytes);
        let (groups, _) = bytes[2..].as_chunks::<8>();
        for (group, out) in groups.iter().zip(out.chunks_exact_mut(32)) {
            let [entries @ .., a, b, c, e] = *group;
            let signs = u32::from_le_bytes([a, b, c, e]);
            let step = d * (0.5 + (signs >> 28) as f32) * 0.25;
            for (eight, out) in out.chunks_exact_mut(8).enumerate() {
                let entry = grids::IQ2_XXS[usize::from(entries[eight])];
                let signs = grids::signs(signs >> (7 * eight));
                scaled(step, &grids::eight(entry, signs), out);
            }
        }
    });
}
