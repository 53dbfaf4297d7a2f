//! Quantised blocks of eight rows, packed, and their products, once for all formats.

use std::mem::MaybeUninit;

use conclave_weights::quantised::Levels;

use crate::codes::{Codes, UnpackedCodes};
use crate::formats::PackedFormat;
use crate::group::{Group, RunCodes};
use crate::input::{BLOCK, Quants};
use crate::lanes::{LANES, Lanes};
use crate::packed::Packed;
use crate::run::Unpacked;
use crate::scales::Scales;
use crate::tile::Tile;

/// Table of levels that vectors look up, shifted so that no entry is negative: it is then widened
/// without a sign. `None` for levels that are codes minus a constant.
const fn table(levels: Levels) -> Option<[u8; 16]> {
    let Levels::Table(levels) = levels else {
        return None;
    };
    let (mut table, mut i) = ([0; 16], 0);
    while i < 16 {
        table[i] = levels[i].cast_unsigned() ^ 0x80;
        i += 1;
    }
    Some(table)
}

/// Constant subtracted from the codes, or from the table's shifted entries.
const fn offset(levels: Levels) -> u8 {
    match levels {
        Levels::Offset(less) => less,
        Levels::Table(_) => 0x80,
    }
}

/// A block of eight rows, `32 · RUNS` columns, whose codes are stored as `C`. Aligned so that no
/// vector of 16 bytes crosses a line of a cache.
#[derive(Debug, Clone)]
#[repr(align(16))]
pub(crate) struct Block<F: PackedFormat, C, const RUNS: usize> {
    scales: F::ScaleStorage,
    codes: [C; RUNS],
}

impl<F: PackedFormat, C: Codes, const RUNS: usize> Block<F, C, RUNS> {
    const GROUP: usize = F::ScaleStorage::GROUP;
    const TABLE: Option<[u8; 16]> = table(F::LEVELS);
    /// Constants subtracted before packing and after unpacking. The first is used where packed
    /// codes are levels.
    const OFFSETS: [u8; 2] = if C::LEVELS {
        [offset(F::LEVELS), 0]
    } else {
        [0, offset(F::LEVELS)]
    };

    /// The codes of a run, with this format's levels.
    #[inline(always)]
    fn run_codes(codes: &C) -> RunCodes<'_, C> {
        RunCodes {
            codes,
            table: Self::TABLE.as_ref(),
            offset: Self::OFFSETS[1],
        }
    }
}

impl<F: PackedFormat, C: Codes, const RUNS: usize> Packed for Block<F, C, RUNS> {
    const COLS: usize = BLOCK * RUNS;
    const EMPTY: Self = Self {
        scales: F::ScaleStorage::EMPTY,
        codes: [C::EMPTY; RUNS],
    };

    fn pack(&mut self, rows: [&[u8]; LANES]) {
        let mut halves = [[0; 2]; LANES];
        for (halves, row) in halves.iter_mut().zip(rows) {
            *halves = F::halves(&row[..F::BYTES]);
        }
        let steps = |lane: usize, group| F::steps(&rows[lane][..F::BYTES], group);
        self.scales.pack(halves, steps);
        for (run, packed) in self.codes.iter_mut().enumerate() {
            // In wasm, filling such an array with zeros is a call.
            let mut codes = [const { MaybeUninit::uninit() }; LANES];
            for (codes, row) in codes.iter_mut().zip(rows) {
                // With a length that the compiler knows, this is the only check.
                codes.write(F::codes(&row[..F::BYTES], run));
            }
            // SAFETY: those of every lane were written.
            let codes = unsafe { &*(&raw const codes).cast::<[[u8; BLOCK]; LANES]>() };
            packed.pack(codes, Self::OFFSETS[0]);
        }
    }

    #[inline(always)]
    fn columns<L: Lanes>(&self, l: L, mut put: impl FnMut(usize, L::Floats)) {
        for (few, col) in (0..Self::COLS).step_by(2 * C::FEW).enumerate() {
            let few = few % (BLOCK / 2 / C::FEW);
            let words = self.codes[col / BLOCK].words(l, few, Self::TABLE.as_ref());
            let [step, minimum] = self.scales.step_and_minimum(l, col / Self::GROUP);
            for (pair, words) in words.into_iter().enumerate() {
                // One of both columns is multiplied by 1, the other by 0.
                for (which, one) in [1, 1 << 16].into_iter().enumerate() {
                    let level = l.dot(l.ints(-i32::from(Self::OFFSETS[1])), words, l.pair(one));
                    let mut number = l.mul(step, l.to_floats(level));
                    if F::ScaleStorage::MINIMA {
                        number = l.add(number, minimum);
                    }
                    put(col + 2 * pair + which, number);
                }
            }
        }
    }
}

impl<F: PackedFormat, C: Codes, const RUNS: usize> Tile for Block<F, C, RUNS> {
    type InputBlock = Quants;
    type Unpacked<U: UnpackedCodes> = F::Unpacked<U>;
    const QUADS: bool = C::QUADS && Self::TABLE.is_none();
    const PAIRS: bool = C::PAIRS;
    const UNPACKS: bool = !C::LEVELS;
    const UNPACKS_QUADS: bool = C::UNPACKS_QUADS;

    #[inline(always)]
    fn unpack<L: Lanes, U: UnpackedCodes>(l: L, rows: &[Self], to: &mut Vec<F::Unpacked<U>>) {
        to.resize(rows.len() * RUNS, F::Unpacked::EMPTY);
        for (block, runs) in rows.iter().zip(to.as_chunks_mut::<RUNS>().0) {
            for (run, (to, codes)) in runs.iter_mut().zip(&block.codes).enumerate() {
                let first = BLOCK / Self::GROUP * run;
                let scale = |group| block.scales.step_and_minimum(l, first + group);
                to.unpack(l, Self::run_codes(codes), scale);
            }
        }
    }

    #[inline(always)]
    fn products<L: Lanes, const T: usize>(
        l: L,
        rows: &[Self],
        input: [&[Quants]; T],
    ) -> [L::Floats; T] {
        let mut sums = [l.floats(0.0); T];
        // Loops, since a closure of `map` may stay a call.
        let mut runs: [&[[Quants; RUNS]]; T] = [&[]; T];
        for t in 0..T {
            runs[t] = &input[t].as_chunks().0[..rows.len()];
        }
        for (i, block) in rows.iter().enumerate() {
            for (run, codes) in block.codes.iter().enumerate() {
                // Run by run: a whole block can be more lines than a processor fetches at once, so
                // that its products would wait.
                l.prefetch(block, run, RUNS);
                let mut input = [&runs[0][i][run]; T];
                for t in 1..T {
                    input[t] = &runs[t][i][run];
                }
                for part in 0..BLOCK / Self::GROUP {
                    let group = Group {
                        columns: Self::GROUP,
                        part,
                        minima: F::ScaleStorage::MINIMA,
                    };
                    let at = BLOCK / Self::GROUP * run + part;
                    let scale = block.scales.step_and_minimum(l, at);
                    Self::run_codes(codes).add(l, group, scale, input, &mut sums);
                }
            }
        }
        sums
    }
}
