//! Eight lanes of 32 bits: all that the products ask of a processor. Written once against this
//! trait, they become wasm SIMD (two vectors of 128 bits), AVX2 where the processor has it, with
//! the products of VNNI where it has these, and plain arrays elsewhere, which compilers make
//! vectors of as they can.

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
    /// Vectors that can be held at once.
    const REGISTERS: usize = 16;
    /// Whether [`quad`](Self::quad) is the faster product.
    const QUADS: bool = false;

    /// From memory.
    fn load_words(self, from: &[i16; 16]) -> Self::Words;
    /// Widens bytes.
    fn words(self, from: &[i8; 16]) -> Self::Words;
    /// Bytes as they are, two in each word, the first in the low half.
    fn load_bytes(self, from: &[u8; 32]) -> Self::Words;
    /// Of each byte the bits of `mask` from bit `at`, moved to bit `to`; they stay within it.
    fn bits(self, bytes: Self::Words, at: usize, mask: u8, to: usize) -> Self::Words;
    /// All bits of both.
    fn or(self, a: Self::Words, b: Self::Words) -> Self::Words;
    /// What `table` has for each byte, which is at most 15.
    fn look_up(self, table: &[u8; 16], bytes: Self::Words) -> Self::Words;
    /// The low bytes of all words and the high ones, without a sign.
    fn split(self, bytes: Self::Words) -> [Self::Words; 2];
    /// The same pair of i16 in every lane, the first in the low half.
    fn pair(self, pair: i32) -> Self::Words;
    /// The same number in every lane.
    fn ints(self, value: i32) -> Self::Ints;
    /// `sum + a₀ · b₀ + a₁ · b₁` in each lane.
    fn dot(self, sum: Self::Ints, a: Self::Words, b: Self::Words) -> Self::Ints;

    /// `sum + Σ aᵢ · bᵢ` in each lane, of four bytes that are at most 127 and of four signed ones,
    /// which are the same in every lane.
    fn quad(self, sum: Self::Ints, a: Self::Words, b: i32) -> Self::Ints;
    /// `a · 2⁸ + b`.
    fn with_low(self, a: Self::Ints, b: Self::Ints) -> Self::Ints;
    /// As many turns of a loop, where compilers are not to know how many.
    fn turns(self, turns: usize) -> usize {
        turns
    }

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
    /// Of BF16.
    fn brains(self, from: &[u16; 8]) -> Self::Floats;
    /// Of integers.
    fn of_ints(self, values: Self::Ints) -> Self::Floats;
    /// Of signed bytes.
    fn of_bytes(self, from: &[i8; 8]) -> Self::Floats;
    /// Of the low nibbles of bytes and of the high ones.
    fn of_nibbles(self, from: &[u8; 8]) -> [Self::Floats; 2];
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
    /// Whether it multiplies quads where these are faster.
    #[cfg_attr(
        not(all(target_arch = "wasm32", target_feature = "simd128")),
        expect(dead_code, reason = "no other vectors do so")
    )]
    const QUADS: bool = false;

    /// Computes it. To be marked `#[inline(always)]`, as everything it calls with `lanes`.
    fn with<L: Lanes>(self, lanes: L) -> Self::Out;
}

/// Computes with the widest vectors that this machine has.
pub fn run<W: Work>(work: W) -> W::Out {
    #[cfg(target_arch = "x86_64")]
    let work = match avx2::run(work) {
        Ok(out) => return out,
        Err(work) => work,
    };
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    return wasm::run(work);
    #[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
    work.with(Plain::<false>)
}

/// Whether quads are multiplied on some machine that this is compiled for. The tests multiply them
/// in plain arrays.
pub const MAY_MULTIPLY_QUADS: bool = cfg!(any(
    test,
    all(target_arch = "wasm32", target_feature = "simd128")
));

/// Whether [`run`] multiplies quads on this machine.
pub fn multiply_quads() -> bool {
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    return wasm::multiply_quads();
    #[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
    MAY_MULTIPLY_QUADS
}
