//! The inner products: eight rows of a matrix with up to four rows of input at once, so that what
//! is unpacked of the matrix serves all four.

use crate::input::{Eight, Quants};
use crate::lanes::Lanes;
use crate::packed::{Half, Q4, Q4K, Q6K, Q8, Q41, Short, Shorts, Single};

/// Rows of input that are multiplied at once.
pub(crate) const MOST: usize = 4;

/// Packed blocks that can be multiplied.
pub(crate) trait Tile: Sized {
    /// What a row of input consists of.
    type Part;

    /// Products of eight packed rows with `T` rows of input.
    fn products<L: Lanes, const T: usize>(
        lanes: L,
        rows: &[Self],
        input: [&[Self::Part]; T],
    ) -> [L::Floats; T];
}

impl Tile for Q8 {
    type Part = Quants;

    #[inline(always)]
    fn products<L: Lanes, const T: usize>(
        l: L,
        rows: &[Self],
        input: [&[Quants]; T],
    ) -> [L::Floats; T] {
        let mut sums = [l.floats(0.0); T];
        let input = input.map(|row| &row[..rows.len()]);
        for (i, block) in rows.iter().enumerate() {
            let mut dots = [l.ints(0); T];
            for (pair, quants) in block.quants.iter().enumerate() {
                let words = l.words(quants);
                for t in 0..T {
                    dots[t] = l.dot(dots[t], words, l.pair(input[t][i].pairs[pair]));
                }
            }
            let scales = l.halves(&block.scales);
            for t in 0..T {
                let scale = l.times(scales, l.floats(input[t][i].scale));
                sums[t] = l.times_add(sums[t], l.of_ints(dots[t]), scale);
            }
        }
        sums
    }
}

/// Adds the products of 32 columns of nibbles.
#[inline(always)]
fn nibbles<L: Lanes, const T: usize>(
    l: L,
    quants: &[[u8; 32]; 4],
    input: [&Quants; T],
    mut dots: [L::Ints; T],
) -> [L::Ints; T] {
    for (eight, quants) in quants.iter().enumerate() {
        let words = l.nibbles(quants);
        for (pair, words) in words.into_iter().enumerate() {
            for t in 0..T {
                let x = l.pair(input[t].pairs[4 * eight + pair]);
                dots[t] = l.dot(dots[t], words, x);
            }
        }
    }
    dots
}

/// Adds what 32 columns of `step · q + minimum` make: Σ (s q + m) x = s Σ q x + m Σ x, of which `dots`
/// are the Σ q x.
#[inline(always)]
fn with_minima<L: Lanes, const T: usize>(
    l: L,
    [steps, minima]: [L::Floats; 2],
    input: [&Quants; T],
    dots: [L::Ints; T],
    mut sums: [L::Floats; T],
) -> [L::Floats; T] {
    for t in 0..T {
        let scale = l.times(steps, l.floats(input[t].scale));
        sums[t] = l.times_add(sums[t], l.of_ints(dots[t]), scale);
        sums[t] = l.times_add(sums[t], minima, l.floats(input[t].total));
    }
    sums
}

impl Tile for Q4 {
    type Part = Quants;

    #[inline(always)]
    fn products<L: Lanes, const T: usize>(
        l: L,
        rows: &[Self],
        input: [&[Quants]; T],
    ) -> [L::Floats; T] {
        let mut sums = [l.floats(0.0); T];
        let input = input.map(|row| &row[..rows.len()]);
        for (i, block) in rows.iter().enumerate() {
            let x: [&Quants; T] = std::array::from_fn(|t| &input[t][i]);
            // Nibbles stand for q − 8: Σ (q − 8) x = Σ q x − 8 Σ x.
            let dots = nibbles(l, &block.quants, x, x.map(|x| l.ints(-8 * x.sum)));
            let scales = l.halves(&block.scales);
            for t in 0..T {
                let scale = l.times(scales, l.floats(x[t].scale));
                sums[t] = l.times_add(sums[t], l.of_ints(dots[t]), scale);
            }
        }
        sums
    }
}

impl Tile for Q41 {
    type Part = Quants;

    #[inline(always)]
    fn products<L: Lanes, const T: usize>(
        l: L,
        rows: &[Self],
        input: [&[Quants]; T],
    ) -> [L::Floats; T] {
        let mut sums = [l.floats(0.0); T];
        let input = input.map(|row| &row[..rows.len()]);
        for (i, block) in rows.iter().enumerate() {
            let x: [&Quants; T] = std::array::from_fn(|t| &input[t][i]);
            let dots = nibbles(l, &block.quants, x, [l.ints(0); T]);
            let factors = [l.halves(&block.scales), l.halves(&block.minima)];
            sums = with_minima(l, factors, x, dots, sums);
        }
        sums
    }
}

impl Tile for Q4K {
    type Part = Quants;

    #[inline(always)]
    fn products<L: Lanes, const T: usize>(
        l: L,
        rows: &[Self],
        input: [&[Quants]; T],
    ) -> [L::Floats; T] {
        let mut sums = [l.floats(0.0); T];
        let input = input.map(|row| &row.as_chunks::<8>().0[..rows.len()]);
        for (i, block) in rows.iter().enumerate() {
            let (scales, floors) = (l.halves(&block.scales), l.halves(&block.floors));
            for (group, quants) in block.quants.iter().enumerate() {
                let x: [&Quants; T] = std::array::from_fn(|t| &input[t][i][group]);
                let dots = nibbles(l, quants, x, [l.ints(0); T]);
                let steps = l.times(scales, l.of_bytes(&block.steps[group]));
                let minima = l.times(floors, l.of_bytes(&block.minima[group]));
                sums = with_minima(l, [steps, minima], x, dots, sums);
            }
        }
        sums
    }
}

impl Tile for Q6K {
    type Part = Quants;

    #[inline(always)]
    fn products<L: Lanes, const T: usize>(
        l: L,
        rows: &[Self],
        input: [&[Quants]; T],
    ) -> [L::Floats; T] {
        let mut sums = [l.floats(0.0); T];
        let input = input.map(|row| &row.as_chunks::<8>().0[..rows.len()]);
        for (i, block) in rows.iter().enumerate() {
            let scales = l.halves(&block.scales);
            for (group, quants) in block.quants.iter().enumerate() {
                let x: [&Quants; T] = std::array::from_fn(|t| &input[t][i][group / 2]);
                let mut dots = [l.ints(0); T];
                for (pair, quants) in quants.iter().enumerate() {
                    let words = l.words(quants);
                    for t in 0..T {
                        let x = l.pair(x[t].pairs[8 * (group % 2) + pair]);
                        dots[t] = l.dot(dots[t], words, x);
                    }
                }
                let steps = l.times(scales, l.of_bytes(&block.steps[group]));
                for t in 0..T {
                    let scale = l.times(steps, l.floats(x[t].scale));
                    sums[t] = l.times_add(sums[t], l.of_ints(dots[t]), scale);
                }
            }
        }
        sums
    }
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
    let input = input.map(|row| &row[..columns.len()]);
    for (i, column) in columns.iter().enumerate() {
        let column = numbers(column);
        for t in 0..T {
            sums[t] = l.times_add(sums[t], column, l.floats(input[t][i]));
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
    type Part = Eight;

    #[inline(always)]
    fn products<L: Lanes, const T: usize>(
        l: L,
        rows: &[Self],
        input: [&[Eight]; T],
    ) -> [L::Floats; T] {
        let mut sums = [l.floats(0.0); T];
        let input = input.map(|row| &row[..rows.len()]);
        for (i, block) in rows.iter().enumerate() {
            let mut dots = [l.ints(0); T];
            for (pair, words) in block.iter().enumerate() {
                let words = l.load_words(words);
                for t in 0..T {
                    dots[t] = l.dot(dots[t], words, l.pair(input[t][i].pairs[pair]));
                }
            }
            for t in 0..T {
                let scale = l.floats(input[t][i].scale);
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
