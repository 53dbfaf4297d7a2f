//! Q8_0: blocks of 32 elements, an f16 scale `d` and 32 signed bytes `q`: `x = d · q`.

use super::{write_each_block, write_half};
use crate::format::largest_magnitude;
use crate::quantised::{Bits, Levels, Plane, Quantised, RUN, Scale, Writer};

/// The block format Q8_0.
#[derive(Debug, Clone, Copy)]
pub struct Q8_0;

impl Quantised for Q8_0 {
    const NAME: &'static str = "Q8_0";
    const GGML_TYPE: u32 = 8;
    const ELEMENTS: usize = 32;
    const BYTES: usize = 34;
    const HALVES: &'static [usize] = &[0];
    const LEVELS: Levels = Levels::Offset(128);
    const PLANES: &'static [Plane] = &[Plane::Stored(&[(2, 32)]), Plane::Stored(&[(0, 2)])];
    const QUANTISE: Option<Writer> = Some(quantise);
    type Codes = Bits<8>;
    type Scaling = Scale;

    #[inline(always)]
    fn codes(block: &[u8], _run: usize) -> [u8; RUN] {
        let mut codes = [0; RUN];
        for (code, level) in codes.iter_mut().zip(&block[2..][..RUN]) {
            *code = level ^ 0x80;
        }
        codes
    }
}

/// `d = max|x| / 127`, `q = round(x / d)`, halves away from zero; divides by the scale before
/// rounding it to f16, as ggml's reference does.
#[expect(
    clippy::cast_possible_truncation,
    reason = "|x / d| is at most 127, and the cast saturates"
)]
fn quantise(values: &[f32], out: &mut [u8]) -> Result<(), usize> {
    write_each_block(values, out, |values: &[f32; 32], out: &mut [u8; 34]| {
        let scale = largest_magnitude(values) / 127.0;
        // A scale too small to have an inverse is zero in f16 too.
        let inverse = Some(1.0 / scale).filter(|inverse| inverse.is_finite());
        let inverse = inverse.unwrap_or_default();
        for (out, value) in out[2..].iter_mut().zip(values) {
            *out = (round(value * inverse) as i8).cast_unsigned();
        }
        write_half(scale, out)
    })
}

/// `f32::round` for magnitudes of at most 127; `round` itself is a library call, which prevents
/// vectorisation.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "whole numbers of at most 127"
)]
fn round(number: f32) -> i32 {
    let whole = number as i32;
    let rest = number - whole as f32;
    whole + i32::from(rest >= 0.5) - i32::from(rest <= -0.5)
}
