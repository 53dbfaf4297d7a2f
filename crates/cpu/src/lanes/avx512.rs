//! Sixteen lanes in one AVX-512 vector, for products with two groups of eight rows at once.

use std::arch::x86_64::*;

use super::avx2::prefetch;
use super::{Groups, Lanes};

/// Proof that the processor has AVX-512 F, BW, VL and VNNI. A load takes eight numbers of the first
/// group, and those at the same place of the second for the upper lanes.
#[derive(Debug, Clone, Copy)]
pub struct Sixteen(Groups);

impl Sixteen {
    /// # Safety
    /// The processor has these instructions, and the rest as [`Lanes::wide`] says.
    #[inline(always)]
    pub unsafe fn new<T>(first: &[T], second: &[T]) -> Self {
        Self(Groups::new(first, second))
    }

    /// 8 bytes of both groups.
    #[inline(always)]
    fn load_64<T>(self, from: &T) -> __m128i {
        const { assert!(size_of::<T>() == 8) };
        // SAFETY: see below.
        unsafe {
            let lower = _mm_loadl_epi64(std::ptr::from_ref(from).cast());
            _mm_unpacklo_epi64(lower, _mm_loadl_epi64(self.0.second(from).cast()))
        }
    }

    /// 16 bytes of both groups.
    #[inline(always)]
    fn load_128<T>(self, from: &T) -> __m256i {
        const { assert!(size_of::<T>() == 16) };
        // SAFETY: see below.
        unsafe { _mm256_loadu2_m128i(self.0.second(from).cast(), std::ptr::from_ref(from).cast()) }
    }

    /// 32 bytes of both groups.
    #[inline(always)]
    fn load_256<T>(self, from: &T) -> __m512i {
        const { assert!(size_of::<T>() == 32) };
        // SAFETY: see below.
        unsafe {
            let lower = _mm256_loadu_si256(std::ptr::from_ref(from).cast());
            let upper = _mm256_loadu_si256(self.0.second(from).cast());
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(lower), upper)
        }
    }
}

// SAFETY, everywhere: `self` proves that the processor has the instructions; loads and stores are
// unaligned and of exactly the arrays' sizes, and the second group has the place of every load, by
// the contract of `new`.
impl Lanes for Sixteen {
    const REGISTERS: usize = 32;
    const WIDE: bool = true;
    const QUADS: bool = true;

    type Words = __m512i;
    type Ints = __m512i;
    type Floats = __m512;
    type Wide = Self;

    #[inline(always)]
    fn prefetch<T>(self, from: &T, part: usize, parts: usize) {
        prefetch(from, part, parts);
        prefetch(self.0.second(from), part, parts);
    }

    #[inline(always)]
    fn upper(self, values: __m512) -> __m512 {
        unsafe { _mm512_shuffle_f32x4::<0b1110>(values, values) }
    }

    #[inline(always)]
    fn load_words(self, from: &[i16; 16]) -> __m512i {
        self.load_256(from)
    }

    #[inline(always)]
    fn widen(self, from: &[i8; 16]) -> __m512i {
        unsafe { _mm512_cvtepi8_epi16(self.load_128(from)) }
    }

    #[inline(always)]
    fn load_bytes(self, from: &[u8; 32]) -> __m512i {
        self.load_256(from)
    }

    #[inline(always)]
    fn bits(self, bytes: __m512i, at: usize, mask: u8, to: usize) -> __m512i {
        // All but the bytes are constants by the time this is an instruction.
        unsafe {
            // One shift: the mask removes bits of the other byte.
            let moved = if at < to {
                _mm512_sll_epi16(bytes, _mm_cvtsi64_si128((to - at) as i64))
            } else {
                _mm512_srl_epi16(bytes, _mm_cvtsi64_si128((at - to) as i64))
            };
            _mm512_and_si512(moved, _mm512_set1_epi8((mask << to).cast_signed()))
        }
    }

    #[inline(always)]
    fn field(self, words: __m512i, at: usize, mask: u16) -> __m512i {
        unsafe {
            let moved = _mm512_srl_epi16(words, _mm_cvtsi64_si128(at as i64));
            _mm512_and_si512(moved, _mm512_set1_epi16(mask.cast_signed()))
        }
    }

    #[inline(always)]
    fn or(self, a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_or_si512(a, b) }
    }

    #[inline(always)]
    fn look_up(self, table: &[u8; 16], bytes: __m512i) -> __m512i {
        unsafe {
            let table = _mm_loadu_si128(table.as_ptr().cast());
            _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), bytes)
        }
    }

    #[inline(always)]
    fn split(self, bytes: __m512i) -> [__m512i; 2] {
        unsafe {
            [
                _mm512_and_si512(bytes, _mm512_set1_epi16(0xff)),
                _mm512_srli_epi16::<8>(bytes),
            ]
        }
    }

    #[inline(always)]
    fn pair(self, pair: i32) -> __m512i {
        unsafe { _mm512_set1_epi32(pair) }
    }

    #[inline(always)]
    fn ints(self, value: i32) -> __m512i {
        unsafe { _mm512_set1_epi32(value) }
    }

    #[inline(always)]
    fn dot(self, sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_dpwssd_epi32(sum, a, b) }
    }

    #[inline(always)]
    fn quad(self, sum: __m512i, a: __m512i, b: i32) -> __m512i {
        unsafe { _mm512_dpbusd_epi32(sum, a, _mm512_set1_epi32(b)) }
    }

    #[inline(always)]
    fn with_low(self, a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_add_epi32(_mm512_slli_epi32::<8>(a), b) }
    }

    #[inline(always)]
    fn load_i16(self, from: &[i16; 8]) -> __m512 {
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(self.load_128(from))) }
    }

    #[inline(always)]
    fn floats(self, value: f32) -> __m512 {
        unsafe { _mm512_set1_ps(value) }
    }

    #[inline(always)]
    fn load(self, from: &[f32; 8]) -> __m512 {
        unsafe { _mm512_castsi512_ps(self.load_256(from)) }
    }

    #[inline(always)]
    fn store(self, values: __m512, to: &mut [f32; 8]) {
        unsafe { _mm256_storeu_ps(to.as_mut_ptr(), _mm512_castps512_ps256(values)) }
    }

    #[inline(always)]
    fn load_f16(self, from: &[u16; 8]) -> __m512 {
        unsafe { _mm512_cvtph_ps(self.load_128(from)) }
    }

    #[inline(always)]
    fn load_bf16(self, from: &[u16; 8]) -> __m512 {
        unsafe {
            let bits = _mm512_cvtepu16_epi32(self.load_128(from));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits))
        }
    }

    #[inline(always)]
    fn to_floats(self, values: __m512i) -> __m512 {
        unsafe { _mm512_cvtepi32_ps(values) }
    }

    #[inline(always)]
    fn load_i8(self, from: &[i8; 8]) -> __m512 {
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(self.load_64(from))) }
    }

    #[inline(always)]
    fn load_nibbles(self, from: &[u8; 8]) -> [__m512; 2] {
        unsafe {
            let bytes = _mm512_cvtepu8_epi32(self.load_64(from));
            [
                _mm512_cvtepi32_ps(_mm512_and_si512(bytes, _mm512_set1_epi32(15))),
                _mm512_cvtepi32_ps(_mm512_srli_epi32::<4>(bytes)),
            ]
        }
    }

    #[inline(always)]
    fn nearest(self, values: __m512) -> __m512 {
        unsafe { _mm512_roundscale_ps::<0x08>(values) }
    }

    #[inline(always)]
    fn power_of_two(self, n: __m512) -> __m512 {
        unsafe {
            let n = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
            _mm512_castsi512_ps(_mm512_slli_epi32::<23>(n))
        }
    }

    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_min_ps(a, b) }
    }

    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_max_ps(a, b) }
    }

    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_add_ps(a, b) }
    }

    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_div_ps(a, b) }
    }

    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_mul_ps(a, b) }
    }

    #[inline(always)]
    fn mul_add(self, sum: __m512, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_fmadd_ps(a, b, sum) }
    }
}
