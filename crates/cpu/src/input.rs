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

/// The eight lanes combined, in pairs.
#[inline(always)]
fn fold<L: Lanes>(l: L, lanes: L::Floats, combine: impl Fn(f32, f32) -> f32) -> f32 {
    let mut numbers = [0.0; 8];
    l.store(lanes, &mut numbers);
    let [a, b, c, d, e, f, g, h] = numbers;
    let four = [combine(a, e), combine(b, f), combine(c, g), combine(d, h)];
    let two = [combine(four[0], four[2]), combine(four[1], four[3])];
    combine(two[0], two[1])
}

/// The step of a block, and its inverse. Two signed bytes `2⁸ · high + low` reach further down than
/// up: the number of the largest magnitude becomes −2¹⁵ by a step of the other sign, unless the
/// largest of the other sign would exceed 32639. NaN for NaN, as in [`step`].
#[inline(always)]
fn step_of_block<L: Lanes>(l: L, values: &[f32; BLOCK]) -> (f32, f32) {
    const MIN: f32 = -32_768.0;
    const MAX: f32 = 127.0 * 256.0 + 127.0;
    let zero = l.floats(0.0);
    let (mut lows, mut highs, mut zeros) = (zero, zero, zero);
    for eight in values.as_chunks().0 {
        let eight = l.load(eight);
        lows = l.min(eight, lows);
        highs = l.max(eight, highs);
        // NaN if one is NaN or infinite.
        zeros = l.mul_add(zeros, eight, zero);
    }
    let low = fold(l, lows, |a, b| if b < a { b } else { a });
    let high = fold(l, highs, |a, b| if b > a { b } else { a });
    if fold(l, zeros, |a, b| a + b).is_nan() {
        return (f32::NAN, 0.0);
    }
    let up = high > -low;
    let (most, other) = (if up { high } else { low }, if up { low } else { high });
    let (scale, for_other) = (most / MIN, other / MAX);
    let fits = for_other.abs() <= scale.abs();
    with_inverse(most, if fits { scale } else { for_other })
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
    fn with<L: Lanes>(self, l: L) {
        for ((from, to), quants) in self.from.iter().zip(self.to).zip(self.quants) {
            *to = *from;
            quantise(l, from, self.in_quads, quants);
        }
    }
}

/// Rounds a block; its quads only with `in_quads`.
#[inline(always)]
fn quantise<L: Lanes>(l: L, values: &[f32; BLOCK], in_quads: bool, to: &mut Quants) {
    let (scale, inverse) = step_of_block(l, values);
    to.scale = scale;
    let mut sums = [0.0; 2];
    if scale.is_nan() {
        to.pairs = [0; BLOCK / 2];
    } else {
        let halves = to.pairs.as_chunks_mut().0.iter_mut();
        let values = values.as_chunks::<8>().0.as_chunks::<2>().0;
        for ((pairs, [first, second]), sum) in halves.zip(values).zip(&mut sums) {
            let scaled = |eight| l.mul(l.load(eight), l.floats(inverse));
            let words = l.round([scaled(first), scaled(second)]);
            l.store_pairs(words, pairs);
            let in_lanes = l.dot(l.ints(0), words, l.pair(0x0001_0001));
            // Sixteen of at most 2¹⁵: exact in f32.
            *sum = fold(l, l.to_floats(in_lanes), |a, b| a + b);
        }
    }
    let total = |sum: f32| Total {
        int: sum as i32,
        number: scale * sum,
    };
    to.totals = [total(sums[0] + sums[1]), total(sums[0]), total(sums[1])];
    if in_quads {
        to.quads = quads_from(&to.pairs);
    }
}

/// Splits pairs of 16-bit integers into the bytes of [`Quants::quads`].
#[inline(always)]
fn quads_from(pairs: &[i32; BLOCK / 2]) -> [[[i32; 2]; BLOCK / 8]; 2] {
    let mut quads = [[[0; 2]; BLOCK / 8]; 2];
    let [high, low] = &mut quads;
    let quads_of_both = high.iter_mut().flatten().zip(low.iter_mut().flatten());
    for ((high, low), pairs) in quads_of_both.zip(pairs.as_chunks::<2>().0) {
        let [first, second] = *pairs;
        *low = first & 0x00ff_00ff | (second & 0x00ff_00ff) << 8;
        // The upper byte is the remainder of the lower one taken with its sign.
        let [first, second] = pairs.map(raised);
        *high = first >> 8 & 0x00ff_00ff | second & !0x00ff_00ff;
    }
    quads
}

/// Both integers of a pair plus 2⁷; they are at most 32639.
#[inline(always)]
fn raised(pair: i32) -> i32 {
    pair.wrapping_add(0x80) & 0xffff | (pair & !0xffff).wrapping_add(0x80 << 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::Plain;

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
            let mut quants = Quants::default();
            quantise(Plain::<false>, &values, true, &mut quants);
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

    #[test]
    fn every_vector_rounds_as_arrays_do() {
        let ends = [
            0.0,
            -0.0,
            1e-40,
            3e38,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
        ];
        let mut blocks = Vec::new();
        for (i, end) in ends.into_iter().chain([1.0, -1.0]).enumerate() {
            let number = |j: usize| ((7 * i + j * j) % 31) as f32 * 1e-3 - 0.015;
            let mut block: [f32; BLOCK] = std::array::from_fn(number);
            block[(11 * i) % BLOCK] = end;
            blocks.push(block);
            blocks.push([end; BLOCK]);
        }
        let mut copy = vec![[0.0; BLOCK]; blocks.len()];
        let mut quants = vec![Quants::default(); blocks.len()];
        lanes::run(Quantise {
            from: &blocks,
            to: &mut copy,
            quants: &mut quants,
            in_quads: true,
        });
        for (block, found) in blocks.iter().zip(quants) {
            let mut arrays = Quants::default();
            quantise(Plain::<false>, block, true, &mut arrays);
            let bits = |q: Quants| {
                let totals = q.totals.map(|total| (total.int, total.number.to_bits()));
                (q.pairs, q.quads, q.scale.to_bits(), totals)
            };
            assert_eq!(bits(found), bits(arrays), "{block:?}");
            let finite = block.iter().all(|number| number.is_finite());
            assert_eq!(found.scale.is_finite(), finite, "{block:?}");
        }
    }
}
