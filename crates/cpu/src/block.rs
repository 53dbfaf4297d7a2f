//! Quantised blocks of eight rows, and their product, written once for all formats: a number is
//! `step · level + minimum`, and so a product Σ (s l + m) x = s Σ l x + m Σ x.

use conclave_weights::quantised::Levels;

use crate::codes::Codes;
use crate::formats::Kept;
use crate::input::{BLOCK, Quants};
use crate::lanes::{LANES, Lanes};
use crate::packed::Packed;
use crate::scales::Scales;
use crate::tile::Tile;

/// What vectors look up, never negative so that it widens without a sign; `None` where codes are
/// levels but for a constant.
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

/// What is to be taken from codes, or from what they look up.
const fn less(levels: Levels) -> u8 {
    match levels {
        Levels::Offset(less) => less,
        Levels::Table(_) => 0x80,
    }
}

/// A block of eight rows, `32 · RUNS` columns.
#[derive(Debug, Clone)]
pub(crate) struct Block<F: Kept, const RUNS: usize> {
    scales: F::HeldScales,
    codes: [F::HeldCodes; RUNS],
}

impl<F: Kept, const RUNS: usize> Block<F, RUNS> {
    const GROUP: usize = F::HeldScales::GROUP;
    const TABLE: Option<[u8; 16]> = table(F::LEVELS);
    /// What is taken from codes before and behind they are held: where these are levels, before.
    const LESS: [u8; 2] = if F::HeldCodes::LEVELS {
        [less(F::LEVELS), 0]
    } else {
        [0, less(F::LEVELS)]
    };
}

impl<F: Kept, const RUNS: usize> Packed for Block<F, RUNS> {
    const COLS: usize = BLOCK * RUNS;
    const EMPTY: Self = Self {
        scales: F::HeldScales::EMPTY,
        codes: [F::HeldCodes::EMPTY; RUNS],
    };

    fn pack(&mut self, rows: [&[u8]; LANES]) {
        let mut halves = [[0; 2]; LANES];
        for (halves, row) in halves.iter_mut().zip(rows) {
            *halves = F::halves(row);
        }
        let steps = |lane: usize, group| F::steps(rows[lane], group);
        self.scales.pack(halves, steps);
        for (run, packed) in self.codes.iter_mut().enumerate() {
            let mut codes = [[0; BLOCK]; LANES];
            for (codes, row) in codes.iter_mut().zip(rows) {
                *codes = F::codes(row, run);
                for code in codes {
                    *code = code.wrapping_sub(Self::LESS[0]);
                }
            }
            packed.pack(&codes);
        }
    }

    #[inline(always)]
    fn columns<L: Lanes>(&self, l: L, mut put: impl FnMut(usize, L::Floats)) {
        for (few, col) in (0..Self::COLS).step_by(2 * F::HeldCodes::FEW).enumerate() {
            let few = few % (BLOCK / 2 / F::HeldCodes::FEW);
            let words = self.codes[col / BLOCK].words(l, few, Self::TABLE.as_ref());
            let [step, minimum] = self.scales.of(l, col / Self::GROUP);
            for (pair, words) in words.into_iter().enumerate() {
                // One of both columns is multiplied with 1, the other with 0.
                for (which, one) in [1, 1 << 16].into_iter().enumerate() {
                    let level = l.dot(l.ints(-i32::from(Self::LESS[1])), words, l.pair(one));
                    let mut number = l.times(step, l.of_ints(level));
                    if F::HeldScales::MINIMA {
                        number = l.plus(number, minimum);
                    }
                    put(col + 2 * pair + which, number);
                }
            }
        }
    }
}

impl<F: Kept, const RUNS: usize> Block<F, RUNS> {
    /// Adds Σ code · input of group `part` of a run's columns to `sums`, in pairs.
    #[inline(always)]
    fn pairs<L: Lanes, const T: usize>(
        l: L,
        codes: &F::HeldCodes,
        part: usize,
        input: [&Quants; T],
        sums: &mut [L::Ints; T],
    ) {
        let mut pairs = [&input[0].pairs; T];
        for t in 1..T {
            pairs[t] = &input[t].pairs;
        }
        let fews = Self::GROUP / 2 / F::HeldCodes::FEW;
        for few in fews * part..fews * (part + 1) {
            codes.products(l, few, Self::TABLE.as_ref(), &pairs, sums);
        }
    }

    /// The same in quads: 2⁸ · Σ code · high + Σ code · low, exactly. Of few rows of input both at
    /// once, since each product waits for the last one of its sum; of many one behind the other,
    /// since all their sums would not fit the registers.
    #[inline(always)]
    fn quads<L: Lanes, const T: usize>(
        l: L,
        codes: &F::HeldCodes,
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

/// Adds two quads of columns with the quads `at` of `T` rows of input to `sums`.
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

impl<F: Kept, const RUNS: usize> Tile for Block<F, RUNS> {
    type Part = Quants;
    const QUADS: bool = F::HeldCodes::QUADS && Self::TABLE.is_none();

    /// No sum overflows: bytes, and what is unpacked or looked up, are at most 255 without their
    /// sign, input less than 2¹⁵, so that 32 products of both are less than 2²⁸; and what `LESS` ≤
    /// 128 takes away is less than 2²⁷.
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
                let mut input = [&runs[0][i][run]; T];
                for t in 1..T {
                    input[t] = &runs[t][i][run];
                }
                for part in 0..BLOCK / Self::GROUP {
                    let total = if Self::GROUP == BLOCK { 0 } else { 1 + part };
                    let mut dots = [l.ints(0); T];
                    if Self::LESS[1] > 0 {
                        for t in 0..T {
                            let total = input[t].totals[total].int;
                            dots[t] = l.ints(-i32::from(Self::LESS[1]) * total);
                        }
                    }
                    if L::QUADS && Self::QUADS {
                        Self::quads(l, codes, part, input, &mut dots);
                    } else {
                        Self::pairs(l, codes, part, input, &mut dots);
                    }
                    let [steps, minima] = block.scales.of(l, BLOCK / Self::GROUP * run + part);
                    for t in 0..T {
                        let x = input[t];
                        let scale = l.times(steps, l.floats(x.scale));
                        sums[t] = l.times_add(sums[t], l.of_ints(dots[t]), scale);
                        if F::HeldScales::MINIMA {
                            sums[t] =
                                l.times_add(sums[t], minima, l.floats(x.totals[total].number));
                        }
                    }
                }
            }
        }
        sums
    }
}
