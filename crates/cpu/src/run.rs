//! Unpacked runs of eight rows: products with several rows of input unpack codes and scales once for
//! all of them, and take the same instructions for every format.

use std::fmt::Debug;

use crate::codes::{Codes, UnpackedCodes};
use crate::group::{Group, RunCodes};
use crate::input::{BLOCK, Quants};
use crate::lanes::{LANES, Lanes};
use crate::tile::Tile;

/// 32 columns of eight rows, with a step and a minimum for each of `GROUPS` groups of columns. As
/// long as whole lines of a cache.
#[derive(Debug, Clone)]
pub(crate) struct Run<C, const GROUPS: usize, const MINIMA: bool> {
    steps: [[f32; LANES]; GROUPS],
    /// Zeros unless there are `MINIMA`.
    minima: [[f32; LANES]; GROUPS],
    /// Constant that is still to be subtracted from the codes.
    offset: u8,
    codes: C,
}

/// An unpacked run.
pub(crate) trait Unpacked<C>: Tile<InputBlock = Quants> + Clone {
    /// The initial value.
    const EMPTY: Self;

    /// Unpacks codes; `scale` is step and minimum of a group.
    fn unpack<L: Lanes, F: Codes>(
        &mut self,
        lanes: L,
        codes: RunCodes<'_, F>,
        scale: impl Fn(usize) -> [L::Floats; 2],
    );
}

impl<C: UnpackedCodes, const GROUPS: usize, const MINIMA: bool> Unpacked<C>
    for Run<C, GROUPS, MINIMA>
{
    const EMPTY: Self = Self {
        steps: [[0.0; LANES]; GROUPS],
        minima: [[0.0; LANES]; GROUPS],
        offset: 0,
        codes: C::EMPTY,
    };

    #[inline(always)]
    fn unpack<L: Lanes, F: Codes>(
        &mut self,
        l: L,
        codes: RunCodes<'_, F>,
        scale: impl Fn(usize) -> [L::Floats; 2],
    ) {
        for (group, (steps, minima)) in self.steps.iter_mut().zip(&mut self.minima).enumerate() {
            let [step, minimum] = scale(group);
            l.store(step, steps);
            if MINIMA {
                l.store(minimum, minima);
            }
        }
        self.offset = self.codes.unpack(l, &codes);
    }
}

impl<C: UnpackedCodes, const GROUPS: usize, const MINIMA: bool> Tile for Run<C, GROUPS, MINIMA> {
    type InputBlock = Quants;
    type Unpacked<U: UnpackedCodes> = Self;
    const QUADS: bool = C::QUADS;

    /// As packed blocks sum them, in the same order: with the same bits.
    #[inline(always)]
    fn products<L: Lanes, const T: usize>(
        l: L,
        runs: &[Self],
        input: [&[Quants]; T],
    ) -> [L::Floats; T] {
        let mut sums = [l.floats(0.0); T];
        let mut blocks: [&[Quants]; T] = [&[]; T];
        for t in 0..T {
            blocks[t] = &input[t][..runs.len()];
        }
        for (i, run) in runs.iter().enumerate() {
            let mut input = [&blocks[0][i]; T];
            for t in 1..T {
                input[t] = &blocks[t][i];
            }
            let codes = RunCodes {
                codes: &run.codes,
                table: None,
                offset: run.offset,
            };
            for group in 0..GROUPS {
                let scale = [l.load(&run.steps[group]), l.load(&run.minima[group])];
                let group = Group {
                    columns: BLOCK / GROUPS,
                    part: group,
                    minima: MINIMA,
                };
                codes.add(l, group, scale, input, &mut sums);
            }
        }
        sums
    }
}
