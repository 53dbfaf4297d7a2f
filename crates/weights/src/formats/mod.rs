//! One file a format, each with its block layout as ggml's `ggml-common.h` defines it.

pub(crate) mod f16;
pub(crate) mod f32;
pub(crate) mod q4_0;
pub(crate) mod q8_0;

use half::f16 as Half;

/// The f16 in the first two bytes of a block, little-endian.
fn read_half(bytes: &[u8]) -> f32 {
    Half::from_le_bytes([bytes[0], bytes[1]]).to_f32()
}

/// Writes `value` as f16, rounded to nearest even; false where it is too large.
fn write_half(value: f32, out: &mut [u8]) -> bool {
    let half = Half::from_f32(value);
    out[..2].copy_from_slice(&half.to_le_bytes());
    half.is_finite()
}
