//! MXFP4 (OCP Microscaling): blocks of 32 elements, a byte `e` and 16 bytes of nibbles, laid out as
//! in Q4_0, each an E2M1 float. With the floats doubled to whole numbers, as ggml has them:
//! `x = 2^(e − 128) · LEVELS[q]`.

use super::{each_block, nibbles, q8_0, scaled, write_half};
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

fn levels(bytes: &[u8; 17]) -> [i8; 32] {
    nibbles(&bytes[1..]).map(|nibble| LEVELS[usize::from(nibble & 15)])
}

/// 2^(e − 128), which is subnormal for e below 2.
fn scale(exponent: u8) -> f32 {
    f32::from_bits(match exponent {
        0 => 1 << 21,
        1 => 1 << 22,
        exponent => u32::from(exponent - 1) << 23,
    })
}

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    each_block(bytes, out, |bytes, out: &mut [f32; 32]| {
        scaled(scale(bytes[0]), &levels(bytes), out);
    });
}

/// As Q8_0: the same numbers where 2^(e − 128) is an f16 (from 2^−24 to 2^15), and up to eight
/// times that, for which the quants have room. Below, numbers are rounded to multiples of 2^−24;
/// a block above is an error unless it is all zero.
pub(crate) fn to_q8_0(bytes: &[u8], out: &mut [u8]) -> Result<(), usize> {
    let (blocks, _) = bytes.as_chunks::<17>();
    let (places, _) = out.as_chunks_mut::<34>();
    for (number, (bytes, out)) in blocks.iter().zip(places).enumerate() {
        let mut quants = levels(bytes);
        // From 2^−24 to 2^15.
        let kept = bytes[0].clamp(104, 143);
        match i32::from(bytes[0]) - i32::from(kept) {
            0 => {}
            over @ 1..=3 => quants = quants.map(|quant| quant << over),
            4.. if quants == [0; 32] => {}
            4.. => return Err(number),
            // The largest level is 12, so five steps down nothing is left. Halves go away from zero.
            under => {
                let step = 1 << (-under).min(5);
                quants = quants.map(|quant| (quant + quant.signum() * step / 2) / step);
            }
        }
        let mut half = [0; 2];
        write_half(scale(kept), &mut half);
        q8_0::pack(&half, &quants, out);
    }
    Ok(())
}
