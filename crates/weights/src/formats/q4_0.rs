//! Q4_0: blocks of 32 elements, an f16 scale `d` and 16 bytes of nibbles `q`: `x = d · (q − 8)`.
//! Byte `j` holds element `j` in its low and element `j + 16` in its high nibble.

use super::{nibbles, write_each_block, write_half};
use crate::format::largest;
use crate::quantised::{Bits, Levels, Plane, Quantised, RUN, Scale, Writer};

/// The block format Q4_0.
#[derive(Debug, Clone, Copy)]
pub struct Q4_0;

impl Quantised for Q4_0 {
    const NAME: &'static str = "Q4_0";
    const GGML_TYPE: u32 = 2;
    const ELEMENTS: usize = 32;
    const BYTES: usize = 18;
    const HALVES: &'static [usize] = &[0];
    const LEVELS: Levels = Levels::Offset(8);
    const PLANES: &'static [Plane] = &[Plane::Stored(&[(2, 16)]), Plane::Stored(&[(0, 2)])];
    const QUANTISE: Option<Writer> = Some(quantise);
    type Codes = Bits<4>;
    type Scaling = Scale;

    #[inline(always)]
    fn codes(block: &[u8], _run: usize) -> [u8; RUN] {
        nibbles(&block[2..])
    }
}

/// `d = x* / −8`, with `x*` the element of largest magnitude including its sign, so that it
/// becomes exactly −8; `q = ⌊x / d + 8.5⌋`, at most 15. Product and sum are rounded to f32
/// separately: ggml's result depends on whether the compiler fuses them; this follows the `gguf`
/// package.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 0..=15 first"
)]
fn quantise(values: &[f32], out: &mut [u8]) -> Result<(), usize> {
    write_each_block(values, out, |values: &[f32; 32], out: &mut [u8; 18]| {
        let scale = largest(values).1 / -8.0;
        // A scale too small to have an inverse is zero in f16 too.
        let inverse = Some(1.0 / scale).filter(|inverse| inverse.is_finite());
        let inverse = inverse.unwrap_or_default();
        let nibble = |value: f32| (value * inverse + 8.5).clamp(0.0, 15.0) as u8;
        let (low, high) = values.split_at(16);
        for (out, (&low, &high)) in out[2..].iter_mut().zip(low.iter().zip(high)) {
            *out = nibble(low) | nibble(high) << 4;
        }
        write_half(scale, out)
    })
}
