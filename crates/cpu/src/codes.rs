//! How the quants of 32 columns of eight rows lie, as the *codes* that a file has for them: a lane of
//! a vector holds the same pair of columns of one row, in 16 bits each.

use std::fmt::Debug;

use crate::input::BLOCK;
use crate::lanes::{LANES, Lanes};

/// Codes of 32 columns of eight rows.
pub(crate) trait Codes: Clone + Debug + Send + Sync + 'static {
    /// Packs what `code` tells of a lane and a column.
    fn pack(code: impl Fn(usize, usize) -> u8) -> Self;

    /// The columns `16 · half + 4 · four ..`, two and two; looked up in `table` where there is one.
    /// Fast where `four` is a constant once loops are unrolled.
    fn words<L: Lanes>(
        &self,
        lanes: L,
        half: usize,
        four: usize,
        table: Option<&[u8; 16]>,
    ) -> [L::Words; 2];
}

/// Signed bytes, two columns of each row at a time. Nothing looks them up.
#[derive(Debug, Clone)]
pub(crate) struct Bytes([[i8; 2 * LANES]; BLOCK / 2]);

impl Codes for Bytes {
    #[inline(always)]
    fn pack(code: impl Fn(usize, usize) -> u8) -> Self {
        let at = |pair: usize, i: usize| code(i / 2, 2 * pair + i % 2).cast_signed();
        Self(std::array::from_fn(|pair| {
            std::array::from_fn(|i| at(pair, i))
        }))
    }

    #[inline(always)]
    fn words<L: Lanes>(
        &self,
        l: L,
        half: usize,
        four: usize,
        _table: Option<&[u8; 16]>,
    ) -> [L::Words; 2] {
        [0, 1].map(|which| l.words(&self.0[8 * half + 2 * four + which]))
    }
}

/// Whole numbers of `LOW + HIGH` bits, each part 0, 1, 2 or 4 of them in a plane of its own: as many
/// bits as the file's.
#[derive(Debug, Clone)]
pub(crate) struct Bits<const LOW: usize, const HIGH: usize> {
    low: Plane<LOW>,
    high: Plane<HIGH>,
}

impl<const LOW: usize, const HIGH: usize> Codes for Bits<LOW, HIGH> {
    #[inline(always)]
    fn pack(code: impl Fn(usize, usize) -> u8) -> Self {
        Self {
            low: Plane::pack(&code),
            high: Plane::pack(|lane, col| code(lane, col) >> LOW),
        }
    }

    #[inline(always)]
    fn words<L: Lanes>(
        &self,
        l: L,
        half: usize,
        four: usize,
        table: Option<&[u8; 16]>,
    ) -> [L::Words; 2] {
        let mut codes = self.low.bytes(l, half, four, 0);
        if HIGH > 0 {
            codes = l.or(codes, self.high.bytes(l, half, four, LOW));
        }
        if let Some(table) = table {
            codes = l.look_up(table, codes);
        }
        l.split(codes)
    }
}

/// `BITS` of each code, in vectors of bytes: the byte for columns 4f, 4f + 1 and the one for 4f + 2,
/// 4f + 3 of a row are the halves of a word, and a byte has `8 / BITS` such `f`, lowest first.
#[derive(Debug, Clone)]
struct Plane<const BITS: usize>([[u8; 4 * LANES]; BITS]);

impl<const BITS: usize> Plane<BITS> {
    const MASK: u8 = (1 << BITS) - 1;

    #[inline(always)]
    fn pack(code: impl Fn(usize, usize) -> u8) -> Self {
        let byte = |vector: usize, byte: usize| {
            let (lane, first) = (byte / 4, 2 * (byte % 2) + byte / 2 % 2);
            let fours = 8 / BITS * vector..8 / BITS * (vector + 1);
            let codes = fours.map(|four| code(lane, 4 * four + first) & Self::MASK);
            codes.rev().fold(0, |byte, code| byte << BITS | code)
        };
        Self(std::array::from_fn(|vector| {
            std::array::from_fn(|i| byte(vector, i))
        }))
    }

    /// The bits of columns `16 · half + 4 · four ..` in bytes of their own, `up` bits further up.
    #[inline(always)]
    fn bytes<L: Lanes>(&self, l: L, half: usize, four: usize, up: usize) -> L::Words {
        let each = 8 / BITS;
        let mut all = l.load_bytes(&self.0[(4 * half + four) / each]);
        if BITS == 1 {
            // Both halves are in one vector: this shift is the only one that is no constant.
            all = l.bits(all, 4 * half, 0xff, 0);
        }
        l.bits(all, BITS * (four % each), Self::MASK, up)
    }
}
