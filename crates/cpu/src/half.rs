//! f16 (IEEE 754 binary16), as blocks keep their scales.

/// Converts the bits of an f16.
pub fn from_half(half: u16) -> f32 {
    let sign = u32::from(half & 0x8000) << 16;
    let magnitude = u32::from(half & 0x7fff) << 13;
    // f16's exponents are biased by 112 less than f32's; those of infinities and NaNs by as much
    // again.
    let value = match half & 0x7c00 {
        0x7c00 => f32::from_bits(magnitude | 0x7f80_0000),
        _ => f32::from_bits(magnitude) * f32::from_bits((127 + 112) << 23),
    };
    f32::from_bits(value.to_bits() | sign)
}

#[cfg(test)]
mod tests {
    use conclave_weights::{Format, dequantise};

    use super::*;

    #[test]
    fn every_half_is_what_the_format_says() {
        for half in 0..=u16::MAX {
            let mut wanted = [0.0];
            dequantise(Format::F16, &half.to_le_bytes(), &mut wanted).unwrap();
            let found = from_half(half);
            assert!(found == wanted[0] || found.is_nan() && wanted[0].is_nan());
        }
    }
}
