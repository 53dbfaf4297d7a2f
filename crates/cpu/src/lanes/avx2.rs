//! Eight lanes in one AVX2 vector, with the products of VNNI where the processor has them.

use std::arch::x86_64::*;

use super::avx512::Sixteen;
use super::{Lanes, Work};

/// Prefetches part `part` of `parts` equal ones of a `T` at two distances in bytes after `from`:
/// from memory into the second cache, which many loads may wait for at once, and from there into
/// the first.
#[inline(always)]
pub(super) fn prefetch<T>(from: *const T, part: usize, parts: usize) {
    const FROM_MEMORY: usize = 8192;
    const FROM_SECOND: usize = 1024;
    let bytes = size_of::<T>() / parts;
    let from = from.wrapping_byte_add(part * bytes);
    for line in (0..bytes).step_by(64) {
        let far = from.wrapping_byte_add(FROM_MEMORY + line);
        let near = from.wrapping_byte_add(FROM_SECOND + line);
        // SAFETY: it is harmless where there is no memory.
        unsafe {
            _mm_prefetch::<_MM_HINT_T1>(far.cast());
            _mm_prefetch::<_MM_HINT_T0>(near.cast());
        }
    }
}

/// Proof that the processor has AVX2, FMA and F16C, and the instructions of the level `VNNI`.
#[derive(Debug, Clone, Copy)]
pub struct Avx2<const VNNI: u8 = NONE>(());

/// Level of [`Avx2`]: a product and its addition to the sum are two instructions.
pub const NONE: u8 = 0;
/// Level of [`Avx2`]: one instruction of AVX-VNNI multiplies and adds.
pub const AVX_VNNI: u8 = 1;
/// Level of [`Avx2`]: one instruction of AVX-512 VNNI multiplies and adds, and there are 32
/// registers.
pub const AVX512_VNNI: u8 = 2;

/// Computes with the best of these vectors; returns the work if the processor has none.
pub fn run<W: Work>(work: W) -> Result<W::Out, W> {
    #[target_feature(enable = "avx2,fma,f16c")]
    fn plain<W: Work>(work: W) -> W::Out {
        work.with(Avx2::<NONE>(()))
    }
    #[target_feature(enable = "avx2,fma,f16c,avxvnni")]
    fn avx_vnni<W: Work>(work: W) -> W::Out {
        work.with(Avx2::<AVX_VNNI>(()))
    }
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512vl,avx512bw,avx512vnni")]
    fn avx512_vnni<W: Work>(work: W) -> W::Out {
        work.with(Avx2::<AVX512_VNNI>(()))
    }
    // SAFETY: the features were detected.
    unsafe {
        match level() {
            None => Err(work),
            Some(AVX512_VNNI) => Ok(avx512_vnni(work)),
            Some(AVX_VNNI) => Ok(avx_vnni(work)),
            Some(_) => Ok(plain(work)),
        }
    }
}

/// Whether [`run`] multiplies quads on this machine.
pub fn multiply_quads() -> bool {
    level() == Some(AVX512_VNNI)
}

/// This machine's best level of [`Avx2`]; `None` for a processor without AVX2, FMA and F16C.
fn level() -> Option<u8> {
    let avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c");
    let avx512_vnni = is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vnni");
    match avx2 {
        false => None,
        true if avx512_vnni => Some(AVX512_VNNI),
        true if is_x86_feature_detected!("avxvnni") => Some(AVX_VNNI),
        true => Some(NONE),
    }
}

// SAFETY, everywhere below: `self` proves that the processor has the instructions; loads and stores
// are unaligned and of exactly the arrays' sizes.
impl<const VNNI: u8> Lanes for Avx2<VNNI> {
    const REGISTERS: usize = if VNNI == AVX512_VNNI { 32 } else { 16 };
    const QUADS: bool = VNNI == AVX512_VNNI;

    type Words = __m256i;
    type Ints = __m256i;
    type Floats = __m256;
    type Wide = Sixteen;
    const WIDENS: usize = if VNNI == AVX512_VNNI { usize::MAX } else { 0 };

    #[inline(always)]
    fn rolls(turns: usize, rows: usize) -> bool {
        // Two turns are faster unrolled.
        Self::REGISTERS == 16 && rows > 1 && turns > 2
    }

    #[inline(always)]
    unsafe fn wide<T>(self, first: &[T], second: &[T]) -> Sixteen {
        assert!(Self::WIDENS > 0);
        // SAFETY: the processor has the instructions, and the caller promises the rest.
        unsafe { Sixteen::new(first, second) }
    }

    #[inline(always)]
    fn prefetch<T>(self, from: &T, part: usize, parts: usize) {
        prefetch(from, part, parts);
    }

    #[inline(always)]
    fn turns(self, turns: usize) -> usize {
        std::hint::black_box(turns)
    }

    #[inline(always)]
    fn widen(self, from: &[i8; 16]) -> __m256i {
        unsafe { _mm256_cvtepi8_epi16(_mm_loadu_si128(from.as_ptr().cast())) }
    }

    #[inline(always)]
    fn load_words(self, from: &[i16; 16]) -> __m256i {
        unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
    }

    #[inline(always)]
    fn load_bytes(self, from: &[u8; 32]) -> __m256i {
        unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
    }

    #[inline(always)]
    fn bits(self, bytes: __m256i, at: usize, mask: u8, to: usize) -> __m256i {
        // All but the bytes are constants by the time this is an instruction.
        unsafe {
            // One shift: the mask removes bits of the other byte.
            let moved = if at < to {
                _mm256_sll_epi16(bytes, _mm_cvtsi64_si128((to - at) as i64))
            } else {
                _mm256_srl_epi16(bytes, _mm_cvtsi64_si128((at - to) as i64))
            };
            _mm256_and_si256(moved, _mm256_set1_epi8((mask << to).cast_signed()))
        }
    }

    #[inline(always)]
    fn field(self, words: __m256i, at: usize, mask: u16) -> __m256i {
        unsafe {
            let moved = _mm256_srl_epi16(words, _mm_cvtsi64_si128(at as i64));
            _mm256_and_si256(moved, _mm256_set1_epi16(mask.cast_signed()))
        }
    }

    #[inline(always)]
    fn or(self, a: __m256i, b: __m256i) -> __m256i {
        unsafe { _mm256_or_si256(a, b) }
    }

    #[inline(always)]
    fn look_up(self, table: &[u8; 16], bytes: __m256i) -> __m256i {
        unsafe {
            let table = _mm_loadu_si128(table.as_ptr().cast());
            _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), bytes)
        }
    }

    #[inline(always)]
    fn split(self, bytes: __m256i) -> [__m256i; 2] {
        unsafe {
            [
                _mm256_and_si256(bytes, _mm256_set1_epi16(0xff)),
                _mm256_srli_epi16::<8>(bytes),
            ]
        }
    }

    #[inline(always)]
    fn pair(self, pair: i32) -> __m256i {
        unsafe { _mm256_set1_epi32(pair) }
    }

    #[inline(always)]
    fn ints(self, value: i32) -> __m256i {
        unsafe { _mm256_set1_epi32(value) }
    }

    #[inline(always)]
    fn dot(self, sum: __m256i, a: __m256i, b: __m256i) -> __m256i {
        unsafe {
            match VNNI {
                AVX512_VNNI => _mm256_dpwssd_epi32(sum, a, b),
                AVX_VNNI => _mm256_dpwssd_avx_epi32(sum, a, b),
                _ => _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)),
            }
        }
    }

    #[inline(always)]
    fn quad(self, sum: __m256i, a: __m256i, b: i32) -> __m256i {
        // Without VNNI there are two instructions, slower than products of pairs. No sum of two
        // saturates: 2 · 127 · 128 < 2¹⁵.
        unsafe {
            if VNNI == AVX512_VNNI {
                return _mm256_dpbusd_epi32(sum, a, _mm256_set1_epi32(b));
            }
            let pairs = _mm256_maddubs_epi16(a, _mm256_set1_epi32(b));
            _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
        }
    }

    #[inline(always)]
    fn with_low(self, a: __m256i, b: __m256i) -> __m256i {
        unsafe { _mm256_add_epi32(_mm256_slli_epi32(a, 8), b) }
    }

    #[inline(always)]
    fn floats(self, value: f32) -> __m256 {
        unsafe { _mm256_set1_ps(value) }
    }

    #[inline(always)]
    fn load(self, from: &[f32; 8]) -> __m256 {
        unsafe { _mm256_loadu_ps(from.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, values: __m256, to: &mut [f32; 8]) {
        unsafe { _mm256_storeu_ps(to.as_mut_ptr(), values) }
    }

    #[inline(always)]
    fn load_f16(self, from: &[u16; 8]) -> __m256 {
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.as_ptr().cast())) }
    }

    #[inline(always)]
    fn load_bf16(self, from: &[u16; 8]) -> __m256 {
        unsafe {
            let bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.as_ptr().cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(bits))
        }
    }

    #[inline(always)]
    fn to_floats(self, values: __m256i) -> __m256 {
        unsafe { _mm256_cvtepi32_ps(values) }
    }

    #[inline(always)]
    fn load_i16(self, from: &[i16; 8]) -> __m256 {
        unsafe {
            let words = _mm_loadu_si128(from.as_ptr().cast());
            _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(words))
        }
    }

    #[inline(always)]
    fn load_i8(self, from: &[i8; 8]) -> __m256 {
        unsafe {
            let bytes = _mm_loadl_epi64(from.as_ptr().cast());
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes))
        }
    }

    #[inline(always)]
    fn load_nibbles(self, from: &[u8; 8]) -> [__m256; 2] {
        unsafe {
            let bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(from.as_ptr().cast()));
            [
                _mm256_cvtepi32_ps(_mm256_and_si256(bytes, _mm256_set1_epi32(15))),
                _mm256_cvtepi32_ps(_mm256_srli_epi32::<4>(bytes)),
            ]
        }
    }

    #[inline(always)]
    fn nearest(self, values: __m256) -> __m256 {
        unsafe { _mm256_round_ps::<0x08>(values) }
    }

    #[inline(always)]
    fn round(self, [first, second]: [__m256; 2]) -> __m256i {
        unsafe {
            let (first, second) = (_mm256_cvtps_epi32(first), _mm256_cvtps_epi32(second));
            // Each half of the packed vector has words of both.
            _mm256_permute4x64_epi64::<0b1101_1000>(_mm256_packs_epi32(first, second))
        }
    }

    #[inline(always)]
    fn store_pairs(self, words: __m256i, to: &mut [i32; 8]) {
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), words) }
    }

    #[inline(always)]
    fn power_of_two(self, n: __m256) -> __m256 {
        unsafe {
            let n = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(n))
        }
    }

    #[inline(always)]
    fn min(self, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_min_ps(a, b) }
    }

    #[inline(always)]
    fn max(self, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_max_ps(a, b) }
    }

    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_add_ps(a, b) }
    }

    #[inline(always)]
    fn div(self, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_div_ps(a, b) }
    }

    #[inline(always)]
    fn mul(self, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_mul_ps(a, b) }
    }

    #[inline(always)]
    fn mul_add(self, sum: __m256, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_fmadd_ps(a, b, sum) }
    }
}
