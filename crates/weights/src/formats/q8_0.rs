//! Q8_0: blocks of 32 elements, an f16 scale `d` and 32 signed bytes `q`: `x = d · q`.

use super::{each_block, read_half, write_each_block, write_half};
use crate::format::{Layout, largest_magnitude};

pub(crate) const LAYOUT: Layout = Layout {
    name: "Q8_0",
    ggml_type: Some(8),
    block_elements: 32,
    block_bytes: 34,
    halves: &[0],
    grid: &[],
    dequantise,
    quantise: Some(quantise),
};

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    each_block(bytes, out, |bytes: &[u8; 34], out: &mut [f32; 32]| {
        let (scale, quants) = bytes.split_at(2);
        let scale = read_half(scale);
        for (out, quant) in out.iter_mut().zip(quants) {
            *out = scale * f32::from(quant.cast_signed());
        }
    });
}

/// `d = max|x| / 127`, `q = round(x / d)`, halves away from zero; the division uses the scale
/// before it is rounded to f16, as ggml's reference does.
#[expect(
    clippy::cast_possible_truncation,
    reason = "|x / d| is at most 127, and the cast saturates"
)]
fn quantise(values: &[f32], out: &mut [u8]) -> Result<(), usize> {
    write_each_block(values, out, |values: &[f32; 32], out: &mut [u8; 34]| {
        let scale = largest_magnitude(values) / 127.0;
        // Numbers so small that their scale has no inverse have none in f16 either.
        let inverse = Some(1.0 / scale).filter(|inverse| inverse.is_finite());
        let inverse = inverse.unwrap_or_default();
        for (out, value) in out[2..].iter_mut().zip(values) {
            *out = (round(value * inverse) as i8).cast_unsigned();
        }
        write_half(scale, out)
    })
}

/// `f32::round`, for numbers of at most 127: that calls a library where this becomes vectors.
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
