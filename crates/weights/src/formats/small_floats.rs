//! Conversions between floats of 16 or 8 bits and 32, by arithmetic without branches: every weight
//! of a model may pass through here while it loads, and compilers vectorise this, in wasm too.

/// Bits of an infinite f16; NaNs lie above.
const INFINITY: u32 = 0x7c00;

/// Converts the bits of an f16.
#[inline]
pub(crate) fn from_half(bits: u16) -> f32 {
    let bits = u32::from(bits);
    let (sign, magnitude) = ((bits & 0x8000) << 16, bits & 0x7fff);
    // The exponents' biases differ by 112. The product is exact, and normalises subnormals.
    let number = f32::from_bits(magnitude << 13) * f32::from_bits((127 + 112) << 23);
    let beyond = if magnitude >= INFINITY {
        0x7f80_0000
    } else {
        0
    };
    f32::from_bits(number.to_bits() | beyond | sign)
}

/// Converts the bits of a BF16.
#[inline]
pub(crate) fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Converts the bits of an 8-bit float (E4M3, without infinities).
pub(super) fn from_e4m3(bits: u8) -> f32 {
    let bits = u32::from(bits);
    let (sign, magnitude) = ((bits & 0x80) << 24, bits & 0x7f);
    // As above: the biases differ by 120.
    let number = f32::from_bits(magnitude << 20) * f32::from_bits((127 + 120) << 23);
    let nan = if magnitude == 0x7f { 0x7fc0_0000 } else { 0 };
    f32::from_bits(number.to_bits() | nan | sign)
}

/// Bits of the nearest f16, ties to even; infinite from 65520 on. `value` is not NaN.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the shifted magnitude is at most that of an infinite f16"
)]
pub(crate) fn to_half(value: f32) -> u16 {
    let bits = value.to_bits();
    let (sign, magnitude) = (bits >> 16 & 0x8000, bits & 0x7fff_ffff);
    // Adding half a step less one, plus one where the last bit kept is odd, rounds to even.
    let even = magnitude >> 13 & 1;
    let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + even) >> 13;
    // Near 0.5 a step of f32 is the step of subnormal f16s, so the sum rounds to it.
    let subnormal = (f32::from_bits(magnitude) + 0.5)
        .to_bits()
        .wrapping_sub(126 << 23);
    let half = if magnitude < 113 << 23 {
        subnormal
    } else {
        normal
    };
    let half = if magnitude >= 143 << 23 {
        INFINITY
    } else {
        half
    };
    (half | sign) as u16
}

/// Bits of the nearest BF16, ties to even; infinite where that is too large. `value` is not NaN.
pub(super) fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::{from_e4m3, from_half, to_bf16, to_half};

    #[test]
    fn numbers_round_to_the_nearest_and_to_even_between_two() {
        for bits in 0..0x7c00_u16 {
            // Exact in f64: two neighbours, and the midpoint between them.
            let here = from_half(bits);
            assert_eq!(to_half(here), bits);
            let next = if bits == 0x7bff {
                65536.0
            } else {
                from_half(bits + 1)
            };
            let between = (f64::from(here) + f64::from(next)) / 2.0;
            assert_eq!(f64::from(between as f32), between);
            let between = between as f32;
            assert_eq!(to_half(between), bits + (bits & 1), "{between}");
            assert_eq!(to_half(between.next_down()), bits, "{between}");
            assert_eq!(to_half(between.next_up()), bits + 1, "{between}");
            assert_eq!(to_half(-between.next_up()), 0x8000 | (bits + 1));
        }
        assert_eq!(
            (to_half(f32::MAX), to_half(f32::NEG_INFINITY)),
            (0x7c00, 0xfc00)
        );
        assert!(from_half(0x7c00) == f32::INFINITY && from_half(0xfc01).is_nan());
        for bits in 0..0x7f80_u16 {
            let here = f32::from_bits(u32::from(bits) << 16);
            assert_eq!(to_bf16(here), bits);
            let between = f32::from_bits(u32::from(bits) << 16 | 0x8000);
            assert_eq!(to_bf16(between), bits + (bits & 1));
            assert_eq!(to_bf16(-between.next_down()), 0x8000 | bits);
            assert_eq!(to_bf16(between.next_up()), bits + 1);
        }
    }

    #[test]
    fn every_8_bit_float_is_what_its_bits_say() {
        for bits in 0..=u8::MAX {
            let (exponent, mantissa) = (i32::from(bits >> 3 & 15), f32::from(bits & 7));
            let magnitude = match (exponent, bits & 7) {
                (15, 7) => f32::NAN,
                (0, _) => mantissa * 2.0_f32.powi(-9),
                _ => (8.0 + mantissa) * 2.0_f32.powi(exponent - 10),
            };
            let number = from_e4m3(bits);
            assert_eq!(number.is_sign_negative(), bits >> 7 == 1);
            assert_eq!(number.is_nan(), magnitude.is_nan());
            assert!(number.is_nan() || number.abs() == magnitude, "{bits}");
        }
        assert_eq!((from_e4m3(0x7e), from_e4m3(0x81)), (448.0, -0.001_953_125));
    }
}
