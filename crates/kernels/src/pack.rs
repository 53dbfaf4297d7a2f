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

/// Q5_0.
pub(crate) fn q5_0(blocks: &[u8], planes: &mut [Vec<u8>]) {
    for block in blocks.as_chunks::<22>().0 {
        planes[0].extend_from_slice(&block[6..]);
        planes[1].extend(bits(|i| block[2 + i / 8] >> (i % 8) & 1));
        planes[2].extend_from_slice(&block[..2]);
    }
}

/// Q5_1.
pub(crate) fn q5_1(blocks: &[u8], planes: &mut [Vec<u8>]) {
    for block in blocks.as_chunks::<24>().0 {
        planes[0].extend_from_slice(&block[8..]);
        planes[1].extend_from_slice(&block[..4]);
        planes[1].extend(bits(|i| block[4 + i / 8] >> (i % 8) & 1));
    }
}

/// Q2_K.
pub(crate) fn q2_k(blocks: &[u8], planes: &mut [Vec<u8>]) {
    for block in blocks.as_chunks::<84>().0 {
        for run in 0..8 {
            planes[0].extend(twos(|i| two_bits(&block[16..80], run, i)));
        }
        planes[1].extend_from_slice(&block[..16]);
        planes[2].extend_from_slice(&block[80..]);
    }
}

/// Q3_K.
pub(crate) fn q3_k(blocks: &[u8], planes: &mut [Vec<u8>]) {
    for block in blocks.as_chunks::<110>().0 {
        for run in 0..8 {
            planes[0].extend(twos(|i| two_bits(&block[32..96], run, i)));
            planes[1].extend(bits(|i| block[i] >> run & 1));
        }
        planes[2].extend_from_slice(&block[96..108]);
        planes[3].extend_from_slice(&block[108..]);
    }
}

/// IQ2_XS: words, scales, d.
pub(crate) fn iq2_xs(blocks: &[u8], planes: &mut [Vec<u8>]) {
    for block in blocks.as_chunks::<74>().0 {
        planes[0].extend_from_slice(&block[2..66]);
        planes[1].extend_from_slice(&block[66..]);
        planes[2].extend_from_slice(&block[..2]);
    }
}

/// IQ2_S: of each 32 weights four low bytes and four of signs; upper bits and scales; d.
pub(crate) fn iq2_s(blocks: &[u8], planes: &mut [Vec<u8>]) {
    for block in blocks.as_chunks::<82>().0 {
        for run in 0..8 {
            planes[0].extend_from_slice(&block[2 + 4 * run..][..4]);
            planes[0].extend_from_slice(&block[34 + 4 * run..][..4]);
            planes[1].extend([block[66 + run], block[74 + run]]);
        }
        planes[2].extend_from_slice(&block[..2]);
    }
}

/// IQ3_XXS: entries, signs with scales, d.
pub(crate) fn iq3_xxs(blocks: &[u8], planes: &mut [Vec<u8>]) {
    for block in blocks.as_chunks::<98>().0 {
        planes[0].extend_from_slice(&block[2..66]);
        planes[1].extend_from_slice(&block[66..]);
        planes[2].extend_from_slice(&block[..2]);
    }
}

/// IQ3_S: low bytes, signs, ninth bits with scales, d.
pub(crate) fn iq3_s(blocks: &[u8], planes: &mut [Vec<u8>]) {
    for block in blocks.as_chunks::<110>().0 {
        planes[0].extend_from_slice(&block[2..66]);
        planes[1].extend_from_slice(&block[74..106]);
        planes[2].extend_from_slice(&block[66..74]);
        planes[2].extend_from_slice(&block[106..]);
        planes[3].extend_from_slice(&block[..2]);
    }
}

/// Q4_K.
pub(crate) fn q4_k(blocks: &[u8], planes: &mut [Vec<u8>]) {
    for block in blocks.as_chunks::<144>().0 {
        planes[0].extend(pairs_of_runs(&block[16..]));
        planes[1].extend_from_slice(&block[..16]);
    }
}

/// Q5_K.
pub(crate) fn q5_k(blocks: &[u8], planes: &mut [Vec<u8>]) {
    for block in blocks.as_chunks::<176>().0 {
        planes[0].extend(pairs_of_runs(&block[48..]));
        for run in 0..8 {
            planes[1].extend(bits(|i| block[16 + i] >> run & 1));
        }
        planes[2].extend_from_slice(&block[..16]);
    }
}

/// Q6_K.
pub(crate) fn q6_k(blocks: &[u8], planes: &mut [Vec<u8>]) {
    for block in blocks.as_chunks::<210>().0 {
        for run in 0..8 {
            let (half, quarter) = (run / 4, run % 4);
            let low = &block[64 * half + 32 * (quarter % 2)..][..32];
            let low = |i: usize| low[i] >> (4 * (quarter / 2)) & 15;
            planes[0].extend((0..16).map(|i| low(i) | low(16 + i) << 4));
            planes[1].extend(twos(|i| two_bits(&block[128..192], run, i)));
        }
        planes[2].extend_from_slice(&block[192..208]);
        planes[3].extend_from_slice(&block[208..]);
    }
}

/// The nibbles of Q4_K and Q5_K: of 64 weights, the low halves of 32 bytes, then the high ones.
fn pairs_of_runs(bytes: &[u8]) -> impl Iterator<Item = u8> {
    bytes.chunks_exact(32).flat_map(|pair| {
        let (first, second) = pair.split_at(16);
        let low = first.iter().zip(second).map(|(a, b)| a & 15 | b << 4);
        let high = first.iter().zip(second).map(|(a, b)| a >> 4 | b & 0xf0);
        low.chain(high)
    })
}

/// Two bits of weight `i` of run `run`, 32 weights each: a byte has those of four runs.
fn two_bits(bytes: &[u8], run: usize, i: usize) -> u8 {
    bytes[32 * (run / 4) + i] >> (2 * (run % 4)) & 3
}

/// Two bits of each of 32 weights so that byte `k` of word `w` has those of weights 16w + k, + 4,
/// + 8 and + 12 from bit 0 up.
fn twos(two: impl Fn(usize) -> u8) -> [u8; 8] {
    std::array::from_fn(|i| {
        let first = 16 * (i / 4) + i % 4;
        (0..4).map(|j| two(first + 4 * j) << (2 * j)).sum()
    })
}

/// One bit of each of 32 weights so that bit `q` of byte `k` is that of weight 4q + k.
fn bits(bit: impl Fn(usize) -> u8) -> [u8; 4] {
    std::array::from_fn(|k| (0..8).map(|q| bit(4 * q + k) << q).sum())
}
