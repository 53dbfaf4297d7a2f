//! Products of a group of columns, which share a step and a minimum: a number is `step · level +
//! minimum`, so a product is Σ (s l + m) x = s Σ l x + m Σ x.

use crate::codes::Codes;
use crate::input::{BLOCK, Quants};
use crate::lanes::Lanes;

/// The codes of 32 columns of eight rows, and their levels.
pub(crate) struct RunCodes<'a, C> {
    /// The codes.
    pub codes: &'a C,
    /// Table of shifted levels, if they are looked up.
    pub table: Option<&'a [u8; 16]>,
    /// Constant that is subtracted from codes or entries; 0 if these are levels.
    pub offset: u8,
}

/// A group of columns of a run.
pub(crate) struct Group {
    /// Number of columns.
    pub columns: usize,
    /// Its number in the run.
    pub part: usize,
    /// Whether numbers have minima.
    pub minima: bool,
}

impl<C: Codes> RunCodes<'_, C> {
    /// Adds the products of a group with `T` rows of input to `sums`; `scale` is its step and
    /// minimum.
    ///
    /// No sum overflows: bytes, and unpacked or looked-up values, are at most 255 in magnitude,
    /// input at most 2¹⁵, so that 32 products are less than 2²⁸; the part subtracted for an offset
    /// of at most 128 is less than 2²⁷.
    #[inline(always)]
    pub(crate) fn add<L: Lanes, const T: usize>(
        &self,
        l: L,
        group: Group,
        [steps, minima]: [L::Floats; 2],
        input: [&Quants; T],
        sums: &mut [L::Floats; T],
    ) {
        let total = if group.columns == BLOCK {
            0
        } else {
            1 + group.part
        };
        let mut dots = [l.ints(0); T];
        if !C::LEVELS {
            for t in 0..T {
                let total = input[t].totals[total].int;
                dots[t] = l.ints(-i32::from(self.offset) * total);
            }
        }
        if L::QUADS && C::QUADS && self.table.is_none() {
            self.quads(l, &group, input, &mut dots);
        } else {
            self.pairs(l, &group, input, &mut dots);
        }
        for t in 0..T {
            let x = input[t];
            let scale = l.mul(steps, l.floats(x.scale));
            sums[t] = l.mul_add(sums[t], l.to_floats(dots[t]), scale);
            if group.minima {
                sums[t] = l.mul_add(sums[t], minima, l.floats(x.totals[total].number));
            }
        }
    }

    /// Adds Σ code · input to `sums`, by products of pairs.
    #[inline(always)]
    fn pairs<L: Lanes, const T: usize>(
        &self,
        l: L,
        group: &Group,
        input: [&Quants; T],
        sums: &mut [L::Ints; T],
    ) {
        let mut pairs = [&input[0].pairs; T];
        for t in 1..T {
            pairs[t] = &input[t].pairs;
        }
        let fews = group.columns / 2 / C::FEW;
        let begin = fews * group.part;
        let turns = if L::rolls(fews, T) {
            l.turns(fews)
        } else {
            fews
        };
        for few in begin..begin + turns {
            self.codes.products(l, few, self.table, &pairs, sums);
        }
    }

    /// The same sums by products of quads: 2⁸ · Σ code · high + Σ code · low, exactly. For few rows
    /// of input both sums are made together, since each product waits for the previous one of its
    /// sum. For many rows they are made one after the other, since all of them together exceed the
    /// registers.
    #[inline(always)]
    fn quads<L: Lanes, const T: usize>(
        &self,
        l: L,
        group: &Group,
        input: [&Quants; T],
        sums: &mut [L::Ints; T],
    ) {
        let eights = group.columns / 8;
        let begin = eights * group.part;
        let all = begin..begin + l.turns(eights);
        let mut high = [l.ints(0); T];
        for eight in all.clone() {
            let columns = self.codes.quads(l, eight);
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
                eight_columns(l, self.codes.quads(l, eight), input, [1, eight], sums);
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
