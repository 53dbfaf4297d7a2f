//! f16 (IEEE 754 binary16), as the KV cache keeps its numbers.

/// The number that the bits of an f16 are.
pub fn from_half(half: u16) -> f32 {
    let sign = u32::from(half & 0x8000) << 16;
    let magnitude = u32::from(half & 0x7fff) << 13;
    // f16's exponents are 112 further down in f32; those of infinities and NaNs are as far again.
    let value = match half & 0x7c00 {
        0x7c00 => f32::from_bits(magnitude | 0x7f80_0000),
        _ => f32::from_bits(magnitude) * f32::from_bits((127 + 112) << 23),
    };
    f32::from_bits(value.to_bits() | sign)
}

/// The f16 nearest to `value`, ties to even; what is too large becomes the largest, 65504, so that
/// a key or value stays a number. NaN stays NaN.
pub fn to_half(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    let magnitude = f32::from_bits(bits & 0x7fff_ffff);
    if magnitude.is_nan() {
        return sign | 0x7e00;
    }
    let magnitude = magnitude.min(65504.0);
    let half = if magnitude < f32::from_bits((127 - 14) << 23) {
        // Steps of 2⁻²⁴: adding 1/2 leaves them in the sum's lowest bits, rounded.
        (magnitude + 0.5).to_bits() - 0.5f32.to_bits()
    } else {
        let bits = magnitude.to_bits() - ((127 - 15) << 23);
        (bits + 0xfff + (bits >> 13 & 1)) >> 13
    };
    sign | half as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_comes_back() {
        for half in 0..=u16::MAX {
            let value = from_half(half);
            if half & 0x7fff > 0x7c00 {
                assert!(value.is_nan() && from_half(to_half(value)).is_nan());
            } else if half & 0x7fff == 0x7c00 {
                assert!(value.is_infinite());
                assert_eq!(to_half(value), half - 1, "saturates");
            } else {
                assert_eq!(to_half(value), half, "{value}");
            }
        }
    }

    #[test]
    fn between_two_halves_the_nearer_wins_and_ties_go_to_even() {
        for half in [0u16, 1, 2, 0x3ff, 0x400, 0x401, 0x3c00, 0x3c01, 0x7bfe] {
            let (low, high) = (from_half(half), from_half(half + 1));
            let middle = f32::midpoint(low, high);
            assert_eq!(to_half(middle), half + half % 2, "{half:x}");
            assert_eq!(to_half(middle.next_down()), half);
            assert_eq!(to_half(middle.next_up()), half + 1);
            assert_eq!(to_half(-middle), 0x8000 | (half + half % 2));
        }
    }
}
