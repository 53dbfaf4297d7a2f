//! Eight lanes as arrays: for every machine, and the reference in tests of the vectors.

use super::Lanes;
use super::both::Both;
use crate::half::from_half;

/// Arrays, with products of pairs or of `QUADS`.
#[derive(Debug, Clone, Copy)]
pub struct Plain<const QUADS: bool>;

impl<const QUADS: bool> Lanes for Plain<QUADS> {
    const QUADS: bool = QUADS;
    // As wasm's vectors do, in tests.
    const UNPACKS: bool = cfg!(test);
    const WIDENS: usize = cfg!(test) as usize;

    type Words = [i16; 16];
    type Ints = [i32; 8];
    type Floats = [f32; 8];
    type Wide = Both<Self>;

    #[inline(always)]
    unsafe fn wide<T>(self, first: &[T], second: &[T]) -> Both<Self> {
        // SAFETY: the caller promises it.
        unsafe { Both::new(self, first, second) }
    }

    #[inline(always)]
    fn narrow(self, words: [i16; 16], less: u8, to: &mut [i8; 16]) {
        *to = words.map(|word| (word - i16::from(less)) as i8);
    }

    #[inline(always)]
    fn store_bytes(self, bytes: [i16; 16], to: &mut [u8; 32]) {
        to.copy_from_slice(bytes.map(i16::to_le_bytes).as_flattened());
    }

    #[inline(always)]
    fn widen(self, from: &[i8; 16]) -> [i16; 16] {
        from.map(i16::from)
    }

    #[inline(always)]
    fn load_words(self, from: &[i16; 16]) -> [i16; 16] {
        *from
    }

    #[inline(always)]
    fn load_bytes(self, from: &[u8; 32]) -> [i16; 16] {
        let (words, _) = from.as_chunks::<2>();
        std::array::from_fn(|j| i16::from_le_bytes(words[j]))
    }

    #[inline(always)]
    fn bits(self, bytes: [i16; 16], at: usize, mask: u8, to: usize) -> [i16; 16] {
        let mask = u16::from_ne_bytes([mask; 2]);
        bytes.map(|word| (word.cast_unsigned() >> at & mask).cast_signed() << to)
    }

    #[inline(always)]
    fn field(self, words: [i16; 16], at: usize, mask: u16) -> [i16; 16] {
        words.map(|word| (word.cast_unsigned() >> at & mask).cast_signed())
    }

    #[inline(always)]
    fn or(self, a: [i16; 16], b: [i16; 16]) -> [i16; 16] {
        std::array::from_fn(|j| a[j] | b[j])
    }

    #[inline(always)]
    fn look_up(self, table: &[u8; 16], bytes: [i16; 16]) -> [i16; 16] {
        let entry = |byte: u8| table[usize::from(byte & 15)];
        bytes.map(|word| i16::from_le_bytes(word.to_le_bytes().map(entry)))
    }

    #[inline(always)]
    fn split(self, bytes: [i16; 16]) -> [[i16; 16]; 2] {
        [0, 1].map(|half| bytes.map(|word| word.to_le_bytes()[half].into()))
    }

    #[inline(always)]
    fn pair(self, pair: i32) -> [i16; 16] {
        let halves = [pair as i16, (pair >> 16) as i16];
        std::array::from_fn(|j| halves[j % 2])
    }

    #[inline(always)]
    fn ints(self, value: i32) -> [i32; 8] {
        [value; 8]
    }

    #[inline(always)]
    fn dot(self, sum: [i32; 8], a: [i16; 16], b: [i16; 16]) -> [i32; 8] {
        let product = |j: usize| i32::from(a[j]) * i32::from(b[j]);
        std::array::from_fn(|i| sum[i] + product(2 * i) + product(2 * i + 1))
    }

    #[inline(always)]
    fn quad(self, sum: [i32; 8], a: [i16; 16], b: i32) -> [i32; 8] {
        let (a, b) = (a.map(i16::to_le_bytes), b.to_le_bytes());
        let product = |j: usize, i: usize| i32::from(a[j][i % 2]) * i32::from(b[i].cast_signed());
        std::array::from_fn(|lane| {
            let products = (0..4).map(|i| product(2 * lane + i / 2, i));
            sum[lane] + products.sum::<i32>()
        })
    }

    #[inline(always)]
    fn with_low(self, a: [i32; 8], b: [i32; 8]) -> [i32; 8] {
        std::array::from_fn(|i| (a[i] << 8) + b[i])
    }

    #[inline(always)]
    fn floats(self, value: f32) -> [f32; 8] {
        [value; 8]
    }

    #[inline(always)]
    fn load(self, from: &[f32; 8]) -> [f32; 8] {
        *from
    }

    #[inline(always)]
    fn store(self, values: [f32; 8], to: &mut [f32; 8]) {
        *to = values;
    }

    #[inline(always)]
    fn load_f16(self, from: &[u16; 8]) -> [f32; 8] {
        from.map(from_half)
    }

    #[inline(always)]
    fn load_bf16(self, from: &[u16; 8]) -> [f32; 8] {
        from.map(|bits| f32::from_bits(u32::from(bits) << 16))
    }

    #[inline(always)]
    fn to_floats(self, values: [i32; 8]) -> [f32; 8] {
        values.map(|value| value as f32)
    }

    #[inline(always)]
    fn load_i16(self, from: &[i16; 8]) -> [f32; 8] {
        from.map(f32::from)
    }

    #[inline(always)]
    fn load_i8(self, from: &[i8; 8]) -> [f32; 8] {
        from.map(f32::from)
    }

    #[inline(always)]
    fn load_nibbles(self, from: &[u8; 8]) -> [[f32; 8]; 2] {
        [0, 4].map(|at| from.map(|byte| f32::from(byte >> at & 15)))
    }

    #[inline(always)]
    fn nearest(self, values: [f32; 8]) -> [f32; 8] {
        values.map(f32::round_ties_even)
    }

    #[inline(always)]
    fn round(self, values: [[f32; 8]; 2]) -> [i16; 16] {
        let numbers = values.as_flattened();
        std::array::from_fn(|j| numbers[j].round_ties_even() as i16)
    }

    #[inline(always)]
    fn store_pairs(self, words: [i16; 16], to: &mut [i32; 8]) {
        for (pair, [first, second]) in to.iter_mut().zip(words.as_chunks().0) {
            *pair = i32::from(*second) << 16 | i32::from(*first) & 0xffff;
        }
    }

    #[inline(always)]
    fn power_of_two(self, n: [f32; 8]) -> [f32; 8] {
        n.map(|n| f32::from_bits(((n as i32 + 127) as u32) << 23))
    }

    #[inline(always)]
    fn min(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        std::array::from_fn(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    fn max(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        std::array::from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    fn add(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        std::array::from_fn(|i| a[i] + b[i])
    }

    #[inline(always)]
    fn div(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        std::array::from_fn(|i| a[i] / b[i])
    }

    #[inline(always)]
    fn mul(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        std::array::from_fn(|i| a[i] * b[i])
    }

    #[inline(always)]
    fn mul_add(self, sum: [f32; 8], a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        std::array::from_fn(|i| sum[i] + a[i] * b[i])
    }
}
