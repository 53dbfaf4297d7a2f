//! One file for each format, with its block layout as in ggml's `ggml-common.h` where ggml has it,
//! and the list of formats.
//!
//! A new format takes its file here, its two lines below, and the WGSL that reads it in
//! `shaders/block/`.

pub(crate) mod bf16;
pub(crate) mod f16;
pub(crate) mod f32;
pub(crate) mod f8_e4m3;
mod grids;
pub mod iq2_s;
pub mod iq2_xs;
pub mod iq2_xxs;
pub mod iq3_s;
pub mod iq3_xxs;
pub mod iq4_nl;
pub mod iq4_xs;
pub mod mxfp4;
pub mod q2_k;
pub mod q3_k;
pub mod q4_0;
pub mod q4_1;
pub mod q4_k;
pub mod q5_0;
pub mod q5_1;
pub mod q5_k;
pub mod q6_k;
pub mod q8_0;
mod small_floats;

use crate::quantised::RUN;
pub(crate) use small_floats::{from_bf16, from_half, to_half};

/// Calls `$then!` with the bracketed list of all formats that a matrix can be kept in, followed by
/// `$more`. An item is a format's documentation, its name in [`Format`](crate::Format), its module
/// here, and its kind: `numbers`, `blocks_of_32` or `blocks_of_256`. For blocks, the module has a
/// [`Quantised`](crate::quantised::Quantised) of that name.
#[macro_export]
macro_rules! each_format {
    ($then:ident $($more:tt)*) => {
        $then! {
            [
                /// 32-bit floats.
                F32 f32 numbers,
                /// 16-bit floats (IEEE 754 binary16).
                F16 f16 numbers,
                /// The upper halves of 32-bit floats.
                BF16 bf16 numbers,
                /// Blocks of 32: an f16 scale and 32 nibbles.
                Q4_0 q4_0 blocks_of_32,
                /// Blocks of 32: an f16 scale, an f16 minimum and 32 nibbles.
                Q4_1 q4_1 blocks_of_32,
                /// Blocks of 32: an f16 scale and 32 quants of five bits.
                Q5_0 q5_0 blocks_of_32,
                /// Blocks of 32: an f16 scale, an f16 minimum and 32 quants of five bits.
                Q5_1 q5_1 blocks_of_32,
                /// Blocks of 32: an f16 scale and 32 signed bytes.
                Q8_0 q8_0 blocks_of_32,
                /// Blocks of 256 with scales and minima for groups of 16: quants of two bits.
                Q2K q2_k blocks_of_256,
                /// Blocks of 256 with scales for groups of 16: quants of three bits.
                Q3K q3_k blocks_of_256,
                /// Blocks of 256 with scales and minima for groups of 32: quants of four bits.
                Q4K q4_k blocks_of_256,
                /// Blocks of 256 with scales and minima for groups of 32: quants of five bits.
                Q5K q5_k blocks_of_256,
                /// Blocks of 256 with scales for groups of 16: quants of six bits.
                Q6K q6_k blocks_of_256,
                /// Blocks of 256 with scales for groups of 32: for each eight elements a byte, the
                /// index of their magnitudes in a code book, and seven sign bits.
                IQ2XXS iq2_xxs blocks_of_256,
                /// Blocks of 256 with scales for groups of 16: for each eight elements nine bits,
                /// the index of their magnitudes in a larger code book, and seven sign bits.
                IQ2XS iq2_xs blocks_of_256,
                /// Blocks of 256 with scales for groups of 16: for each eight elements ten bits,
                /// the index of their magnitudes in a code book, and eight sign bits.
                IQ2S iq2_s blocks_of_256,
                /// Blocks of 256 with scales for groups of 32: for each four elements a byte, the
                /// index of their magnitudes in a code book; for each eight elements seven sign
                /// bits.
                IQ3XXS iq3_xxs blocks_of_256,
                /// Blocks of 256 with scales for groups of 32: for each four elements nine bits,
                /// the index of their magnitudes in a code book, and a sign bit for each element.
                IQ3S iq3_s blocks_of_256,
                /// Blocks of 32: an f16 scale and 32 nibbles, indices into a table of levels.
                IQ4NL iq4_nl blocks_of_32,
                /// Blocks of 256 with scales for groups of 32: nibbles, indices into the same
                /// table.
                IQ4XS iq4_xs blocks_of_256,
                /// Blocks of 32: a power of two and 32 floats of four bits.
                MXFP4 mxfp4 blocks_of_32,
            ]
            $($more)*
        }
    };
}

/// Writes `value` as f16, rounded to nearest even; false where it is too large.
fn write_half(value: f32, out: &mut [u8]) -> bool {
    let half = to_half(value);
    out[..2].copy_from_slice(&half.to_le_bytes());
    half & 0x7fff < 0x7c00
}

/// Calls `block` with every block of `bytes` and its elements. The lengths are constants, so that a
/// format's inner loops need no checks.
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

/// Calls `block` with every block's elements and bytes; stops at the first that returns false and
/// returns its index.
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

/// Writes every number as 16 bits; the error is the index of the first whose bits, without the
/// sign, are at least `too_large`. Searches for it only where there is one, so that the rest
/// vectorises.
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

/// 1 in each of four bytes.
const EACH: u32 = 0x0101_0101;

/// The nibbles of a run as in Q4_0: elements 0 to 15 in the low ones, 16 to 31 in the high ones.
#[inline(always)]
fn nibbles(bytes: &[u8]) -> [u8; RUN] {
    let mut codes = [0; RUN];
    let (low, high) = codes.as_chunks_mut().0.split_at_mut(4);
    for ((low, high), bytes) in low.iter_mut().zip(high).zip(bytes[..16].as_chunks().0) {
        let bytes = u32::from_le_bytes(*bytes);
        *low = (bytes & (15 * EACH)).to_le_bytes();
        *high = ((bytes >> 4) & (15 * EACH)).to_le_bytes();
    }
    codes
}

/// [`nibbles`] with a fifth bit each: bit `j` of the little-endian word `fifths` belongs to element
/// `j`.
#[inline(always)]
fn nibbles_and_bits(fifths: &[u8], bytes: &[u8]) -> [u8; RUN] {
    let mut codes = nibbles(bytes);
    for (byte, codes) in fifths[..4].iter().zip(codes.as_chunks_mut::<8>().0) {
        for (codes, mask) in codes
            .as_chunks_mut()
            .0
            .iter_mut()
            .zip([0x0804_0201, 0x8040_2010])
        {
            // Four copies of the byte, each with a bit of its own; it carries into the highest one.
            let bits = (u32::from(*byte) * EACH) & mask;
            let highest = (bits + 0x7f * EACH) & (0x80 * EACH);
            *codes = (u32::from_le_bytes(*codes) | highest >> 3).to_le_bytes();
        }
    }
    codes
}

/// `BITS` bits of each element of run number `run`, from a block of 256. `8 / BITS` runs share 32
/// bytes; the first of them has the lowest bits of each byte.
#[inline(always)]
fn run_bits<const BITS: usize>(bytes: &[u8], run: usize) -> [u8; RUN] {
    let each = 8 / BITS;
    bits::<BITS>(&bytes[RUN * (run / each)..], BITS * (run % each))
}

/// `BITS` bits of each byte of a run from bit `at` on. Vectors shift words, but not bytes, by a
/// number of bits that is not constant.
#[inline(always)]
fn bits<const BITS: usize>(bytes: &[u8], at: usize) -> [u8; RUN] {
    let mask = ((1 << BITS) - 1) * EACH;
    let mut codes = [0; RUN];
    let fours = codes.as_chunks_mut().0.iter_mut();
    for (codes, bytes) in fours.zip(bytes[..RUN].as_chunks().0) {
        *codes = ((u32::from_le_bytes(*bytes) >> at) & mask).to_le_bytes();
    }
    codes
}

/// Joins the low `bits` of codes with the bits above.
#[inline(always)]
fn joined(low: [u8; RUN], high: [u8; RUN], bits: usize) -> [u8; RUN] {
    let mut codes = low;
    let fours = codes.as_chunks_mut().0.iter_mut();
    for (codes, high) in fours.zip(high.as_chunks().0) {
        // The bits fit into their bytes.
        let joined = u32::from_le_bytes(*codes) | u32::from_le_bytes(*high) << bits;
        *codes = joined.to_le_bytes();
    }
    codes
}

/// Nibble `index`, low ones first: `s` of a step `d · (2 s + 1)`.
fn odd_step(nibbles: &[u8], index: usize) -> [i8; 2] {
    let nibble = nibbles[index / 2] >> (4 * (index % 2)) & 15;
    [(2 * nibble + 1).cast_signed(), 0]
}

/// Four little-endian bytes.
fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}
