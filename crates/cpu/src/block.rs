//! Quantised blocks of eight rows, and their product, written once for all formats: a number is
//! `step · level + minimum`, and so a product Σ (s l + m) x = s Σ l x + m Σ x.

use conclave_weights::Format;

use crate::codes::Codes;
use crate::input::{BLOCK, Quants};
use crate::lanes::{LANES, Lanes};
use crate::packed::Packed;
use crate::scales::Scales;
use crate::tile::Tile;

/// What a format of quantised blocks is: how eight rows of it are kept, and where a stored block has
/// its parts.
pub(crate) trait Quantised: Clone + std::fmt::Debug + Send + Sync + 'static {
    /// The format.
    const FORMAT: Format;
    /// What codes stand for.
    const LEVELS: Levels = Levels::Less(0);
    /// How codes lie.
    type Codes: Codes;
    /// How steps and minima lie.
    type Scales: Scales;

    /// The code of a column of a stored block: a signed byte's bits, or a whole number.
    fn code(block: &[u8], col: usize) -> u8;

    /// The bits of a stored block's scale and, where it has one, its floor.
    #[inline(always)]
    fn halves(block: &[u8]) -> [u16; 2] {
        let mut halves = [0; 2];
        for (half, &at) in halves.iter_mut().zip(Self::FORMAT.halves()) {
            *half = u16::from_le_bytes([block[at], block[at + 1]]);
        }
        halves
    }

    /// What scale and floor are to be multiplied with in a group of columns.
    fn steps(_block: &[u8], _group: usize) -> [i8; 2] {
        [1; 2]
    }
}

/// What codes stand for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Levels {
    /// The code less a constant.
    Less(u8),
    /// An entry of a table.
    Table([i8; 16]),
}

impl Levels {
    /// What vectors look up, never negative so that it widens without a sign.
    const fn table(self) -> Option<[u8; 16]> {
        let Self::Table(levels) = self else {
            return None;
        };
        let (mut table, mut i) = ([0; 16], 0);
        while i < 16 {
            table[i] = levels[i].cast_unsigned() ^ 0x80;
            i += 1;
        }
        Some(table)
    }

    /// What is to be taken from it.
    const fn less(self) -> i32 {
        match self {
            Self::Less(less) => less as i32,
            Self::Table(_) => 0x80,
        }
    }
}

/// A block of eight rows, `32 · RUNS` columns.
#[derive(Debug, Clone)]
pub(crate) struct Block<F: Quantised, const RUNS: usize> {
    scales: F::Scales,
    codes: [F::Codes; RUNS],
}

impl<F: Quantised, const RUNS: usize> Block<F, RUNS> {
    const GROUP: usize = F::Scales::GROUP;
    const TABLE: Option<[u8; 16]> = F::LEVELS.table();
    const LESS: i32 = F::LEVELS.less();
}

impl<F: Quantised, const RUNS: usize> Packed for Block<F, RUNS> {
    const COLS: usize = BLOCK * RUNS;

    fn pack(rows: [&[u8]; LANES]) -> Self {
        let code =
            |run: usize| move |lane: usize, col: usize| F::code(rows[lane], BLOCK * run + col);
        Self {
            scales: F::Scales::pack(rows.map(F::halves), |lane, group| {
                F::steps(rows[lane], group)
            }),
            codes: std::array::from_fn(|run| F::Codes::pack(code(run))),
        }
    }

    #[inline(always)]
    fn columns<L: Lanes>(&self, l: L, mut put: impl FnMut(usize, L::Floats)) {
        for (few, col) in (0..Self::COLS).step_by(2 * F::Codes::FEW).enumerate() {
            let few = few % (BLOCK / 2 / F::Codes::FEW);
            let words = self.codes[col / BLOCK].words(l, few, Self::TABLE.as_ref());
            let [step, minimum] = self.scales.of(l, col / Self::GROUP);
            for (pair, words) in words.into_iter().enumerate() {
                // One of both columns is multiplied with 1, the other with 0.
                for (which, one) in [1, 1 << 16].into_iter().enumerate() {
                    let level = l.dot(l.ints(-Self::LESS), words, l.pair(one));
                    let mut number = l.times(step, l.of_ints(level));
                    if F::Scales::MINIMA {
                        number = l.plus(number, minimum);
                    }
                    put(col + 2 * pair + which, number);
                }
            }
        }
    }
}

impl<F: Quantised, const RUNS: usize> Tile for Block<F, RUNS> {
    type Part = Quants;

    /// No sum overflows: bytes, and what is unpacked or looked up, are at most 255 without their sign,
    /// input at most 32767, so that 32 products of both are less than 2²⁸; and what `LESS` ≤ 128 takes
    /// away is less than 2²⁷.
    #[inline(always)]
    fn products<L: Lanes, const T: usize>(
        l: L,
        rows: &[Self],
        input: [&[Quants]; T],
    ) -> [L::Floats; T] {
        let mut sums = [l.floats(0.0); T];
        let input = input.map(|row| &row.as_chunks::<RUNS>().0[..rows.len()]);
        for (i, block) in rows.iter().enumerate() {
            for (run, codes) in block.codes.iter().enumerate() {
                let x: [&Quants; T] = std::array::from_fn(|t| &input[t][i][run]);
                for part in 0..BLOCK / Self::GROUP {
                    let total =
                        x.map(|x| x.totals[if Self::GROUP == BLOCK { 0 } else { 1 + part }]);
                    let mut dots = total.map(|total| l.ints(-Self::LESS * total.int));
                    let fews = Self::GROUP / 2 / F::Codes::FEW;
                    for few in fews * part..fews * (part + 1) {
                        let words = codes.words(l, few, Self::TABLE.as_ref());
                        for (pair, words) in words.into_iter().enumerate() {
                            for t in 0..T {
                                let x = l.pair(x[t].pairs[F::Codes::FEW * few + pair]);
                                dots[t] = l.dot(dots[t], words, x);
                            }
                        }
                    }
                    let [steps, minima] = block.scales.of(l, BLOCK / Self::GROUP * run + part);
                    for t in 0..T {
                        let scale = l.times(steps, l.floats(x[t].scale));
                        sums[t] = l.times_add(sums[t], l.of_ints(dots[t]), scale);
                        if F::Scales::MINIMA {
                            sums[t] = l.times_add(sums[t], minima, l.floats(total[t].number));
                        }
                    }
                }
            }
        }
        sums
    }
}
