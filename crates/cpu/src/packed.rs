//! Matrices as the products read them: eight rows packed together, block by block, so that a
//! vector holds the same columns of eight rows and every lane sums a row of its own.

use std::fmt::Debug;

use crate::lanes::{LANES, Lanes};

/// Blocks of eight rows, packed.
pub(crate) trait Packed: Clone + Debug + Send + Sync + 'static {
    /// Columns of a block.
    const COLS: usize;

    /// Packs one block of each row, as they are stored.
    fn pack(rows: [&[u8]; LANES]) -> Self;

    /// Puts each column's number and the numbers there, a lane for each row.
    fn columns<L: Lanes>(&self, lanes: L, put: impl FnMut(usize, L::Floats));
}

/// One column of f16.
pub(crate) type Half = [u16; LANES];

/// One column of BF16.
#[derive(Debug, Clone)]
pub(crate) struct Brain(pub [u16; LANES]);

/// One column of i16, as the cache keeps values.
pub(crate) type Short = [i16; LANES];

/// Four columns of i16, as the cache keeps keys: two of each row at a time.
pub(crate) type Shorts = [[i16; 2 * LANES]; 2];

/// One column of f32.
pub(crate) type Single = [f32; LANES];

impl Packed for Half {
    const COLS: usize = 1;

    fn pack(rows: [&[u8]; LANES]) -> Self {
        rows.map(|row| u16::from_le_bytes([row[0], row[1]]))
    }

    #[inline(always)]
    fn columns<L: Lanes>(&self, l: L, mut put: impl FnMut(usize, L::Floats)) {
        put(0, l.halves(self));
    }
}

impl Packed for Brain {
    const COLS: usize = 1;

    fn pack(rows: [&[u8]; LANES]) -> Self {
        Self(Half::pack(rows))
    }

    #[inline(always)]
    fn columns<L: Lanes>(&self, l: L, mut put: impl FnMut(usize, L::Floats)) {
        put(0, l.brains(&self.0));
    }
}

impl Packed for Single {
    const COLS: usize = 1;

    fn pack(rows: [&[u8]; LANES]) -> Self {
        rows.map(|row| f32::from_le_bytes([row[0], row[1], row[2], row[3]]))
    }

    #[inline(always)]
    fn columns<L: Lanes>(&self, l: L, mut put: impl FnMut(usize, L::Floats)) {
        put(0, l.load(self));
    }
}
