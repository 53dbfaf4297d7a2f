//! MXFP4 (OCP Microscaling): blocks of 32 elements, a byte `e` and 16 bytes of nibbles, laid out as
//! in Q4_0, each an E2M1 float. With the floats doubled to whole numbers, as ggml has them:
//! `x = 2^(e − 128) · LEVELS[q]`.

use super::{each_block, nibbles, scaled};
use crate::format::Layout;

pub(crate) const LAYOUT: Layout = Layout {
    name: "MXFP4",
    ggml_type: Some(39),
    block_elements: 32,
    block_bytes: 17,
    halves: &[],
    grid: &[],
    dequantise,
    quantise: None,
};

/// ggml's `kvalues_mxfp4`.
const LEVELS: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// 2^(e − 128), which is subnormal for e below 2.
fn scale(exponent: u8) -> f32 {
    f32::from_bits(match exponent {
        0 => 1 << 21,
        1 => 1 << 22,
        exponent => u32::from(exponent - 1) << 23,
    })
}

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    each_block(bytes, out, |bytes: &[u8; 17], out: &mut [f32; 32]| {
        let levels = nibbles(&bytes[1..]).map(|nibble| LEVELS[usize::from(nibble & 15)]);
        scaled(scale(bytes[0]), &levels, out);
    });
}
