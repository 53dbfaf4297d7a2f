//! Q6_K: blocks of 256 elements in 16 groups of 16: 128 bytes with the lower four bits of the
//! quants `q`, 64 bytes with their upper two, a signed byte `s` a group, f16 `d`:
//! `x = d · s · (q − 32)`. Each half of a block has four runs of 32 elements; its 64 bytes of
//! nibbles hold runs 0 and 1 low and runs 2 and 3 high, its 32 bytes of pairs hold run `r` in
//! bits `2r` and `2r + 1`.

use super::{each_block, read_half, scaled};
use crate::format::Layout;

pub(crate) const LAYOUT: Layout = Layout {
    name: "Q6_K",
    ggml_type: Some(14),
    block_elements: 256,
    block_bytes: 210,
    halves: &[208],
    grid: &[],
    dequantise,
    quantise: None,
};

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    each_block(bytes, out, |bytes: &[u8; 210], out: &mut [f32; 256]| {
        let (lower, upper) = bytes.split_at(128);
        let scales = &bytes[192..208];
        let d = read_half(&bytes[208..]);
        for (run, out) in out.chunks_exact_mut(32).enumerate() {
            let (half, run_of_half) = (run / 4, run % 4);
            let lower = &lower[64 * half + 32 * (run_of_half % 2)..][..32];
            let upper = &upper[32 * half..][..32];
            let mut quants = [0; 32];
            for ((quant, lower), upper) in quants.iter_mut().zip(lower).zip(upper) {
                let lower = lower >> (4 * (run_of_half / 2)) & 15;
                let upper = upper >> (2 * run_of_half) & 3;
                *quant = (lower | upper << 4).cast_signed() - 32;
            }
            for (group, out) in out.chunks_exact_mut(16).enumerate() {
                let scale = d * f32::from(scales[2 * run + group].cast_signed());
                scaled(scale, &quants[16 * group..], out);
            }
        }
    });
}
