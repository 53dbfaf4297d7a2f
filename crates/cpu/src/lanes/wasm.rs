//! Eight lanes in two vectors of wasm SIMD.

use std::arch::wasm32::*;
use std::hint::black_box;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use super::both::Both;
use super::{Lanes, Work};
use crate::exp::ROUND;

/// Requires a module compiled with `simd128`. `QUADS` use an instruction of relaxed SIMD, checked
/// by [`multiply_quads`].
#[derive(Debug, Clone, Copy)]
pub struct Simd128<const QUADS: bool> {
    /// Limit on the turns of a loop: more than any loop has.
    turns: usize,
}

/// Limit on the turns of a loop. It is loaded for each product, so that the compiler does not know
/// it.
static TURNS: AtomicUsize = AtomicUsize::new(usize::MAX);

pub fn run<W: Work>(work: W) -> W::Out {
    #[target_feature(enable = "relaxed-simd")]
    fn relaxed<W: Work>(work: W, turns: usize) -> W::Out {
        work.with(Simd128::<true> { turns })
    }
    let turns = TURNS.load(Ordering::Relaxed);
    if W::QUADS && (!W::PAIRS || multiply_quads()) {
        return relaxed(work, turns);
    }
    work.with(Simd128::<false> { turns })
}

/// Whether the module has the product of quads, and the processor an instruction for it.
///
/// WebAssembly leaves products with bytes above 127 undefined, so that the result shows the
/// implementation. One instruction multiplies four bytes, as unsigned (AVX-VNNI) or signed numbers
/// (Arm). Elsewhere there are three instructions, whose 16-bit sums saturate (SSSE3), and two of
/// these products are slower than products of pairs. A file with the instruction removed returns
/// the bytes themselves.
pub fn multiply_quads() -> bool {
    const UNKNOWN: u8 = 2;
    static FOUND: AtomicU8 = AtomicU8::new(UNKNOWN);
    #[target_feature(enable = "relaxed-simd")]
    fn product(a: i32, b: i32) -> i32 {
        let (a, b) = (i32x4_splat(a), i32x4_splat(b));
        i32x4_extract_lane::<0>(i32x4_relaxed_dot_i8x16_i7x16_add(a, b, i32x4_splat(0)))
    }
    let found = FOUND.load(Ordering::Relaxed);
    if found != UNKNOWN {
        return found == 1;
    }
    let product = product(black_box(0x7f7f_7f7f), black_box(-1));
    let found = product == 4 * 127 * 255 || product == -4 * 127;
    FOUND.store(found.into(), Ordering::Relaxed);
    found
}

type Two = [v128; 2];

/// 2¹¹², the difference of f16's and f32's exponent biases.
const FROM_HALF: f32 = 5.192_297e33;

// SAFETY, everywhere below: loads and stores need no alignment and stay within the arrays.
impl<const QUADS: bool> Lanes for Simd128<QUADS> {
    const QUADS: bool = QUADS;
    const UNPACKS: bool = true;

    type Words = Two;
    type Ints = Two;
    type Floats = Two;
    type Wide = Both<Self>;
    const WIDENS: usize = 1;

    #[inline(always)]
    fn rolls(turns: usize, _rows: usize) -> bool {
        turns > 4
    }

    #[inline(always)]
    fn apart<W: Work>(self, work: W) -> W::Out {
        #[inline(never)]
        fn plain<W: Work>(work: W, lanes: impl Lanes) -> W::Out {
            work.with(lanes)
        }
        #[inline(never)]
        #[target_feature(enable = "relaxed-simd")]
        fn relaxed<W: Work>(work: W, lanes: impl Lanes) -> W::Out {
            work.with(lanes)
        }
        if QUADS {
            relaxed(work, self)
        } else {
            plain(work, self)
        }
    }

    #[inline(always)]
    unsafe fn wide<T>(self, first: &[T], second: &[T]) -> Both<Self> {
        // SAFETY: the caller promises it.
        unsafe { Both::new(self, first, second) }
    }

    #[inline(always)]
    fn narrow(self, words: Two, less: u8, to: &mut [i8; 16]) {
        let less = i16x8_splat(less.into());
        let bytes = i8x16_narrow_i16x8(i16x8_sub(words[0], less), i16x8_sub(words[1], less));
        unsafe { v128_store(to.as_mut_ptr().cast(), bytes) }
    }

    #[inline(always)]
    fn store_bytes(self, bytes: Two, to: &mut [u8; 32]) {
        let to: *mut v128 = to.as_mut_ptr().cast();
        unsafe {
            v128_store(to, bytes[0]);
            v128_store(to.add(1), bytes[1]);
        }
    }

    #[inline(always)]
    fn widen(self, from: &[i8; 16]) -> Two {
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
    fn load_bytes(self, from: &[u8; 32]) -> Two {
        let from: *const v128 = from.as_ptr().cast();
        unsafe { [v128_load(from), v128_load(from.add(1))] }
    }

    #[inline(always)]
    fn bits(self, bytes: Two, at: usize, mask: u8, to: usize) -> Two {
        // All but the bytes are constants by the time this is an instruction.
        let mask = u8x16_splat(mask);
        let bits = |all| u16x8_shl(v128_and(u16x8_shr(all, at as u32), mask), to as u32);
        [bits(bytes[0]), bits(bytes[1])]
    }

    #[inline(always)]
    fn field(self, words: Two, at: usize, mask: u16) -> Two {
        // Shifts by 0 and masks of all bits are no instructions.
        let field = |all| v128_and(u16x8_shr(all, at as u32), u16x8_splat(mask));
        [field(words[0]), field(words[1])]
    }

    #[inline(always)]
    fn or(self, a: Two, b: Two) -> Two {
        [v128_or(a[0], b[0]), v128_or(a[1], b[1])]
    }

    #[inline(always)]
    fn look_up(self, table: &[u8; 16], bytes: Two) -> Two {
        let table = unsafe { v128_load(table.as_ptr().cast()) };
        [
            u8x16_swizzle(table, bytes[0]),
            u8x16_swizzle(table, bytes[1]),
        ]
    }

    #[inline(always)]
    fn split(self, bytes: Two) -> [Two; 2] {
        let mask = u16x8_splat(0xff);
        [
            [v128_and(bytes[0], mask), v128_and(bytes[1], mask)],
            [u16x8_shr(bytes[0], 8), u16x8_shr(bytes[1], 8)],
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
    fn quad(self, sum: Two, a: Two, b: i32) -> Two {
        let b = i32x4_splat(b);
        [
            i32x4_relaxed_dot_i8x16_i7x16_add(b, a[0], sum[0]),
            i32x4_relaxed_dot_i8x16_i7x16_add(b, a[1], sum[1]),
        ]
    }

    #[inline(always)]
    fn with_low(self, a: Two, b: Two) -> Two {
        [
            i32x4_add(i32x4_shl(a[0], 8), b[0]),
            i32x4_add(i32x4_shl(a[1], 8), b[1]),
        ]
    }

    #[inline(always)]
    fn turns(self, turns: usize) -> usize {
        turns.min(self.turns)
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
    fn load_f16(self, from: &[u16; 8]) -> Two {
        let from: *const i16 = from.as_ptr().cast();
        let (mask, factor) = (
            i32x4_splat(0x8fff_e000_u32.cast_signed()),
            f32x4_splat(FROM_HALF),
        );
        // Widened with its sign, an f16 shifted by 13 has sign, exponent and fraction in place.
        let widen = |from: *const i16| {
            let wide = unsafe { i32x4_load_extend_i16x4(from) };
            f32x4_mul(v128_and(i32x4_shl(wide, 13), mask), factor)
        };
        [widen(from), widen(unsafe { from.add(4) })]
    }

    #[inline(always)]
    fn load_bf16(self, from: &[u16; 8]) -> Two {
        let from = from.as_ptr();
        let widen = |from| i32x4_shl(unsafe { u32x4_load_extend_u16x4(from) }, 16);
        [widen(from), widen(unsafe { from.add(4) })]
    }

    #[inline(always)]
    fn to_floats(self, values: Two) -> Two {
        [
            f32x4_convert_i32x4(values[0]),
            f32x4_convert_i32x4(values[1]),
        ]
    }

    #[inline(always)]
    fn load_i16(self, from: &[i16; 8]) -> Two {
        let from = from.as_ptr();
        let ints = unsafe {
            [
                i32x4_load_extend_i16x4(from),
                i32x4_load_extend_i16x4(from.add(4)),
            ]
        };
        self.to_floats(ints)
    }

    #[inline(always)]
    fn load_i8(self, from: &[i8; 8]) -> Two {
        let words = unsafe { i16x8_load_extend_i8x8(from.as_ptr()) };
        let ints = [
            i32x4_extend_low_i16x8(words),
            i32x4_extend_high_i16x8(words),
        ];
        self.to_floats(ints)
    }

    #[inline(always)]
    fn load_nibbles(self, from: &[u8; 8]) -> [Two; 2] {
        let words = unsafe { u16x8_load_extend_u8x8(from.as_ptr()) };
        let nibbles = |words| {
            let ints = [
                u32x4_extend_low_u16x8(words),
                u32x4_extend_high_u16x8(words),
            ];
            self.to_floats(ints)
        };
        [
            nibbles(v128_and(words, u16x8_splat(15))),
            nibbles(u16x8_shr(words, 4)),
        ]
    }

    #[inline(always)]
    fn nearest(self, values: Two) -> Two {
        [f32x4_nearest(values[0]), f32x4_nearest(values[1])]
    }

    #[inline(always)]
    fn round(self, values: [Two; 2]) -> Two {
        // The conversion of f32 to i32 is some ten instructions on x86-64.
        let (number, bits) = (
            f32x4_splat(ROUND),
            i32x4_splat(ROUND.to_bits().cast_signed()),
        );
        let round = |value| i32x4_sub(f32x4_add(value, number), bits);
        let [[a, b], [c, d]] = values;
        [
            i16x8_narrow_i32x4(round(a), round(b)),
            i16x8_narrow_i32x4(round(c), round(d)),
        ]
    }

    #[inline(always)]
    fn store_pairs(self, words: Two, to: &mut [i32; 8]) {
        let to: *mut v128 = to.as_mut_ptr().cast();
        unsafe {
            v128_store(to, words[0]);
            v128_store(to.add(1), words[1]);
        }
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
    fn min(self, a: Two, b: Two) -> Two {
        [f32x4_pmin(b[0], a[0]), f32x4_pmin(b[1], a[1])]
    }

    #[inline(always)]
    fn max(self, a: Two, b: Two) -> Two {
        [f32x4_pmax(b[0], a[0]), f32x4_pmax(b[1], a[1])]
    }

    #[inline(always)]
    fn add(self, a: Two, b: Two) -> Two {
        [f32x4_add(a[0], b[0]), f32x4_add(a[1], b[1])]
    }

    #[inline(always)]
    fn div(self, a: Two, b: Two) -> Two {
        [f32x4_div(a[0], b[0]), f32x4_div(a[1], b[1])]
    }

    #[inline(always)]
    fn mul(self, a: Two, b: Two) -> Two {
        [f32x4_mul(a[0], b[0]), f32x4_mul(a[1], b[1])]
    }

    #[inline(always)]
    fn mul_add(self, sum: Two, a: Two, b: Two) -> Two {
        let product = self.mul(a, b);
        [f32x4_add(sum[0], product[0]), f32x4_add(sum[1], product[1])]
    }
}
