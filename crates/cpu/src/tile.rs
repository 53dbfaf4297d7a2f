//! The inner products: eight rows of a matrix with up to four rows of input at once, so that what
//! is unpacked of the matrix serves all four. Those of quantised blocks are in `block.rs`.

use crate::input::Four;
use crate::lanes::Lanes;
use crate::packed::{Brain, Half, Short, Shorts, Single};

/// Rows of input that are multiplied at once.
pub(crate) const MOST: usize = 4;

/// Packed blocks that can be multiplied.
pub(crate) trait Tile: Sized {
    /// What a row of input consists of.
    type Part;
    /// Whether it multiplies quads where these are faster.
    const QUADS: bool = false;

    /// Products of eight packed rows with `T` rows of input.
    fn products<L: Lanes, const T: usize>(
        lanes: L,
        rows: &[Self],
        input: [&[Self::Part]; T],
    ) -> [L::Floats; T];
}

/// Products with columns of plain numbers.
#[inline(always)]
fn plain<L: Lanes, P, const T: usize>(
    l: L,
    columns: &[P],
    input: [&[f32]; T],
    numbers: impl Fn(&P) -> L::Floats,
) -> [L::Floats; T] {
    let mut sums = [l.floats(0.0); T];
    let mut rows: [&[f32]; T] = [&[]; T];
    for t in 0..T {
        rows[t] = &input[t][..columns.len()];
    }
    for (i, column) in columns.iter().enumerate() {
        let column = numbers(column);
        for t in 0..T {
            sums[t] = l.times_add(sums[t], column, l.floats(rows[t][i]));
        }
    }
    sums
}

impl Tile for Half {
    type Part = f32;

    #[inline(always)]
    fn products<L: Lanes, const T: usize>(
        l: L,
        rows: &[Self],
        input: [&[f32]; T],
    ) -> [L::Floats; T] {
        plain(l, rows, input, |column| l.halves(column))
    }
}

impl Tile for Brain {
    type Part = f32;

    #[inline(always)]
    fn products<L: Lanes, const T: usize>(
        l: L,
        rows: &[Self],
        input: [&[f32]; T],
    ) -> [L::Floats; T] {
        plain(l, rows, input, |column| l.brains(&column.0))
    }
}

impl Tile for Single {
    type Part = f32;

    #[inline(always)]
    fn products<L: Lanes, const T: usize>(
        l: L,
        rows: &[Self],
        input: [&[f32]; T],
    ) -> [L::Floats; T] {
        plain(l, rows, input, |column| l.load(column))
    }
}

impl Tile for Shorts {
    type Part = Four;

    #[inline(always)]
    fn products<L: Lanes, const T: usize>(
        l: L,
        rows: &[Self],
        input: [&[Four]; T],
    ) -> [L::Floats; T] {
        let mut sums = [l.floats(0.0); T];
        let mut fours: [&[Four]; T] = [&[]; T];
        for t in 0..T {
            fours[t] = &input[t][..rows.len()];
        }
        for (i, block) in rows.iter().enumerate() {
            let mut dots = [l.ints(0); T];
            for (pair, words) in block.iter().enumerate() {
                let words = l.load_words(words);
                for t in 0..T {
                    dots[t] = l.dot(dots[t], words, l.pair(fours[t][i].pairs[pair]));
                }
            }
            for t in 0..T {
                let scale = l.floats(fours[t][i].scale);
                sums[t] = l.times_add(sums[t], l.of_ints(dots[t]), scale);
            }
        }
        sums
    }
}

impl Tile for Short {
    type Part = f32;

    #[inline(always)]
    fn products<L: Lanes, const T: usize>(
        l: L,
        rows: &[Self],
        input: [&[f32]; T],
    ) -> [L::Floats; T] {
        plain(l, rows, input, |column| l.of_words(column))
    }
}
