//! One file a format, each with its block layout as ggml's `ggml-common.h` defines it, where ggml has it.

pub(crate) mod bf16;
pub(crate) mod f16;
pub(crate) mod f32;
pub(crate) mod f8_e4m3;
pub(crate) mod grids;
pub(crate) mod iq2_s;
pub(crate) mod iq2_xs;
pub(crate) mod iq2_xxs;
pub(crate) mod iq3_s;
pub(crate) mod iq3_xxs;
pub(crate) mod iq4_nl;
pub(crate) mod iq4_xs;
pub(crate) mod mxfp4;
pub(crate) mod q2_k;
pub(crate) mod q3_k;
pub(crate) mod q4_0;
pub(crate) mod q4_1;
pub(crate) mod q4_k;
pub(crate) mod q5_0;
pub(crate) mod q5_1;
pub(crate) mod q5_k;
pub(crate) mod q6_k;
pub(crate) mod q8_0;
mod small_floats;

use small_floats::{from_half, to_half};

/// The f16 in the first two bytes of a block's part, little-endian.
fn read_half(bytes: &[u8]) -> f32 {
    from_half(u16::from_le_bytes([bytes[0], bytes[1]]))
}

/// Writes `value` as f16, rounded to nearest even; false where it is too large.
fn write_half(value: f32, out: &mut [u8]) -> bool {
    let half = to_half(value);
    out[..2].copy_from_slice(&half.to_le_bytes());
    half & 0x7fff < 0x7c00
}

/// Calls `block` with every block of `bytes` and the place of its elements. The lengths are
/// constants, so that a format's inner loops need no checks.
fn each_block<const BYTES: usize, const ELEMENTS: usize>(
    bytes: &[u8],
    out: &mut [f32],
    block: impl Fn(&[u8; BYTES], &mut [f32; ELEMENTS]),
) {
    let (blocks, _) = bytes.as_chunks::<BYTES>();
    let (places, _) = out.as_chunks_mut::<ELEMENTS>();
    for (bytes, out) in blocks.iter().zip(places) {
        block(bytes, out);
    }
}

/// Calls `block` with the elements of every block and the place of its bytes; stops at the first
/// that answers false, with its number.
fn write_each_block<const ELEMENTS: usize, const BYTES: usize>(
    values: &[f32],
    out: &mut [u8],
    block: impl Fn(&[f32; ELEMENTS], &mut [u8; BYTES]) -> bool,
) -> Result<(), usize> {
    let (values, _) = values.as_chunks::<ELEMENTS>();
    let (places, _) = out.as_chunks_mut::<BYTES>();
    let mut blocks = values.iter().zip(places);
    match blocks.position(|(values, out)| !block(values, out)) {
        Some(number) => Err(number),
        None => Ok(()),
    }
}

/// Writes every number as 16 bits; the error is the index of the first whose bits are at least
/// `too_large`, sign aside. Looks for it only where there is one, so that all else is vectors.
fn write_each_pair(
    values: &[f32],
    out: &mut [u8],
    too_large: u16,
    bits: impl Fn(f32) -> u16,
) -> Result<(), usize> {
    let (places, _) = out.as_chunks_mut::<2>();
    let mut largest = 0;
    for (value, out) in values.iter().zip(places.iter_mut()) {
        let bits = bits(*value);
        largest = largest.max(bits & 0x7fff);
        *out = bits.to_le_bytes();
    }
    if largest < too_large {
        return Ok(());
    }
    let bad = |out: &[u8; 2]| u16::from_le_bytes(*out) & 0x7fff >= too_large;
    Err(places.iter().position(bad).unwrap_or_default())
}

/// The two halves of a block of 32: low nibbles are elements 0 to 15, high ones 16 to 31.
fn nibbles(bytes: &[u8]) -> [u8; 32] {
    let mut nibbles = [0; 32];
    let (low, high) = nibbles.split_at_mut(16);
    for ((low, high), byte) in low.iter_mut().zip(high).zip(bytes) {
        *low = byte & 15;
        *high = byte >> 4;
    }
    nibbles
}

/// [`nibbles`] with a fifth bit each: bit `j` of the little-endian word `high` belongs to element `j`.
fn nibbles_and_bits(high: &[u8], bytes: &[u8]) -> [u8; 32] {
    let high = u32::from_le_bytes([high[0], high[1], high[2], high[3]]);
    let mut quants = nibbles(bytes);
    for (index, quant) in quants.iter_mut().enumerate() {
        *quant |= u8::from(high >> index & 1 == 1) << 4;
    }
    quants
}

/// Nibble number `index` of `bytes`, the low one of each first.
fn nibble(bytes: &[u8], index: usize) -> u8 {
    bytes[index / 2] >> (4 * (index % 2)) & 15
}

/// Writes `scale · quants` to `out`.
fn scaled(scale: f32, quants: &[i8], out: &mut [f32]) {
    for (out, &quant) in out.iter_mut().zip(quants) {
        *out = scale * f32::from(quant);
    }
}

/// Scale and minimum number `index` of the eight that Q4_K and Q5_K pack into twelve bytes: six
/// bits each; the upper two of numbers 4 to 7 lie above the lower six of numbers 0 to 3.
fn scale_and_minimum(packed: &[u8], index: usize) -> (u8, u8) {
    if index < 4 {
        (packed[index] & 63, packed[index + 4] & 63)
    } else {
        (
            packed[index + 4] & 15 | packed[index - 4] >> 2 & 48,
            packed[index + 4] >> 4 | packed[index] >> 2 & 48,
        )
    }
}
