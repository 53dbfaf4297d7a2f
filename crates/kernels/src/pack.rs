//! From GGUF's blocks to planes: bits change places, once, at load; no number changes.
//!
//! Nibbles of all formats come to lie as in Q4_0: byte i of a unit has weight i in its low
//! and weight 16 + i in its high half. The field offsets are those of `ggml-common.h`.

/// Plain numbers: one plane.
pub(crate) fn plain(blocks: &[u8], planes: &mut [Vec<u8>]) {
    planes[0].extend_from_slice(blocks);
}

/// Blocks of `BYTES` with scale and minimum, if any, in the first `HEADER` bytes: quants to the
/// first plane, those to the second.
pub(crate) fn header_last<const HEADER: usize, const BYTES: usize>(
    blocks: &[u8],
    planes: &mut [Vec<u8>],
) {
    for block in blocks.as_chunks::<BYTES>().0 {
        planes[0].extend_from_slice(&block[HEADER..]);
        planes[1].extend_from_slice(&block[..HEADER]);
    }
}

/// Q4_K.
pub(crate) fn q4_k(blocks: &[u8], planes: &mut [Vec<u8>]) {
    for block in blocks.as_chunks::<144>().0 {
        for pair in block[16..].chunks_exact(32) {
            let (first, second) = pair.split_at(16);
            let both = || first.iter().zip(second);
            planes[0].extend(both().map(|(a, b)| a & 15 | b << 4));
            planes[0].extend(both().map(|(a, b)| a >> 4 | b & 0xf0));
        }
        planes[1].extend_from_slice(&block[..16]);
    }
}

/// Q6_K.
pub(crate) fn q6_k(blocks: &[u8], planes: &mut [Vec<u8>]) {
    for block in blocks.as_chunks::<210>().0 {
        for run in 0..8 {
            let (low, high) = run_of_q6_k(block, run);
            planes[0].extend_from_slice(&low);
            planes[1].extend_from_slice(&high);
        }
        planes[2].extend_from_slice(&block[192..208]);
        planes[3].extend_from_slice(&block[208..]);
    }
}

/// Weights 32 · run .. of a Q6_K block: their low four bits as nibbles, and their high two
/// so that byte `k` of word `w` has those of weights 16w + k, + 4, + 8 and + 12 from bit 0 up.
fn run_of_q6_k(block: &[u8; 210], run: usize) -> ([u8; 16], [u8; 8]) {
    let (half, quarter) = (run / 4, run % 4);
    let nibbles = &block[64 * half + 32 * (quarter % 2)..][..32];
    let pairs = &block[128 + 32 * half..][..32];
    let low = |i: usize| nibbles[i] >> (4 * (quarter / 2)) & 15;
    let high = |i: usize| pairs[i] >> (2 * quarter) & 3;
    let low = std::array::from_fn(|i| low(i) | low(16 + i) << 4);
    let high = std::array::from_fn(|i| {
        let first = 16 * (i / 4) + i % 4;
        (0..4).map(|j| high(first + 4 * j) << (2 * j)).sum()
    });
    (low, high)
}
