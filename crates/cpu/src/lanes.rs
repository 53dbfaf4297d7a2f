//! Eight lanes of 32 bits: all that the products ask of a processor. Written once against this
//! trait, they become wasm SIMD (two vectors of 128 bits), AVX2 where the processor has it, and
//! plain arrays elsewhere, which compilers make vectors of as they can.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(any(test, not(all(target_arch = "wasm32", target_feature = "simd128"))))]
mod plain;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm;

#[cfg(any(test, not(all(target_arch = "wasm32", target_feature = "simd128"))))]
pub use plain::Plain;

/// Rows that are packed together: one for each lane.
pub const LANES: usize = 8;

/// Vectors of eight lanes, and what products do with them.
///
/// Methods are always inlined, so that they become instructions of the function that was compiled
/// for the processor's features.
pub trait Lanes: Copy {
    /// 16 × i16, two for each lane.
    type Words: Copy;
    /// 8 × i32.
    type Ints: Copy;
    /// 8 × f32.
    type Floats: Copy;

    /// From memory.
    fn load_words(self, from: &[i16; 16]) -> Self::Words;
    /// Widens bytes.
    fn words(self, from: &[i8; 16]) -> Self::Words;
    /// The four nibbles of each of 16 little-endian u16, lowest first.
    fn nibbles(self, from: &[u8; 32]) -> [Self::Words; 4];
    /// The same pair of i16 in every lane, the first in the low half.
    fn pair(self, pair: i32) -> Self::Words;
    /// The same number in every lane.
    fn ints(self, value: i32) -> Self::Ints;
    /// `sum + a₀ · b₀ + a₁ · b₁` in each lane.
    fn dot(self, sum: Self::Ints, a: Self::Words, b: Self::Words) -> Self::Ints;

    /// Of i16.
    fn of_words(self, from: &[i16; 8]) -> Self::Floats;
    /// The same number in every lane.
    fn floats(self, value: f32) -> Self::Floats;
    /// Numbers from memory.
    fn load(self, from: &[f32; 8]) -> Self::Floats;
    /// Numbers to memory.
    fn store(self, values: Self::Floats, to: &mut [f32; 8]);
    /// Of f16. Infinities and NaNs become large numbers on some machines.
    fn halves(self, from: &[u16; 8]) -> Self::Floats;
    /// Of integers.
    fn of_ints(self, values: Self::Ints) -> Self::Floats;
    /// Of signed bytes.
    fn of_bytes(self, from: &[i8; 8]) -> Self::Floats;
    /// The nearest integers, ties to even.
    fn nearest(self, values: Self::Floats) -> Self::Floats;
    /// 2ⁿ of integers from −126 to 127.
    fn power_of_two(self, n: Self::Floats) -> Self::Floats;
    /// The smaller; `b` where that is no number.
    fn least(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// The larger; `b` where that is no number.
    fn most(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a + b`.
    fn plus(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a / b`.
    fn over(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a · b`.
    fn times(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `sum + a · b`, rounded once or twice.
    fn times_add(self, sum: Self::Floats, a: Self::Floats, b: Self::Floats) -> Self::Floats;
}

/// Something to compute with vectors of eight lanes.
pub trait Work {
    /// What comes of it.
    type Out;

    /// Computes it. To be marked `#[inline(always)]`, as everything it calls with `lanes`.
    fn with<L: Lanes>(self, lanes: L) -> Self::Out;
}

/// Computes with the widest vectors that this machine has.
pub fn run<W: Work>(work: W) -> W::Out {
    #[cfg(target_arch = "x86_64")]
    if let Some(lanes) = avx2::Avx2::detect() {
        return lanes.run(work);
    }
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    let lanes = wasm::Simd128;
    #[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
    let lanes = Plain;
    work.with(lanes)
}
