//! Quantised blocks of eight rows, and their product, once for all formats: a number is `step ·
//! level + minimum`, so a product is Σ (s l + m) x = s Σ l x + m Σ x.

use std::mem::MaybeUninit;

use conclave_weights::quantised::Levels;

use crate::codes::{Codes, in_fours};
use crate::formats::PackedFormat;
use crate::input::{BLOCK, Quants};
use crate::lanes::{LANES, Lanes};
use crate::packed::Packed;
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

/// A block of eight rows, `32 · RUNS` columns.
#[derive(Debug, Clone)]
pub(crate) struct Block<F: PackedFormat, const RUNS: usize> {
    scales: F::ScaleStorage,
    codes: [F::CodeStorage; RUNS],
}

impl<F: PackedFormat, const RUNS: usize> Block<F, RUNS> {
    const GROUP: usize = F::ScaleStorage::GROUP;
    const TABLE: Option<[u8; 16]> = table(F::LEVELS);
    /// Constants subtracted before packing and after unpacking. The first is used where packed
    /// codes are levels.
    const OFFSETS: [u8; 2] = if F::CodeStorage::LEVELS {
        [offset(F::LEVELS), 0]
    } else {
        [0, offset(F::LEVELS)]
    };
}

impl<F: PackedFormat, const RUNS: usize> Packed for Block<F, RUNS> {
    const COLS: usize = BLOCK * RUNS;
    const EMPTY: Self = Self {
        scales: F::ScaleStorage::EMPTY,
        codes: [F::CodeStorage::EMPTY; RUNS],
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
            packed.pack(&in_fours(codes), Self::OFFSETS[0]);
        }
    }

    #[inline(always)]
    fn columns<L: Lanes>(&self, l: L, mut put: impl FnMut(usize, L::Floats)) {
        for (few, col) in (0..Self::COLS).step_by(2 * F::CodeStorage::FEW).enumerate() {
            let few = few % (BLOCK / 2 / F::CodeStorage::FEW);
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

impl<F: PackedFormat, const RUNS: usize> Block<F, RUNS> {
    /// Adds Σ code · input over the columns of group `part` of a run to `sums`, by products of
    /// pairs.
    #[inline(always)]
    fn pairs<L: Lanes, const T: usize>(
        l: L,
        codes: &F::CodeStorage,
        part: usize,
        input: [&Quants; T],
        sums: &mut [L::Ints; T],
    ) {
        let mut pairs = [&input[0].pairs; T];
        for t in 1..T {
            pairs[t] = &input[t].pairs;
        }
        let fews = Self::GROUP / 2 / F::CodeStorage::FEW;
        let begin = fews * part;
        // Two turns of smaller groups are faster unrolled.
        let turns = if L::ROLLS && T > 1 && Self::GROUP == BLOCK {
            l.turns(fews)
        } else {
            fews
        };
        for few in begin..begin + turns {
            codes.products(l, few, Self::TABLE.as_ref(), &pairs, sums);
        }
    }

    /// The same sums by products of quads: 2⁸ · Σ code · high + Σ code · low, exactly. For few rows
    /// of input both sums are made together, since each product waits for the previous one of its
    /// sum. For many rows they are made one after the other, since all of them together exceed the
    /// registers.
    #[inline(always)]
    fn quads<L: Lanes, const T: usize>(
        l: L,
        codes: &F::CodeStorage,
        part: usize,
        input: [&Quants; T],
        sums: &mut [L::Ints; T],
    ) {
        let eights = Self::GROUP / 8;
        let begin = eights * part;
        let all = begin..begin + l.turns(eights);
        let mut high = [l.ints(0); T];
        for eight in all.clone() {
            let columns = codes.quads(l, eight);
            eight_columns(l, columns, input, [0, eight], &mut high);
            if T <= 2 {
                eight_columns(l, columns, input, [1, eight], sums);
            }
        }
        for t in 0..T {
            sums[t] = l.with_low(high[t], sums[t]);
        }
        if T > 2 {
            for eight in all {
                eight_columns(l, codes.quads(l, eight), input, [1, eight], sums);
            }
        }
    }
}

/// Adds the products of eight columns, two quads, with the quads `at` of `T` rows of input to
/// `sums`.
#[inline(always)]
fn eight_columns<L: Lanes, const T: usize>(
    l: L,
    columns: [L::Words; 2],
    input: [&Quants; T],
    at: [usize; 2],
    sums: &mut [L::Ints; T],
) {
    for (quad, columns) in columns.into_iter().enumerate() {
        for t in 0..T {
            sums[t] = l.quad(sums[t], columns, input[t].quads[at[0]][at[1]][quad]);
        }
    }
}

impl<F: PackedFormat, const RUNS: usize> Tile for Block<F, RUNS> {
    type InputBlock = Quants;
    const QUADS: bool = F::CodeStorage::QUADS && Self::TABLE.is_none();

    /// No sum overflows: bytes, and unpacked or looked-up values, are at most 255 in magnitude,
    /// input at most 2¹⁵, so that 32 products are less than 2²⁸; the part subtracted for
    /// `OFFSETS` ≤ 128 is less than 2²⁷.
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
                    let total = if Self::GROUP == BLOCK { 0 } else { 1 + part };
                    let mut dots = [l.ints(0); T];
                    if Self::OFFSETS[1] > 0 {
                        for t in 0..T {
                            let total = input[t].totals[total].int;
                            dots[t] = l.ints(-i32::from(Self::OFFSETS[1]) * total);
                        }
                    }
                    if L::QUADS && Self::QUADS {
                        Self::quads(l, codes, part, input, &mut dots);
                    } else {
                        Self::pairs(l, codes, part, input, &mut dots);
                    }
                    let [steps, minima] = block
                        .scales
                        .step_and_minimum(l, BLOCK / Self::GROUP * run + part);
                    for t in 0..T {
                        let x = input[t];
                        let scale = l.mul(steps, l.floats(x.scale));
                        sums[t] = l.mul_add(sums[t], l.to_floats(dots[t]), scale);
                        if F::ScaleStorage::MINIMA {
                            sums[t] = l.mul_add(sums[t], minima, l.floats(x.totals[total].number));
                        }
                    }
                }
            }
        }
        sums
    }
}
