//! Floats of 16 and 8 bits to 32 and back, by arithmetic without branches: a model's every weight
//! may pass through here while it loads, and so compilers make vectors of it, in wasm too.

/// Bits of an infinite f16; NaNs lie above.
const INFINITY: u32 = 0x7c00;

/// The number that the bits of an f16 stand for.
#[inline]
pub(crate) fn from_half(bits: u16) -> f32 {
    let bits = u32::from(bits);
    let (sign, magnitude) = ((bits & 0x8000) << 16, bits & 0x7fff);
    // The exponent's bias differs by 112. The product is exact, and normalises what is subnormal.
    let number = f32::from_bits(magnitude << 13) * f32::from_bits((127 + 112) << 23);
    let beyond = if magnitude >= INFINITY {
        0x7f80_0000
    } else {
        0
    };
    f32::from_bits(number.to_bits() | beyond | sign)
}

/// The number that the bits of a BF16 stand for.
#[inline]
pub(crate) fn from_brain(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The number that the bits of an 8-bit float (E4M3, without infinities) stand for.
pub(super) fn from_e4m3(bits: u8) -> f32 {
    let bits = u32::from(bits);
    let (sign, magnitude) = ((bits & 0x80) << 24, bits & 0x7f);
    // As above: the exponent's bias differs by 120.
    let number = f32::from_bits(magnitude << 20) * f32::from_bits((127 + 120) << 23);
    let nan = if magnitude == 0x7f { 0x7fc0_0000 } else { 0 };
    f32::from_bits(number.to_bits() | nan | sign)
}

/// The bits of the nearest f16, of the even one where two are near; infinite from 65520 on.
/// `value` is no NaN.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the shifted magnitude is at most that of an infinite f16"
)]
pub(crate) fn to_half(value: f32) -> u16 {
    let bits = value.to_bits();
    let (sign, magnitude) = (bits >> 16 & 0x8000, bits & 0x7fff_ffff);
    // Adding half a step less one, and one more where the last bit kept is odd, rounds to even.
    let even = magnitude >> 13 & 1;
    let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + even) >> 13;
    // Next to 0.5 a step of f32 is the step of subnormal f16s, so that the sum rounds to it.
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

/// The bits of the nearest BF16, of the even one where two are near; infinite where the nearest
/// would be too large. `value` is no NaN.
pub(super) fn to_brain(value: f32) -> u16 {
    let bits = value.to_bits();
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::{from_e4m3, from_half, to_brain, to_half};

    #[test]
    fn numbers_round_to_the_nearest_and_to_even_between_two() {
        for bits in 0..0x7c00_u16 {
            // Exact in f64: neighbours, and the number between them.
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
            assert_eq!(to_brain(here), bits);
            let between = f32::from_bits(u32::from(bits) << 16 | 0x8000);
            assert_eq!(to_brain(between), bits + (bits & 1));
            assert_eq!(to_brain(-between.next_down()), 0x8000 | bits);
            assert_eq!(to_brain(between.next_up()), bits + 1);
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
