//! What a matrix is multiplied with: rows of numbers, also as 16-bit integers.
//!
//! Blocks of 32 numbers share a scale of 1/32767 of the largest: with the weights' bytes they make
//! sums that fit i32, and their rounding is a thousandth of what f16 would do. Eight bits, as other
//! engines take them, would cost a logit some hundredths. Where four bytes may be multiplied at
//! once the scale is 1/32639, the most that two signed bytes have, so that the sums are the same
//! without.

use crate::exp::ROUND;
use crate::lanes::{MAY_MULTIPLY_QUADS, multiply_quads};
use crate::threads;

/// Numbers that share a scale.
pub(crate) const BLOCK: usize = 32;

/// 32 numbers `scale · q`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Quants {
    /// Two `q` each, the first in the low half.
    pub pairs: [i32; BLOCK / 2],
    /// Where quads are multiplied the same as `2⁸ · high + low`, signed bytes of both: of each
    /// eight columns two quads, of columns 0, 2, 1 and 3, the first in the low byte.
    pub quads: [[[i32; 2]; BLOCK / 8]; 2],
    /// The step.
    pub scale: f32,
    /// Of all, of the first half and of the second.
    pub totals: [Total; 3],
}

/// What some numbers `scale · q` are together.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Total {
    /// Σ q.
    pub int: i32,
    /// `scale` · Σ q.
    pub number: f32,
}

/// What rows of input consist of, to the blocks that they are multiplied with.
pub(crate) trait Part: Sized {
    /// Columns of one.
    const COLS: usize;

    /// All rows in these.
    fn of(input: &Input) -> &[Self];
}

impl Part for Quants {
    const COLS: usize = BLOCK;

    fn of(input: &Input) -> &[Self] {
        &input.quants
    }
}

impl Part for f32 {
    const COLS: usize = 1;

    fn of(input: &Input) -> &[Self] {
        &input.values
    }
}

/// Rows that matrices are multiplied with; kept from product to product for its memory.
#[derive(Debug, Clone, Default)]
pub struct Input {
    cols: usize,
    values: Vec<f32>,
    /// Empty unless rows are whole blocks.
    quants: Vec<Quants>,
}

impl Input {
    /// No rows.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes rows of `cols` numbers, `[rows, cols]`; what is no whole row is left out.
    pub fn set(&mut self, values: &[f32], cols: usize) {
        self.cols = cols;
        let whole = values.len().checked_div(cols).unwrap_or(0) * cols;
        self.values.clear();
        self.values.extend_from_slice(&values[..whole]);
        self.quants.clear();
        if cols.is_multiple_of(BLOCK) {
            let (blocks, _) = self.values.as_chunks::<BLOCK>();
            // Some ten operations a number.
            let threads = threads::sharing(10 * whole);
            let quads = multiply_quads();
            if threads == 1 {
                let quants = blocks.iter().map(|block| quantise(block, quads));
                self.quants.extend(quants);
                return;
            }
            self.quants.resize(blocks.len(), Quants::default());
            let each = blocks.len().div_ceil(threads);
            let parts = self.quants.chunks_mut(each).zip(blocks.chunks(each));
            threads::each(parts, |(quants, blocks)| {
                for (quants, block) in quants.iter_mut().zip(blocks) {
                    *quants = quantise(block, quads);
                }
            });
        }
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.values.len().checked_div(self.cols).unwrap_or(0)
    }

    /// All rows, one after another.
    pub fn numbers(&self) -> &[f32] {
        &self.values
    }

    /// Numbers in a row.
    pub fn cols(&self) -> usize {
        self.cols
    }
}

/// Four numbers `scale · q`, |q| at most 16383, for products with 16-bit integers: their sum fits.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Four {
    /// Two `q` each, the first in the low half.
    pub pairs: [i32; 2],
    /// The step.
    pub scale: f32,
}

impl Four {
    /// Rounds up to four numbers, the missing ones zeros.
    pub fn of(values: &[f32]) -> Self {
        let (scale, inverse) = step::<16383>(largest(values));
        let mut rounded = [0; 4];
        for (q, value) in rounded.iter_mut().zip(values) {
            *q = nearest(value * inverse);
        }
        Self {
            pairs: std::array::from_fn(|i| rounded[2 * i + 1] << 16 | rounded[2 * i] & 0xffff),
            scale,
        }
    }
}

/// The largest magnitude; of NaNs and infinities, which have the largest bits of all, one of them.
#[inline(always)]
fn largest(values: &[f32]) -> f32 {
    let magnitudes = values.iter().map(|value| value.to_bits() & 0x7fff_ffff);
    f32::from_bits(magnitudes.fold(0, u32::max))
}

/// The step of 16 bits of which the largest magnitude is 32767, and 1 over it.
pub(crate) fn step_of(values: &[f32]) -> (f32, f32) {
    step::<32767>(largest(values))
}

/// The nearest integer to a number of at most 2²²; to what is none, any.
#[inline(always)]
pub(crate) fn nearest(number: f32) -> i32 {
    let shifted = (number + ROUND).to_bits();
    shifted.wrapping_sub(ROUND.to_bits()).cast_signed()
}

/// The step of which `largest` is `MOST`, and 1 over it. No number for what is none: then no sum
/// with it is one either.
#[inline(always)]
fn step<const MOST: u16>(largest: f32) -> (f32, f32) {
    let scale = largest / f32::from(MOST);
    if !largest.is_finite() {
        (f32::NAN, 0.0)
    } else if scale.is_normal() {
        (scale, 1.0 / scale)
    } else {
        (0.0, 0.0)
    }
}

/// The largest number of 16 bits: in two signed bytes `2⁸ · high + low`, or whole.
const MOST: u16 = if MAY_MULTIPLY_QUADS {
    127 * 256 + 127
} else {
    32_767
};

/// Two 16-bit integers each, the first in the low half.
#[inline(always)]
fn in_pairs(numbers: &[i32; BLOCK]) -> [i32; BLOCK / 2] {
    let pairs = numbers.as_chunks::<2>().0;
    std::array::from_fn(|i| pairs[i][1] << 16 | pairs[i][0] & 0xffff)
}

fn quantise(values: &[f32; BLOCK], in_quads: bool) -> Quants {
    let (scale, inverse) = step::<MOST>(largest(values));
    let mut rounded = [0; BLOCK];
    if !scale.is_nan() {
        for (rounded, value) in rounded.iter_mut().zip(values) {
            *rounded = nearest(value * inverse);
        }
    }
    let (first, second) = rounded.split_at(BLOCK / 2);
    let total = |numbers: &[i32]| {
        let int = numbers.iter().sum::<i32>();
        let number = scale * int as f32;
        Total { int, number }
    };
    let pairs = in_pairs(&rounded);
    let mut quads = [[[0; 2]; BLOCK / 8]; 2];
    if in_quads {
        // Rounded, the upper byte is what the lower one with its sign leaves.
        let raised = in_pairs(&rounded.map(|q| q + 0x80));
        let [high, low] = &mut quads;
        for (i, [first, second]) in pairs.as_chunks::<2>().0.iter().enumerate() {
            low.as_flattened_mut()[i] = first & 0x00ff_00ff | (second & 0x00ff_00ff) << 8;
        }
        for (i, [first, second]) in raised.as_chunks::<2>().0.iter().enumerate() {
            high.as_flattened_mut()[i] = first >> 8 & 0x00ff_00ff | second & !0x00ff_00ff;
        }
    }
    Quants {
        pairs,
        quads,
        scale,
        totals: [total(&rounded), total(first), total(second)],
    }
}
