//! Packing of the quants of 32 columns of eight rows, as the *codes* of the file. Unpacked, a lane
//! of a vector holds one pair of columns of one row, 16 bits each.

use std::fmt::Debug;
#[cfg(any(
    target_arch = "x86_64",
    all(target_arch = "wasm32", target_feature = "simd128")
))]
use std::mem::transmute;

use crate::group::RunCodes;
use crate::input::BLOCK;
use crate::lanes::{LANES, Lanes};

/// Codes of 32 columns of eight rows to be packed: four columns of every lane side by side, so that
/// vectors take all lanes at once.
type Fours = [[u8; 4 * LANES]; BLOCK / 4];

/// Codes of 32 columns of eight rows.
pub(crate) trait Codes: Clone + Debug + Send + Sync + 'static {
    /// Whether packed values are levels, as signed bytes.
    const LEVELS: bool = false;

    /// Whether four columns of a row can be multiplied at once, as bytes of at most 127.
    const QUADS: bool = false;

    /// Whether they are also multiplied in pairs.
    const PAIRS: bool = true;

    /// Whether products of quads with several rows of input are faster, or smaller, with codes that
    /// were unpacked before.
    const UNPACKS_QUADS: bool = false;

    /// The initial value.
    const EMPTY: Self;

    /// Packs the codes of all lanes, minus `offset` if packed values are levels. A function that
    /// formats share.
    fn pack(&mut self, codes: &[[u8; BLOCK]; LANES], offset: u8);

    /// Pairs of columns unpacked at once, few enough to stay in registers.
    type Few<W>: IntoIterator<Item = W>;
    /// Number of pairs in `Few`.
    const FEW: usize;

    /// Pairs of columns from `FEW · few` on, looked up in `table` if there is one.
    fn words<L: Lanes>(
        &self,
        lanes: L,
        few: usize,
        table: Option<&[u8; 16]>,
    ) -> Self::Few<L::Words>;

    /// Adds the products of the same pairs with `T` rows of input to `sums`.
    fn products<L: Lanes, const T: usize>(
        &self,
        lanes: L,
        few: usize,
        table: Option<&[u8; 16]>,
        input: &[&[i32; BLOCK / 2]; T],
        sums: &mut [L::Ints; T],
    );

    /// Columns `8 · eight ..` in two quads of each lane, in the order 0, 2, 1, 3; for codes with
    /// `QUADS`.
    fn quads<L: Lanes>(&self, _lanes: L, _eight: usize) -> [L::Words; 2] {
        unreachable!("these have none")
    }
}

/// Codes that others are unpacked to, once for several rows of input.
pub(crate) trait UnpackedCodes: Codes {
    /// Unpacks the codes of a run; returns the offset of these.
    fn unpack<L: Lanes, C: Codes>(&mut self, lanes: L, run: &RunCodes<'_, C>) -> u8;
}

/// Groups the codes of eight rows, `[LANES, BLOCK]`, by four columns.
#[inline(never)]
fn in_fours(codes: &[[u8; BLOCK]; LANES]) -> Fours {
    let mut fours = [[0; 4 * LANES]; BLOCK / 4];
    for (part, lanes) in codes.as_chunks::<4>().0.iter().enumerate() {
        for (half, fours) in fours.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            // Not by `map`, which is a call in wasm.
            let mut rows = [[0; 16]; 4];
            for (row, lane) in rows.iter_mut().zip(lanes) {
                *row = lane.as_chunks().0[half];
            }
            let turned = transposed(rows);
            for (four, turned) in fours.iter_mut().zip(turned) {
                four.as_chunks_mut().0[part] = turned;
            }
        }
    }
    fours
}

/// Transposes words of four bytes, `[4, 4]`. Compilers take a loop's bytes one by one.
#[inline(always)]
fn transposed(rows: [[u8; 16]; 4]) -> [[u8; 16]; 4] {
    // SAFETY: a vector is any 16 bytes, and SSE2 is part of every x86-64.
    #[cfg(target_arch = "x86_64")]
    return unsafe {
        use std::arch::x86_64::{
            __m128i, _mm_unpackhi_epi32, _mm_unpackhi_epi64, _mm_unpacklo_epi32, _mm_unpacklo_epi64,
        };
        let [a, b, c, d]: [__m128i; 4] = transmute(rows);
        let [ab, cd] = [_mm_unpacklo_epi32(a, b), _mm_unpacklo_epi32(c, d)];
        let [ef, gh] = [_mm_unpackhi_epi32(a, b), _mm_unpackhi_epi32(c, d)];
        transmute::<[__m128i; 4], [[u8; 16]; 4]>([
            _mm_unpacklo_epi64(ab, cd),
            _mm_unpackhi_epi64(ab, cd),
            _mm_unpacklo_epi64(ef, gh),
            _mm_unpackhi_epi64(ef, gh),
        ])
    };
    // SAFETY: a vector is any 16 bytes.
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    return unsafe {
        use std::arch::wasm32::{i32x4_shuffle, i64x2_shuffle, v128};
        let [a, b, c, d]: [v128; 4] = transmute(rows);
        let low = |a, b| i32x4_shuffle::<0, 4, 1, 5>(a, b);
        let high = |a, b| i32x4_shuffle::<2, 6, 3, 7>(a, b);
        let [ab, cd, ef, gh] = [low(a, b), low(c, d), high(a, b), high(c, d)];
        transmute::<[v128; 4], [[u8; 16]; 4]>([
            i64x2_shuffle::<0, 2>(ab, cd),
            i64x2_shuffle::<1, 3>(ab, cd),
            i64x2_shuffle::<0, 2>(ef, gh),
            i64x2_shuffle::<1, 3>(ef, gh),
        ])
    };
    #[cfg(not(any(
        target_arch = "x86_64",
        all(target_arch = "wasm32", target_feature = "simd128")
    )))]
    {
        let rows: [[u32; 4]; 4] = bytemuck::cast(rows);
        bytemuck::cast([0, 1, 2, 3].map(|col| rows.map(|row| row[col])))
    }
}

/// The bytes of words, the two in the middle swapped.
#[inline(always)]
fn crossed(words: [u32; LANES]) -> [u8; 4 * LANES] {
    // SAFETY: a vector is any 16 bytes.
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    return unsafe {
        use std::arch::wasm32::{i8x16_shuffle, v128};
        let swapped =
            |a| i8x16_shuffle::<0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15>(a, a);
        let [a, b]: [v128; 2] = transmute(words);
        transmute::<[v128; 2], [u8; 4 * LANES]>([swapped(a), swapped(b)])
    };
    #[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
    {
        let crossed = words.map(|word| {
            let middle = (word >> 8 & 0xff00) | (word & 0xff00) << 8;
            (word & 0xff00_00ff | middle).to_le()
        });
        bytemuck::cast(crossed)
    }
}

/// Adds the products of a pair of columns with `T` rows of input to `sums`.
#[inline(always)]
fn dot<L: Lanes, const T: usize>(
    l: L,
    words: L::Words,
    pair: usize,
    input: &[&[i32; BLOCK / 2]; T],
    sums: &mut [L::Ints; T],
) {
    for t in 0..T {
        sums[t] = l.dot(sums[t], words, l.pair(input[t][pair]));
    }
}

/// Signed bytes, two columns of each row at a time, without a table. Products take one pair of
/// columns at once. With two pairs at once, compilers split the lanes into halves and take four
/// rows of input for each, which exceeds the sixteen registers that wasm has on x86.
#[derive(Debug, Clone)]
pub(crate) struct Bytes([[i8; 2 * LANES]; BLOCK / 2]);

impl Codes for Bytes {
    const LEVELS: bool = true;
    const EMPTY: Self = Self([[0; 2 * LANES]; BLOCK / 2]);
    type Few<W> = [W; 1];
    const FEW: usize = 1;

    #[inline(never)]
    fn pack(&mut self, codes: &[[u8; BLOCK]; LANES], offset: u8) {
        const HIGHEST: u32 = u32::from_le_bytes([0x80; 4]);
        let less = u32::from_le_bytes([offset.wrapping_neg(); 4]);
        let fours = in_fours(codes);
        for (pairs, four) in self.0.as_chunks_mut::<2>().0.iter_mut().zip(&fours) {
            let mut halves = [[0; LANES]; 2];
            for (lane, codes) in four.as_chunks().0.iter().enumerate() {
                // A sum of bytes that carries nothing from one to the next.
                let codes = u32::from_le_bytes(*codes);
                let levels = (codes & !HIGHEST) + (less & !HIGHEST);
                let levels = levels ^ (codes ^ less) & HIGHEST;
                halves[0][lane] = (levels as u16).to_le();
                halves[1][lane] = ((levels >> 16) as u16).to_le();
            }
            *pairs = bytemuck::cast(halves);
        }
    }

    #[inline(always)]
    fn words<L: Lanes>(&self, l: L, pair: usize, _table: Option<&[u8; 16]>) -> [L::Words; 1] {
        [l.widen(&self.0[pair])]
    }

    #[inline(always)]
    fn products<L: Lanes, const T: usize>(
        &self,
        l: L,
        pair: usize,
        table: Option<&[u8; 16]>,
        input: &[&[i32; BLOCK / 2]; T],
        sums: &mut [L::Ints; T],
    ) {
        let [words] = self.words(l, pair, table);
        dot(l, words, pair, input, sums);
    }
}

impl UnpackedCodes for Bytes {
    #[inline(always)]
    fn unpack<L: Lanes, C: Codes>(&mut self, l: L, run: &RunCodes<'_, C>) -> u8 {
        for few in 0..BLOCK / 2 / C::FEW {
            for (pair, words) in run.codes.words(l, few, run.table).into_iter().enumerate() {
                l.narrow(words, run.offset, &mut self.0[C::FEW * few + pair]);
            }
        }
        0
    }
}

/// Codes of at most 127 for products of quads: two vectors for eight columns.
#[derive(Debug, Clone)]
pub(crate) struct Quads([[[u8; 4 * LANES]; 2]; BLOCK / 8]);

impl Codes for Quads {
    const EMPTY: Self = Self([[[0; 4 * LANES]; 2]; BLOCK / 8]);
    const QUADS: bool = true;
    type Few<W> = [W; 0];
    const FEW: usize = 0;

    fn pack(&mut self, _codes: &[[u8; BLOCK]; LANES], _offset: u8) {
        unreachable!("these are unpacked")
    }

    fn words<L: Lanes>(&self, _l: L, _few: usize, _table: Option<&[u8; 16]>) -> [L::Words; 0] {
        []
    }

    fn products<L: Lanes, const T: usize>(
        &self,
        _l: L,
        _few: usize,
        _table: Option<&[u8; 16]>,
        _input: &[&[i32; BLOCK / 2]; T],
        _sums: &mut [L::Ints; T],
    ) {
        unreachable!("these are no pairs")
    }

    #[inline(always)]
    fn quads<L: Lanes>(&self, l: L, eight: usize) -> [L::Words; 2] {
        let [first, second] = &self.0[eight];
        [l.load_bytes(first), l.load_bytes(second)]
    }
}

impl UnpackedCodes for Quads {
    #[inline(always)]
    fn unpack<L: Lanes, C: Codes>(&mut self, l: L, run: &RunCodes<'_, C>) -> u8 {
        for (eight, to) in self.0.iter_mut().enumerate() {
            let [first, second] = run.codes.quads(l, eight);
            l.store_bytes(first, &mut to[0]);
            l.store_bytes(second, &mut to[1]);
        }
        run.offset
    }
}

/// Codes of five bits, three pairs of columns in a vector, five bits apart; of eight pairs, the
/// last vector holds two. They take six bits a code, and half of the instructions of [`Bits`] to
/// unpack.
#[derive(Debug, Clone)]
pub(crate) struct Threes([[[i16; 2 * LANES]; 3]; 2]);

impl Threes {
    /// Bits of a code.
    const BITS: usize = 5;

    /// Pair `at` of a vector that holds `count` pairs.
    #[inline(always)]
    fn pair<L: Lanes>(l: L, words: L::Words, at: usize, count: usize) -> L::Words {
        // Nothing is above the last.
        let mask = if at + 1 < count { 0x1f } else { u16::MAX };
        l.field(words, Self::BITS * at, mask)
    }
}

impl Codes for Threes {
    const EMPTY: Self = Self([[[0; 2 * LANES]; 3]; 2]);
    type Few<W> = [W; 8];
    const FEW: usize = 8;

    #[inline(never)]
    fn pack(&mut self, codes: &[[u8; BLOCK]; LANES], _offset: u8) {
        let fours = in_fours(codes);
        for (vectors, fours) in self.0.iter_mut().zip(fours.as_chunks::<4>().0) {
            let mut packed = [[0; LANES]; 3];
            for (four, codes) in fours.iter().enumerate() {
                for (lane, codes) in codes.as_chunks().0.iter().enumerate() {
                    let codes = u32::from_le_bytes(*codes);
                    for (half, codes) in [codes, codes >> 16].into_iter().enumerate() {
                        let pair = codes & 0xff | (codes & 0xff00) << 8;
                        let at = 2 * four + half;
                        packed[at / 3][lane] |= pair << (Self::BITS * (at % 3));
                    }
                }
            }
            for (vector, packed) in vectors.iter_mut().zip(packed) {
                *vector = bytemuck::cast(packed.map(u32::to_le));
            }
        }
    }

    #[inline(always)]
    fn words<L: Lanes>(&self, l: L, eight: usize, _table: Option<&[u8; 16]>) -> [L::Words; 8] {
        let [a, b, c] = &self.0[eight];
        // Not by `map`, which is a call in wasm.
        let (a, b, c) = (l.load_words(a), l.load_words(b), l.load_words(c));
        [
            Self::pair(l, a, 0, 3),
            Self::pair(l, a, 1, 3),
            Self::pair(l, a, 2, 3),
            Self::pair(l, b, 0, 3),
            Self::pair(l, b, 1, 3),
            Self::pair(l, b, 2, 3),
            Self::pair(l, c, 0, 2),
            Self::pair(l, c, 1, 2),
        ]
    }

    /// Unrolled, as those of [`Bits`].
    #[inline(always)]
    fn products<L: Lanes, const T: usize>(
        &self,
        l: L,
        eight: usize,
        _table: Option<&[u8; 16]>,
        input: &[&[i32; BLOCK / 2]; T],
        sums: &mut [L::Ints; T],
    ) {
        let words = l.load_words(&self.0[eight][0]);
        dot(l, Self::pair(l, words, 0, 3), 8 * eight, input, sums);
        dot(l, Self::pair(l, words, 1, 3), 8 * eight + 1, input, sums);
        dot(l, Self::pair(l, words, 2, 3), 8 * eight + 2, input, sums);
        let words = l.load_words(&self.0[eight][1]);
        dot(l, Self::pair(l, words, 0, 3), 8 * eight + 3, input, sums);
        dot(l, Self::pair(l, words, 1, 3), 8 * eight + 4, input, sums);
        dot(l, Self::pair(l, words, 2, 3), 8 * eight + 5, input, sums);
        let words = l.load_words(&self.0[eight][2]);
        dot(l, Self::pair(l, words, 0, 2), 8 * eight + 6, input, sums);
        dot(l, Self::pair(l, words, 1, 2), 8 * eight + 7, input, sums);
    }
}

/// Codes of `LOW + HIGH` bits, each part of 0, 1, 2 or 4 bits in its own plane: as many bits as in
/// the file.
#[derive(Debug, Clone)]
pub(crate) struct Bits<const LOW: usize, const HIGH: usize> {
    low: Plane<LOW>,
    high: Plane<HIGH>,
}

impl<const LOW: usize, const HIGH: usize> Codes for Bits<LOW, HIGH> {
    const EMPTY: Self = Self {
        low: Plane::EMPTY,
        high: Plane::EMPTY,
    };
    const QUADS: bool = true;
    // Codes of five bits are stored otherwise there: see `CodeStorage`.
    const PAIRS: bool = !(cfg!(target_family = "wasm") && LOW + HIGH == 5);
    // Codes of four bits are unpacked by two operations.
    const UNPACKS_QUADS: bool = LOW + HIGH != 4;
    type Few<W> = [W; 4];
    const FEW: usize = 4;

    #[inline(never)]
    fn pack(&mut self, codes: &[[u8; BLOCK]; LANES], _offset: u8) {
        let fours = in_fours(codes);
        self.low.pack(&fours, 0);
        self.high.pack(&fours, LOW);
    }

    #[inline(always)]
    fn words<L: Lanes>(&self, l: L, eight: usize, table: Option<&[u8; 16]>) -> [L::Words; 4] {
        let mut codes = self.quads(l, eight);
        if let Some(table) = table {
            codes = [l.look_up(table, codes[0]), l.look_up(table, codes[1])];
        }
        let [[a, b], [c, d]] = [l.split(codes[0]), l.split(codes[1])];
        [a, b, c, d]
    }

    /// Unrolled: a loop over vectors would keep them in memory.
    #[inline(always)]
    fn products<L: Lanes, const T: usize>(
        &self,
        l: L,
        eight: usize,
        table: Option<&[u8; 16]>,
        input: &[&[i32; BLOCK / 2]; T],
        sums: &mut [L::Ints; T],
    ) {
        let [a, b, c, d] = self.words(l, eight, table);
        dot(l, a, 4 * eight, input, sums);
        dot(l, b, 4 * eight + 1, input, sums);
        dot(l, c, 4 * eight + 2, input, sums);
        dot(l, d, 4 * eight + 3, input, sums);
    }

    #[inline(always)]
    fn quads<L: Lanes>(&self, l: L, eight: usize) -> [L::Words; 2] {
        let codes = self.low.bytes(l, eight, 0);
        if HIGH == 0 {
            return codes;
        }
        let high = self.high.bytes(l, eight, LOW);
        [l.or(codes[0], high[0]), l.or(codes[1], high[1])]
    }
}

/// `BITS` bits of each code (1, 2 or 4; 0 for an empty plane), in vectors of bytes. Four columns of
/// a row, from 4f on, take two words: columns 4f and 4f + 2 are the two bytes of one word, columns
/// 4f + 1 and 4f + 3 the bytes of the next. A byte holds the bits of `8 / BITS` consecutive `f`,
/// the first in the lowest bits.
#[derive(Debug, Clone)]
struct Plane<const BITS: usize>([[u8; 4 * LANES]; BITS]);

impl<const BITS: usize> Plane<BITS> {
    const MASK: u8 = (1 << BITS) - 1;
    const EMPTY: Self = Self([[0; 4 * LANES]; BITS]);

    /// Packs the bits from `from` on, four columns of a lane at a time.
    #[inline(always)]
    fn pack(&mut self, fours: &Fours, from: usize) {
        let mask = u32::from_le_bytes([Self::MASK; 4]);
        for (v, vector) in self.0.iter_mut().enumerate() {
            let mut words = [0; LANES];
            for (at, four) in fours[8 / BITS * v..][..8 / BITS].iter().enumerate() {
                for (word, four) in words.iter_mut().zip(four.as_chunks().0) {
                    *word |= (u32::from_le_bytes(*four) >> from & mask) << (BITS * at);
                }
            }
            *vector = crossed(words);
        }
    }

    /// The bits of columns `8 · eight ..`, four and four, one byte each, shifted left by `up`.
    #[inline(always)]
    fn bytes<L: Lanes>(&self, l: L, eight: usize, up: usize) -> [L::Words; 2] {
        let each = 8 / BITS;
        let all = l.load_bytes(&self.0[2 * eight / each]);
        // In a rolled loop over eights, only this shift is not constant.
        let all = l.bits(all, BITS * (2 * eight % each), 0xff, 0);
        [
            l.bits(all, 0, Self::MASK, up),
            l.bits(all, BITS, Self::MASK, up),
        ]
    }
}
