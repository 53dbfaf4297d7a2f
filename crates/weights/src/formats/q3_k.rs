//! Q3_K: blocks of 256 elements in 16 groups of 16: 32 bytes of third bits, 64 bytes with the lower
//! two bits of the quants `q`, twelve bytes with a 6-bit scale `s` a group, f16 `d`:
//! `x = d · (s − 32) · (q − 4)`.

use super::{each_block, read_half, scaled};
use crate::format::Layout;

pub(crate) const LAYOUT: Layout = Layout {
    name: "Q3_K",
    ggml_type: Some(11),
    block_elements: 256,
    block_bytes: 110,
    halves: &[108],
    grid: &[],
    dequantise,
    quantise: None,
};

/// `s − 32` for each group: the lower four bits lie in bytes 0 to 7, the upper two in 8 to 11.
fn scales(bytes: &[u8; 110]) -> [i8; 16] {
    let packed = &bytes[96..108];
    std::array::from_fn(|group| {
        let low = packed[group % 8] >> (4 * (group / 8)) & 15;
        let high = packed[8 + group % 4] >> (2 * (group / 4)) & 3;
        (low | high << 4).cast_signed() - 32
    })
}

/// `q − 4` for each element: bit `i` of byte `j` of the third bits belongs to element `32 i + j`.
fn quants(bytes: &[u8; 110]) -> [i8; 256] {
    let (thirds, lower) = bytes.split_at(32);
    let mut quants = [0; 256];
    for (run, quants) in quants.chunks_exact_mut(32).enumerate() {
        let lower = &lower[32 * (run / 4)..][..32];
        for ((quant, lower), third) in quants.iter_mut().zip(lower).zip(thirds) {
            let three_bits = lower >> (2 * (run % 4)) & 3 | (third >> run & 1) << 2;
            *quant = three_bits.cast_signed() - 4;
        }
    }
    quants
}

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    each_block(bytes, out, |bytes: &[u8; 110], out: &mut [f32; 256]| {
        let d = read_half(&bytes[108..]);
        let quants = quants(bytes);
        let groups = quants.chunks_exact(16).zip(out.chunks_exact_mut(16));
        for (scale, (quants, out)) in scales(bytes).into_iter().zip(groups) {
            scaled(d * f32::from(scale), quants, out);
        }
    });
}
