//! Matrices packed for the products: eight rows together, block by block, so that a vector holds
//! the same columns of eight rows and every lane sums a row of its own.

use std::fmt::Debug;

use crate::lanes::{LANES, Lanes};

#[cfg(target_os = "linux")]
pub(crate) use crate::huge_pages::{Blocks, no_blocks};

/// The blocks of a matrix.
#[cfg(not(target_os = "linux"))]
pub(crate) type Blocks<P> = Vec<P>;

/// Blocks of a matrix without rows.
#[cfg(not(target_os = "linux"))]
pub(crate) fn no_blocks<P>() -> Blocks<P> {
    Vec::new()
}

/// Blocks of eight rows, packed.
pub(crate) trait Packed: Clone + Debug + Send + Sync + 'static {
    /// Columns of a block.
    const COLS: usize;
    /// The initial value.
    const EMPTY: Self;

    /// Packs one stored block of each row in place, since blocks made elsewhere are copied twice.
    /// Uses loops: in wasm a closure of `map` or `from_fn` stays a call.
    fn pack(&mut self, rows: [&[u8]; LANES]);

    /// Calls `put` with each column and its numbers, a lane for each row.
    fn columns<L: Lanes>(&self, lanes: L, put: impl FnMut(usize, L::Floats));
}

/// One column of f16.
pub(crate) type F16x8 = [u16; LANES];

/// One column of BF16.
#[derive(Debug, Clone)]
pub(crate) struct Bf16x8(pub [u16; LANES]);

/// One column of i16, as the cache keeps values.
pub(crate) type I16x8 = [i16; LANES];

/// Eight columns of i16, as the cache keeps keys, with a scale of each row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct I16x8x8 {
    /// BF16.
    pub scales: [u16; LANES],
    /// Two columns of each row at a time.
    pub pairs: [[i16; 2 * LANES]; 4],
}

/// One column of f32.
pub(crate) type F32x8 = [f32; LANES];

impl Packed for F16x8 {
    const COLS: usize = 1;
    const EMPTY: Self = [0; LANES];

    fn pack(&mut self, rows: [&[u8]; LANES]) {
        for (number, row) in self.iter_mut().zip(rows) {
            *number = u16::from_le_bytes([row[0], row[1]]);
        }
    }

    #[inline(always)]
    fn columns<L: Lanes>(&self, l: L, mut put: impl FnMut(usize, L::Floats)) {
        put(0, l.load_f16(self));
    }
}

impl Packed for Bf16x8 {
    const COLS: usize = 1;
    const EMPTY: Self = Self([0; LANES]);

    fn pack(&mut self, rows: [&[u8]; LANES]) {
        self.0.pack(rows);
    }

    #[inline(always)]
    fn columns<L: Lanes>(&self, l: L, mut put: impl FnMut(usize, L::Floats)) {
        put(0, l.load_bf16(&self.0));
    }
}

impl Packed for F32x8 {
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
