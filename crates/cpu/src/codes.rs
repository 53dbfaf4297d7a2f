//! Packing of the quants of 32 columns of eight rows, as the *codes* of the file. Unpacked, a lane
//! of a vector holds one pair of columns of one row, 16 bits each.

use std::fmt::Debug;

use crate::input::BLOCK;
use crate::lanes::{LANES, Lanes};

/// Codes of 32 columns of eight rows.
pub(crate) trait Codes: Clone + Debug + Send + Sync + 'static {
    /// Whether packed values are levels, as signed bytes.
    const LEVELS: bool = false;

    /// Whether four columns of a row can be multiplied at once, as bytes of at most 127.
    const QUADS: bool = false;

    /// The initial value.
    const EMPTY: Self;

    /// Packs the codes of each lane.
    fn pack(&mut self, codes: &[[u8; BLOCK]; LANES]);

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

    #[inline(always)]
    fn pack(&mut self, codes: &[[u8; BLOCK]; LANES]) {
        for (lane, codes) in codes.iter().enumerate() {
            for (packed, [a, b]) in self.0.iter_mut().zip(codes.as_chunks::<2>().0) {
                packed[2 * lane] = a.cast_signed();
                packed[2 * lane + 1] = b.cast_signed();
            }
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
    type Few<W> = [W; 4];
    const FEW: usize = 4;

    #[inline(always)]
    fn pack(&mut self, codes: &[[u8; BLOCK]; LANES]) {
        self.low.pack(codes, 0);
        self.high.pack(codes, LOW);
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
    fn pack(&mut self, codes: &[[u8; BLOCK]; LANES], from: usize) {
        let mask = u32::from_le_bytes([Self::MASK; 4]);
        for (lane, codes) in codes.iter().enumerate() {
            let mut fours = codes.as_chunks::<4>().0.iter();
            for vector in &mut self.0 {
                let mut word = 0;
                for (at, four) in fours.by_ref().take(8 / BITS).enumerate() {
                    word |= (u32::from_le_bytes(*four) >> from & mask) << (BITS * at);
                }
                let [a, b, c, d] = word.to_le_bytes();
                vector[4 * lane..][..4].copy_from_slice(&[a, c, b, d]);
            }
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
