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

/// The nibbles of a run as in Q4_0: elements 0 to 15 in the low ones, 16 to 31 in the high ones.
#[inline(always)]
fn nibbles(bytes: &[u8]) -> [u8; RUN] {
    let mut codes = [0; RUN];
    let (low, high) = codes.split_at_mut(RUN / 2);
    for ((low, high), byte) in low.iter_mut().zip(high).zip(&bytes[..16]) {
        (*low, *high) = (byte & 15, byte >> 4);
    }
    codes
}

/// [`nibbles`] with a fifth bit each: bit `j` of the little-endian word `fifths` belongs to element
/// `j`.
#[inline(always)]
fn nibbles_and_bits(fifths: &[u8], bytes: &[u8]) -> [u8; RUN] {
    let fifths = word(fifths);
    let mut codes = nibbles(bytes);
    for (i, code) in codes.iter_mut().enumerate() {
        *code |= (fifths >> i & 1) as u8 * 16;
    }
    codes
}

/// `BITS` bits of each element of run number `run`, from a block of 256. `8 / BITS` runs share 32
/// bytes; the first of them has the lowest bits of each byte.
#[inline(always)]
fn run_bits<const BITS: usize>(bytes: &[u8], run: usize) -> [u8; RUN] {
    let each = 8 / BITS;
    let mut codes = [0; RUN];
    for (code, byte) in codes.iter_mut().zip(&bytes[RUN * (run / each)..][..RUN]) {
        *code = byte >> (BITS * (run % each)) & ((1 << BITS) - 1);
    }
    codes
}

/// Joins the low `bits` of codes with the bits above.
#[inline(always)]
fn joined(low: [u8; RUN], high: [u8; RUN], bits: usize) -> [u8; RUN] {
    let mut codes = low;
    for (code, high) in codes.iter_mut().zip(high) {
        *code |= high << bits;
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
