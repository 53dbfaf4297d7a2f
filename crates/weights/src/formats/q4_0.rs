//! Q4_0: blocks of 32 elements, an f16 scale `d` and 16 bytes of nibbles `q`: `x = d · (q − 8)`.
//! Byte `j` holds element `j` in its low and element `j + 16` in its high nibble.

use super::{read_half, write_half};
use crate::format::{Layout, largest};

pub(crate) const LAYOUT: Layout = Layout {
    name: "Q4_0",
    ggml_type: 2,
    block_elements: 32,
    block_bytes: 18,
    dequantise,
    quantise,
};

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    let (scale, quants) = bytes.split_at(2);
    let scale = read_half(scale);
    let (low, high) = out.split_at_mut(16);
    for ((low, high), quant) in low.iter_mut().zip(high).zip(quants) {
        *low = scale * (f32::from(quant & 15) - 8.0);
        *high = scale * (f32::from(quant >> 4) - 8.0);
    }
}

/// `d = x* / −8` where `x*` is the element of largest magnitude, sign kept, so that it becomes
/// exactly −8; `q = ⌊x / d + 8.5⌋`, at most 15. The sum is taken in f64: ggml's result depends on
/// whether the compiler fuses product and sum, and the `gguf` package settles it this way.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 0..=15 first"
)]
fn quantise(values: &[f32], out: &mut [u8]) -> bool {
    let scale = largest(values).1 / -8.0;
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    let nibble = |value: f32| (f64::from(value) * f64::from(inverse) + 8.5).clamp(0.0, 15.0) as u8;
    let (low, high) = values.split_at(16);
    for (out, (&low, &high)) in out[2..].iter_mut().zip(low.iter().zip(high)) {
        *out = nibble(low) | nibble(high) << 4;
    }
    write_half(scale, out)
}
