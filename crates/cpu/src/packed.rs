//! Matrices as the products read them: eight rows packed together, block by block, so that a
//! vector holds the same columns of eight rows and every lane sums a row of its own.

use std::fmt::Debug;

use crate::lanes::{LANES, Lanes};

/// Blocks of eight rows, packed.
pub(crate) trait Packed: Clone + Debug + Send + Sync + 'static {
    /// Columns of a block.
    const COLS: usize;
    /// Before anything is packed there.
    const EMPTY: Self;

    /// Packs one block of each row here, as they are stored: where it lies, since blocks that are
    /// made elsewhere are copied twice. By loops, as in wasm a closure of `map` or `from_fn` stays
    /// a call.
    fn pack(&mut self, rows: [&[u8]; LANES]);

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
    const EMPTY: Self = [0; LANES];

    fn pack(&mut self, rows: [&[u8]; LANES]) {
        for (number, row) in self.iter_mut().zip(rows) {
            *number = u16::from_le_bytes([row[0], row[1]]);
        }
    }

    #[inline(always)]
    fn columns<L: Lanes>(&self, l: L, mut put: impl FnMut(usize, L::Floats)) {
        put(0, l.halves(self));
    }
}

impl Packed for Brain {
    const COLS: usize = 1;
    const EMPTY: Self = Self([0; LANES]);

    fn pack(&mut self, rows: [&[u8]; LANES]) {
        self.0.pack(rows);
    }

    #[inline(always)]
    fn columns<L: Lanes>(&self, l: L, mut put: impl FnMut(usize, L::Floats)) {
        put(0, l.brains(&self.0));
    }
}

impl Packed for Single {
    const COLS: usize = 1;
    const EMPTY: Self = [0.0; LANES];

    fn pack(&mut self, rows: [&[u8]; LANES]) {
        for (number, row) in self.iter_mut().zip(rows) {
            *number = f32::from_le_bytes([row[0], row[1], row[2], row[3]]);
        }
    }

    #[inline(always)]
    fn columns<L: Lanes>(&self, l: L, mut put: impl FnMut(usize, L::Floats)) {
        put(0, l.load(self));
    }
}
