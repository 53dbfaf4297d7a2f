//! Eight lanes in two vectors of wasm SIMD.

use std::arch::wasm32::*;

use super::Lanes;

/// The module was compiled with `simd128`.
#[derive(Debug, Clone, Copy)]
pub struct Simd128;

type Two = [v128; 2];

/// 2¹¹²: f16's exponents are that much further down in f32.
const FROM_HALF: f32 = 5.192_297e33;

// SAFETY, everywhere below: loads and stores need no alignment and stay within the arrays.
impl Lanes for Simd128 {
    type Words = Two;
    type Ints = Two;
    type Floats = Two;

    #[inline(always)]
    fn words(self, from: &[i8; 16]) -> Two {
        let from = from.as_ptr();
        unsafe {
            [
                i16x8_load_extend_i8x8(from),
                i16x8_load_extend_i8x8(from.add(8)),
            ]
        }
    }

    #[inline(always)]
    fn load_words(self, from: &[i16; 16]) -> Two {
        let from: *const v128 = from.as_ptr().cast();
        unsafe { [v128_load(from), v128_load(from.add(1))] }
    }

    #[inline(always)]
    fn nibbles(self, from: &[u8; 32]) -> [Two; 4] {
        let from: *const v128 = from.as_ptr().cast();
        let [a, b] = unsafe { [v128_load(from), v128_load(from.add(1))] };
        let mask = u16x8_splat(15);
        let nibble = |by: u32| {
            [
                v128_and(u16x8_shr(a, by), mask),
                v128_and(u16x8_shr(b, by), mask),
            ]
        };
        [
            [v128_and(a, mask), v128_and(b, mask)],
            nibble(4),
            nibble(8),
            [u16x8_shr(a, 12), u16x8_shr(b, 12)],
        ]
    }

    #[inline(always)]
    fn pair(self, pair: i32) -> Two {
        [i32x4_splat(pair); 2]
    }

    #[inline(always)]
    fn ints(self, value: i32) -> Two {
        [i32x4_splat(value); 2]
    }

    #[inline(always)]
    fn dot(self, sum: Two, a: Two, b: Two) -> Two {
        [
            i32x4_add(sum[0], i32x4_dot_i16x8(a[0], b[0])),
            i32x4_add(sum[1], i32x4_dot_i16x8(a[1], b[1])),
        ]
    }

    #[inline(always)]
    fn floats(self, value: f32) -> Two {
        [f32x4_splat(value); 2]
    }

    #[inline(always)]
    fn load(self, from: &[f32; 8]) -> Two {
        let from: *const v128 = from.as_ptr().cast();
        unsafe { [v128_load(from), v128_load(from.add(1))] }
    }

    #[inline(always)]
    fn store(self, values: Two, to: &mut [f32; 8]) {
        let to: *mut v128 = to.as_mut_ptr().cast();
        unsafe {
            v128_store(to, values[0]);
            v128_store(to.add(1), values[1]);
        }
    }

    #[inline(always)]
    fn halves(self, from: &[u16; 8]) -> Two {
        let from: *const i16 = from.as_ptr().cast();
        let (mask, factor) = (
            i32x4_splat(0x8fff_e000_u32.cast_signed()),
            f32x4_splat(FROM_HALF),
        );
        // Widened with its sign, a half shifted by 13 has sign, exponent and fraction in place.
        let widen = |from: *const i16| {
            let wide = unsafe { i32x4_load_extend_i16x4(from) };
            f32x4_mul(v128_and(i32x4_shl(wide, 13), mask), factor)
        };
        [widen(from), widen(unsafe { from.add(4) })]
    }

    #[inline(always)]
    fn of_ints(self, values: Two) -> Two {
        [
            f32x4_convert_i32x4(values[0]),
            f32x4_convert_i32x4(values[1]),
        ]
    }

    #[inline(always)]
    fn of_words(self, from: &[i16; 8]) -> Two {
        let from = from.as_ptr();
        let ints = unsafe {
            [
                i32x4_load_extend_i16x4(from),
                i32x4_load_extend_i16x4(from.add(4)),
            ]
        };
        self.of_ints(ints)
    }

    #[inline(always)]
    fn of_bytes(self, from: &[i8; 8]) -> Two {
        let words = unsafe { i16x8_load_extend_i8x8(from.as_ptr()) };
        let ints = [
            i32x4_extend_low_i16x8(words),
            i32x4_extend_high_i16x8(words),
        ];
        self.of_ints(ints)
    }

    #[inline(always)]
    fn nearest(self, values: Two) -> Two {
        [f32x4_nearest(values[0]), f32x4_nearest(values[1])]
    }

    #[inline(always)]
    fn power_of_two(self, n: Two) -> Two {
        let power = |n| {
            let n = i32x4_add(i32x4_trunc_sat_f32x4(n), i32x4_splat(127));
            i32x4_shl(n, 23)
        };
        [power(n[0]), power(n[1])]
    }

    #[inline(always)]
    fn least(self, a: Two, b: Two) -> Two {
        [f32x4_pmin(b[0], a[0]), f32x4_pmin(b[1], a[1])]
    }

    #[inline(always)]
    fn most(self, a: Two, b: Two) -> Two {
        [f32x4_pmax(b[0], a[0]), f32x4_pmax(b[1], a[1])]
    }

    #[inline(always)]
    fn plus(self, a: Two, b: Two) -> Two {
        [f32x4_add(a[0], b[0]), f32x4_add(a[1], b[1])]
    }

    #[inline(always)]
    fn over(self, a: Two, b: Two) -> Two {
        [f32x4_div(a[0], b[0]), f32x4_div(a[1], b[1])]
    }

    #[inline(always)]
    fn times(self, a: Two, b: Two) -> Two {
        [f32x4_mul(a[0], b[0]), f32x4_mul(a[1], b[1])]
    }

    #[inline(always)]
    fn times_add(self, sum: Two, a: Two, b: Two) -> Two {
        let product = self.times(a, b);
        [f32x4_add(sum[0], product[0]), f32x4_add(sum[1], product[1])]
    }
}
