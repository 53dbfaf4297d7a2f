//! Eight lanes of 32 bits: all that the products need of a processor. The implementations are wasm
//! SIMD (two vectors of 128 bits), AVX2 with the products of VNNI where available, and plain arrays
//! elsewhere, which compilers vectorise as they can. Products take sixteen lanes of AVX-512 where a
//! processor has them.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod both;
#[cfg(any(test, not(all(target_arch = "wasm32", target_feature = "simd128"))))]
mod plain;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm;

#[cfg(any(test, not(all(target_arch = "wasm32", target_feature = "simd128"))))]
pub use plain::Plain;

/// Rows packed together: one for each lane.
pub const LANES: usize = 8;

/// Two groups of eight rows of one layout, for vectors that load from both.
#[derive(Debug, Clone, Copy)]
struct Groups {
    /// Address of the first.
    first: usize,
    second: *const u8,
}

impl Groups {
    #[inline(always)]
    fn new<T>(first: &[T], second: &[T]) -> Self {
        Self {
            first: first.as_ptr().addr(),
            second: second.as_ptr().cast(),
        }
    }

    /// The place in the second group that corresponds to `from` in the first.
    #[inline(always)]
    fn second<T>(self, from: &T) -> *const T {
        let at = std::ptr::from_ref(from).addr() - self.first;
        self.second.wrapping_add(at).cast()
    }
}

/// Vectors of eight lanes and their operations.
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
    /// Vectors for two groups of eight rows at once; the type itself where `WIDENS` is 0.
    type Wide: Lanes;
    /// Largest number of rows of input for which `Wide` is faster.
    const WIDENS: usize = 0;
    /// Whether the vectors of this type are for two groups.
    const WIDE: bool = false;
    /// Vector registers.
    const REGISTERS: usize = 16;
    /// Whether [`quad`](Self::quad) is faster than [`dot`](Self::dot) here.
    const QUADS: bool = false;
    /// Whether products with several rows of input are faster with codes that were unpacked before;
    /// only where `WIDENS` is 1.
    const UNPACKS: bool = false;

    /// Whether products of pairs with `rows` rows of input are compiled as a loop of `turns` turns.
    /// If such a loop is unrolled, compilers take one row of input after the other, or load all
    /// codes first, and spill unpacked codes to memory.
    fn rolls(_turns: usize, _rows: usize) -> bool {
        false
    }

    /// Vectors for the groups `first` and `second`: a load from a place of `first` fills the upper
    /// eight lanes from the same place of `second`. Only where `WIDENS` is not 0.
    ///
    /// # Safety
    /// Until the last use of the result, both slices are there, of one length, and all loads are
    /// from `first`.
    unsafe fn wide<T>(self, _first: &[T], _second: &[T]) -> Self::Wide {
        unreachable!("these have none")
    }
    /// The upper eight lanes as the lower ones, of vectors that [`wide`](Self::wide) returned.
    fn upper(self, _values: Self::Floats) -> Self::Floats {
        unreachable!("these have none")
    }

    /// Computes with these vectors, in a function that callers share where code is to be small.
    fn apart<W: Work>(self, work: W) -> W::Out {
        work.with(self)
    }

    /// Prefetches part `part` of `parts` equal ones of a `T` that is some way after `from`, on
    /// processors where that is faster.
    fn prefetch<T>(self, _from: &T, _part: usize, _parts: usize) {}

    /// Loads words.
    fn load_words(self, from: &[i16; 16]) -> Self::Words;
    /// Stores words less `less`, which are signed bytes; only where `UNPACKS` is true.
    fn narrow(self, _words: Self::Words, _less: u8, _to: &mut [i8; 16]) {
        unreachable!("these do not unpack")
    }
    /// Stores bytes unchanged; only where `UNPACKS` is true.
    fn store_bytes(self, _bytes: Self::Words, _to: &mut [u8; 32]) {
        unreachable!("these do not unpack")
    }
    /// Widens bytes with their sign.
    fn widen(self, from: &[i8; 16]) -> Self::Words;
    /// Loads bytes unchanged, two in each word, the first in the low half.
    fn load_bytes(self, from: &[u8; 32]) -> Self::Words;
    /// The bits `mask` of each byte from bit `at`, moved to bit `to`, within the byte.
    fn bits(self, bytes: Self::Words, at: usize, mask: u8, to: usize) -> Self::Words;
    /// The bits `mask` of each word from bit `at`.
    fn field(self, words: Self::Words, at: usize, mask: u16) -> Self::Words;
    /// Bitwise or.
    fn or(self, a: Self::Words, b: Self::Words) -> Self::Words;
    /// The entry of `table` for each byte, which is at most 15.
    fn look_up(self, table: &[u8; 16], bytes: Self::Words) -> Self::Words;
    /// The low bytes of all words and the high ones, unsigned.
    fn split(self, bytes: Self::Words) -> [Self::Words; 2];
    /// The same pair of i16 in every lane, the first in the low half.
    fn pair(self, pair: i32) -> Self::Words;
    /// The same number in every lane.
    fn ints(self, value: i32) -> Self::Ints;
    /// `sum + a₀ · b₀ + a₁ · b₁` in each lane.
    fn dot(self, sum: Self::Ints, a: Self::Words, b: Self::Words) -> Self::Ints;

    /// `sum + Σ aᵢ · bᵢ` in each lane, for four bytes of at most 127 and four signed ones,
    /// the same in every lane.
    fn quad(self, sum: Self::Ints, a: Self::Words, b: i32) -> Self::Ints;
    /// `a · 2⁸ + b`.
    fn with_low(self, a: Self::Ints, b: Self::Ints) -> Self::Ints;
    /// Returns `turns`, hidden from the compiler's optimiser, as a loop count.
    fn turns(self, turns: usize) -> usize {
        turns
    }

    /// Converts i16.
    fn load_i16(self, from: &[i16; 8]) -> Self::Floats;
    /// The same number in every lane.
    fn floats(self, value: f32) -> Self::Floats;
    /// Loads numbers.
    fn load(self, from: &[f32; 8]) -> Self::Floats;
    /// Stores numbers.
    fn store(self, values: Self::Floats, to: &mut [f32; 8]);
    /// Converts f16. Infinities and NaNs become large numbers on some machines.
    fn load_f16(self, from: &[u16; 8]) -> Self::Floats;
    /// Converts BF16.
    fn load_bf16(self, from: &[u16; 8]) -> Self::Floats;
    /// Converts integers.
    fn to_floats(self, values: Self::Ints) -> Self::Floats;
    /// Converts signed bytes.
    fn load_i8(self, from: &[i8; 8]) -> Self::Floats;
    /// Converts the low nibbles of bytes, and the high ones.
    fn load_nibbles(self, from: &[u8; 8]) -> [Self::Floats; 2];
    /// The nearest integers, ties to even.
    fn nearest(self, values: Self::Floats) -> Self::Floats;
    /// The nearest of the integers of 16 bits to sixteen numbers, ties to even; not for two groups.
    fn round(self, _values: [Self::Floats; 2]) -> Self::Words {
        unreachable!("these do not round")
    }
    /// Stores words in pairs, the first in the low half; not for two groups.
    fn store_pairs(self, _words: Self::Words, _to: &mut [i32; 8]) {
        unreachable!("these do not round")
    }
    /// 2ⁿ for integers from −126 to 127.
    fn power_of_two(self, n: Self::Floats) -> Self::Floats;
    /// The smaller number of each lane; `b` where either is NaN.
    fn min(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// The larger number of each lane; `b` where either is NaN.
    fn max(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a + b`.
    fn add(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a / b`.
    fn div(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a · b`.
    fn mul(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `sum + a · b`, rounded once or twice.
    fn mul_add(self, sum: Self::Floats, a: Self::Floats, b: Self::Floats) -> Self::Floats;
}

/// A computation with vectors of eight lanes.
pub trait Work {
    /// Its result.
    type Out;
    /// Whether the work multiplies quads where these are faster.
    #[cfg_attr(
        not(all(target_arch = "wasm32", target_feature = "simd128")),
        expect(dead_code, reason = "no other vectors do so")
    )]
    const QUADS: bool = false;
    /// Whether the work multiplies pairs where these are faster.
    #[cfg_attr(
        not(all(target_arch = "wasm32", target_feature = "simd128")),
        expect(dead_code, reason = "all others do so")
    )]
    const PAIRS: bool = true;

    /// Computes. Mark it, and everything it calls with `lanes`, `#[inline(always)]`.
    fn with<L: Lanes>(self, lanes: L) -> Self::Out;
}

/// Computes with this machine's widest vectors.
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

/// Whether [`run`] multiplies quads on this machine. The tests multiply them in plain arrays.
pub fn multiply_quads() -> bool {
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    return wasm::multiply_quads();
    #[cfg(target_arch = "x86_64")]
    return cfg!(test) || avx2::multiply_quads();
    #[cfg(not(any(
        target_arch = "x86_64",
        all(target_arch = "wasm32", target_feature = "simd128")
    )))]
    cfg!(test)
}
