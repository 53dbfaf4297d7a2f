//! The inner products: eight rows of a matrix with up to four rows of input at once, so that
//! unpacking is shared by all four. Those of quantised blocks are in `block.rs`.

use crate::codes::UnpackedCodes;
use crate::input::I16x4;
use crate::lanes::Lanes;
use crate::packed::{Bf16x8, F16x8, F32x8, I16x8, I16x8x8};

/// Maximum number of input rows multiplied at once.
pub(crate) const MAX_ROWS: usize = 4;

/// Packed blocks that can be multiplied.
pub(crate) trait Tile: Sized {
    /// Blocks of a row of input.
    type InputBlock;
    /// Blocks with codes unpacked to `U`; the type itself where `UNPACKS` is false.
    type Unpacked<U: UnpackedCodes>: Tile<InputBlock = Self::InputBlock>;
    /// Whether products also use pairs.
    const PAIRS: bool = true;
    /// Whether codes are unpacked for products of pairs with several rows of input.
    const UNPACKS: bool = false;
    /// The same for products of quads.
    const UNPACKS_QUADS: bool = false;
    /// Whether products use quads where these are faster.
    const QUADS: bool = false;

    /// Products of eight packed rows with `T` rows of input.
    fn products<L: Lanes, const T: usize>(
        lanes: L,
        rows: &[Self],
        input: [&[Self::InputBlock]; T],
    ) -> [L::Floats; T];

    /// Replaces `to` by these packed rows, unpacked.
    fn unpack<L: Lanes, U: UnpackedCodes>(
        _lanes: L,
        _rows: &[Self],
        _to: &mut Vec<Self::Unpacked<U>>,
    ) {
        unreachable!("these are not packed")
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
    let mut rows: [&[f32]; T] = [&[]; T];
    for t in 0..T {
        rows[t] = &input[t][..columns.len()];
    }
    for (i, column) in columns.iter().enumerate() {
        let column = numbers(column);
        for t in 0..T {
            sums[t] = l.mul_add(sums[t], column, l.floats(rows[t][i]));
        }
    }
    sums
}

impl Tile for F16x8 {
    type InputBlock = f32;
    type Unpacked<U: UnpackedCodes> = Self;

    #[inline(always)]
    fn products<L: Lanes, const T: usize>(
        l: L,
        rows: &[Self],
        input: [&[f32]; T],
    ) -> [L::Floats; T] {
        plain(l, rows, input, |column| l.load_f16(column))
    }
}

impl Tile for Bf16x8 {
    type InputBlock = f32;
    type Unpacked<U: UnpackedCodes> = Self;

    #[inline(always)]
    fn products<L: Lanes, const T: usize>(
        l: L,
        rows: &[Self],
        input: [&[f32]; T],
    ) -> [L::Floats; T] {
        plain(l, rows, input, |column| l.load_bf16(&column.0))
    }
}

impl Tile for F32x8 {
    type InputBlock = f32;
    type Unpacked<U: UnpackedCodes> = Self;

    #[inline(always)]
    fn products<L: Lanes, const T: usize>(
        l: L,
        rows: &[Self],
        input: [&[f32]; T],
    ) -> [L::Floats; T] {
        plain(l, rows, input, |column| l.load(column))
    }
}

impl Tile for I16x8x8 {
    type InputBlock = [I16x4; 2];
    type Unpacked<U: UnpackedCodes> = Self;

    #[inline(always)]
    fn products<L: Lanes, const T: usize>(
        l: L,
        rows: &[Self],
        input: [&[[I16x4; 2]]; T],
    ) -> [L::Floats; T] {
        let mut sums = [l.floats(0.0); T];
        let mut eights: [&[[I16x4; 2]]; T] = [&[]; T];
        for t in 0..T {
            eights[t] = &input[t][..rows.len()];
        }
        for (i, block) in rows.iter().enumerate() {
            let mut parts = [l.floats(0.0); T];
            for (four, pairs) in block.pairs.as_chunks::<2>().0.iter().enumerate() {
                let mut dots = [l.ints(0); T];
                for (pair, words) in pairs.iter().enumerate() {
                    let words = l.load_words(words);
                    for t in 0..T {
                        dots[t] = l.dot(dots[t], words, l.pair(eights[t][i][four].pairs[pair]));
                    }
                }
                for t in 0..T {
                    let scale = l.floats(eights[t][i][four].scale);
                    parts[t] = l.mul_add(parts[t], l.to_floats(dots[t]), scale);
                }
            }
            let scales = l.load_bf16(&block.scales);
            for t in 0..T {
                sums[t] = l.mul_add(sums[t], parts[t], scales);
            }
        }
        sums
    }
}

impl Tile for I16x8 {
    type InputBlock = f32;
    type Unpacked<U: UnpackedCodes> = Self;

    #[inline(always)]
    fn products<L: Lanes, const T: usize>(
        l: L,
        rows: &[Self],
        input: [&[f32]; T],
    ) -> [L::Floats; T] {
        plain(l, rows, input, |column| l.load_i16(column))
    }
}
