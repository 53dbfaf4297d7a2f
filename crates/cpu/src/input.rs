//! Input of matrix products: rows of numbers, also as 16-bit integers.
//!
//! Blocks of 32 numbers share a scale of 2⁻¹⁵ of the largest: products with the weights' bytes sum
//! up in i32, and the rounding is a thousandth of f16's. Eight bits, as in other engines, would cost
//! a logit some hundredths. The integers are those that two signed bytes represent, so that sums are
//! the same where four bytes are multiplied at once and where two words are.

use crate::exp::ROUND;
use crate::lanes::{self, Lanes, Work, multiply_quads};
use crate::threads;

/// Numbers that share a scale.
pub(crate) const BLOCK: usize = 32;

/// 32 numbers `scale · q`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Quants {
    /// The integers `q` in pairs of 16 bits, the first of a pair in the low half.
    pub pairs: [i32; BLOCK / 2],
    /// The same `q` for products of quads, as `2⁸ · high + low` with signed bytes `high` and
    /// `low`. Each eight columns are two quads, in the order 0, 2, 1, 3, the first in the low byte.
    pub quads: [[[i32; 2]; BLOCK / 8]; 2],
    /// The step.
    pub scale: f32,
    /// Totals of all, of the first half and of the second.
    pub totals: [Total; 3],
}

/// Sum of some numbers `scale · q`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Total {
    /// Σ q.
    pub int: i32,
    /// `scale` · Σ q.
    pub number: f32,
}

/// Input blocks of a kind of matrix block.
pub(crate) trait InputBlock: Sized {
    /// Columns of a block.
    const COLS: usize;

    /// All rows of `input`, in blocks of this type.
    fn blocks(input: &Input) -> &[Self];
}

impl InputBlock for Quants {
    const COLS: usize = BLOCK;

    fn blocks(input: &Input) -> &[Self] {
        let whole = input.cols.is_multiple_of(BLOCK);
        &input.quants[..if whole { input.count / BLOCK } else { 0 }]
    }
}

impl InputBlock for f32 {
    const COLS: usize = 1;

    fn blocks(input: &Input) -> &[Self] {
        input.numbers()
    }
}

/// Input rows, reused between products for its memory.
#[derive(Debug, Clone, Default)]
pub struct Input {
    cols: usize,
    /// Number of `values` that are set; there may be more, of former rows.
    count: usize,
    values: Vec<f32>,
    /// The blocks of `values`, if rows are whole blocks; there may be more, of former rows.
    quants: Vec<Quants>,
}

impl Input {
    /// Without rows.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets rows of `cols` numbers, `[rows, cols]`; ignores a partial last row.
    pub fn set(&mut self, values: &[f32], cols: usize) {
        self.cols = cols;
        self.count = values.len().checked_div(cols).unwrap_or(0) * cols;
        let from = &values[..self.count];
        let to = room(&mut self.values, from.len());
        if !cols.is_multiple_of(BLOCK) {
            to.copy_from_slice(from);
            return;
        }
        let quants = room(&mut self.quants, from.len() / BLOCK);
        // Some ten operations a number.
        let threads = threads::sharing(10 * from.len());
        let each = quants.len().div_ceil(threads).max(1);
        let values = from.chunks(each * BLOCK).zip(to.chunks_mut(each * BLOCK));
        threads::each(
            quants.chunks_mut(each).zip(values),
            |(quants, (from, to))| {
                lanes::run(Quantise {
                    from: from.as_chunks().0,
                    to: to.as_chunks_mut().0,
                    quants,
                    in_quads: multiply_quads(),
                });
            },
        );
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.count.checked_div(self.cols).unwrap_or(0)
    }

    /// All rows, concatenated.
    pub fn numbers(&self) -> &[f32] {
        &self.values[..self.count]
    }

    /// Numbers in a row.
    pub fn cols(&self) -> usize {
        self.cols
    }
}

/// I16x4 numbers `scale · q`, |q| at most 16383, so that sums of products with 16-bit integers
/// fit.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct I16x4 {
    /// The integers `q` in pairs of 16 bits, the first of a pair in the low half.
    pub pairs: [i32; 2],
    /// The step.
    pub scale: f32,
}

impl I16x4 {
    /// Rounds up to four numbers, padded with zeros.
    pub fn round(values: &[f32]) -> Self {
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

/// The largest magnitude; one of the NaNs and infinities if there are any, since they have the
/// largest bits.
#[inline(always)]
fn largest(values: &[f32]) -> f32 {
    let magnitudes = values.iter().map(|value| value.to_bits() & 0x7fff_ffff);
    f32::from_bits(magnitudes.fold(0, u32::max))
}

/// The step of 16 bits that makes the largest magnitude 32767, and its inverse.
pub(crate) fn step_of(values: &[f32]) -> (f32, f32) {
    step::<32767>(largest(values))
}

/// [`step_of`], rounded up to BF16, whose bits are returned: 2⁻⁷ more at most.
#[inline(always)]
pub(crate) fn step_of_half(values: &[f32]) -> (u16, f32) {
    let (step, inverse) = step_of(values);
    if !step.is_normal() {
        return ((step.to_bits() >> 16) as u16, inverse);
    }
    let half = step.to_bits().div_ceil(1 << 16);
    (half as u16, 1.0 / f32::from_bits(half << 16))
}

/// The nearest integer to a number of at most 2²²; arbitrary for NaN.
#[inline(always)]
pub(crate) fn nearest(number: f32) -> i32 {
    let shifted = (number + ROUND).to_bits();
    shifted.wrapping_sub(ROUND.to_bits()).cast_signed()
}

/// The step that makes `largest` `MAX`, and its inverse. NaN for NaN, so that sums with it are NaN
/// too.
#[inline(always)]
fn step<const MAX: u16>(largest: f32) -> (f32, f32) {
    with_inverse(largest, largest / f32::from(MAX))
}

/// The step `scale`, and its inverse; NaN for a `largest` that is NaN or infinite.
#[inline(always)]
fn with_inverse(largest: f32, scale: f32) -> (f32, f32) {
    if !largest.is_finite() {
        (f32::NAN, 0.0)
    } else if scale.is_normal() {
        (scale, 1.0 / scale)
    } else {
        (0.0, 0.0)
    }
}

/// Eight numbers combined, in pairs.
#[inline(always)]
fn of_eight(numbers: [f32; 8], combine: impl Fn(f32, f32) -> f32) -> f32 {
    let [a, b, c, d, e, f, g, h] = numbers;
    let four = [combine(a, e), combine(b, f), combine(c, g), combine(d, h)];
    let two = [combine(four[0], four[2]), combine(four[1], four[3])];
    combine(two[0], two[1])
}

/// The lower number, as processors compare them: `a` where one is NaN.
#[inline(always)]
fn lower(a: f32, b: f32) -> f32 {
    if b < a { b } else { a }
}

/// The higher number, as processors compare them: `a` where one is NaN.
#[inline(always)]
fn higher(a: f32, b: f32) -> f32 {
    if b > a { b } else { a }
}

/// The step of a block, and its inverse. Two signed bytes `2⁸ · high + low` reach further down than
/// up: the number of the largest magnitude becomes −2¹⁵ by a step of the other sign, unless the
/// largest of the other sign would exceed 32639. NaN for NaN, as in [`step`].
#[inline(always)]
fn step_of_block(values: &[f32; BLOCK]) -> (f32, f32) {
    const MIN: f32 = -32_768.0;
    const MAX: f32 = 127.0 * 256.0 + 127.0;
    // Eight at a time: compilers keep the order of float comparisons.
    let (mut lows, mut highs) = ([0.0_f32; 8], [0.0_f32; 8]);
    for eight in values.as_chunks::<8>().0 {
        for i in 0..8 {
            lows[i] = lower(lows[i], eight[i]);
            highs[i] = higher(highs[i], eight[i]);
        }
    }
    let (low, high) = (of_eight(lows, lower), of_eight(highs, higher));
    let up = high > -low;
    let (most, other) = (if up { high } else { low }, if up { low } else { high });
    let (scale, for_other) = (most / MIN, other / MAX);
    let fits = for_other.abs() <= scale.abs();
    with_inverse(largest(values), if fits { scale } else { for_other })
}

/// Packs pairs of 16-bit integers, the first of a pair in the low half.
#[inline(always)]
fn in_pairs(numbers: &[i32; BLOCK]) -> [i32; BLOCK / 2] {
    let mut pairs = [0; BLOCK / 2];
    // Not by `from_fn`, which is a call in wasm.
    for (pair, [first, second]) in pairs.iter_mut().zip(numbers.as_chunks().0) {
        *pair = second << 16 | first & 0xffff;
    }
    pairs
}

/// The first `count` items, which a vector that is too short gets.
fn room<T: Copy + Default>(items: &mut Vec<T>, count: usize) -> &mut [T] {
    if items.len() < count {
        items.resize(count, T::default());
    }
    &mut items[..count]
}

/// Copies blocks of numbers, and rounds them.
struct Quantise<'a> {
    from: &'a [[f32; BLOCK]],
    to: &'a mut [[f32; BLOCK]],
    quants: &'a mut [Quants],
    in_quads: bool,
}

impl Work for Quantise<'_> {
    type Out = ();

    #[inline(always)]
    fn with<L: Lanes>(self, _: L) {
        for ((from, to), quants) in self.from.iter().zip(self.to).zip(self.quants) {
            *to = *from;
            *quants = quantise(from, self.in_quads);
        }
    }
}

#[inline(always)]
fn quantise(values: &[f32; BLOCK], in_quads: bool) -> Quants {
    let (scale, inverse) = step_of_block(values);
    let mut rounded = [0; BLOCK];
    if !scale.is_nan() {
        for (rounded, value) in rounded.iter_mut().zip(values) {
            *rounded = nearest(value * inverse);
        }
    }
    let (first, second) = rounded.split_at(BLOCK / 2);
    let (first, second) = (first.iter().sum::<i32>(), second.iter().sum());
    let total = |int: i32| Total {
        int,
        number: scale * int as f32,
    };
    let pairs = in_pairs(&rounded);
    let mut quads = [[[0; 2]; BLOCK / 8]; 2];
    if in_quads {
        // The upper byte is the remainder of the lower one taken with its sign.
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
        totals: [total(first + second), total(first), total(second)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_reaches_down_to_the_largest_integer_and_loses_half_a_step() {
        let small: [f32; BLOCK] = std::array::from_fn(|i| (i as f32 - 15.5) / 100.0);
        // Most below 0, above, and on both sides alike, where integers reach up to 32639 only.
        for (ends, whole) in [
            ([-1.0, 0.9], 32_768.0),
            ([-0.9, 1.0], 32_768.0),
            ([-1.0, 1.0], 32_639.0),
        ] {
            let mut values = small;
            [values[3], values[20]] = ends;
            let quants = quantise(&values, true);
            let step = quants.scale.abs();
            assert!((step * whole - 1.0).abs() < 1e-6, "{ends:?}: {step}");
            for (value, pair) in values.as_chunks::<2>().0.iter().zip(quants.pairs) {
                for (value, q) in value.iter().zip([pair as i16, (pair >> 16) as i16]) {
                    let off = f32::from(q) * quants.scale - value;
                    assert!(off.abs() <= 0.51 * step, "{ends:?}: {value} is {q}");
                }
            }
        }
    }
}
