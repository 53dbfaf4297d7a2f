//! Packing of steps and minima: a number is `step · level + minimum`, and 16 or 32 columns share
//! both.

use std::fmt::Debug;

use crate::lanes::{LANES, Lanes};

/// Steps and minima of a block of eight rows.
pub(crate) trait Scales: Clone + Debug + Send + Sync + 'static {
    /// Columns that share a step.
    const GROUP: usize;
    /// Whether there are minima.
    const MINIMA: bool;

    /// The initial value.
    const EMPTY: Self;

    /// Packs each lane's block: the bits of its scale and floor, and the integers `steps(lane,
    /// group)` that multiply them.
    fn pack(&mut self, halves: [[u16; 2]; LANES], steps: impl Fn(usize, usize) -> [i8; 2]);

    /// Step and minimum of a group; the minimum is arbitrary where there are none.
    fn step_and_minimum<L: Lanes>(&self, lanes: L, group: usize) -> [L::Floats; 2];
}

/// An f16 for 32 columns, and another for their minimum where `COUNT` is 2.
#[derive(Debug, Clone)]
pub(crate) struct Halves<const COUNT: usize>([[u16; LANES]; COUNT]);

impl<const COUNT: usize> Scales for Halves<COUNT> {
    const GROUP: usize = 32;
    const MINIMA: bool = COUNT == 2;
    const EMPTY: Self = Self([[0; LANES]; COUNT]);

    #[inline(always)]
    fn pack(&mut self, halves: [[u16; 2]; LANES], _steps: impl Fn(usize, usize) -> [i8; 2]) {
        for (which, lanes) in self.0.iter_mut().enumerate() {
            each(lanes, halves, which);
        }
    }

    #[inline(always)]
    fn step_and_minimum<L: Lanes>(&self, l: L, _group: usize) -> [L::Floats; 2] {
        [l.load_f16(&self.0[0]), l.load_f16(&self.0[COUNT - 1])]
    }
}

/// A BF16 for 32 columns, with the range of an f32.
#[derive(Debug, Clone)]
pub(crate) struct Bf16([u16; LANES]);

impl Scales for Bf16 {
    const GROUP: usize = 32;
    const MINIMA: bool = false;
    const EMPTY: Self = Self([0; LANES]);

    #[inline(always)]
    fn pack(&mut self, halves: [[u16; 2]; LANES], _steps: impl Fn(usize, usize) -> [i8; 2]) {
        each(&mut self.0, halves, 0);
    }

    #[inline(always)]
    fn step_and_minimum<L: Lanes>(&self, l: L, _group: usize) -> [L::Floats; 2] {
        [l.load_bf16(&self.0); 2]
    }
}

/// A signed byte for each of `GROUPS` groups of 256 columns, times an f16, over 2 to the `SHIFT`.
#[derive(Debug, Clone)]
pub(crate) struct Steps<const GROUPS: usize, const SHIFT: u32 = 0> {
    scales: [u16; LANES],
    steps: [[i8; LANES]; GROUPS],
}

impl<const GROUPS: usize, const SHIFT: u32> Scales for Steps<GROUPS, SHIFT> {
    const GROUP: usize = 256 / GROUPS;
    const MINIMA: bool = false;
    const EMPTY: Self = Self {
        scales: [0; LANES],
        steps: [[0; LANES]; GROUPS],
    };

    #[inline(always)]
    fn pack(&mut self, halves: [[u16; 2]; LANES], steps: impl Fn(usize, usize) -> [i8; 2]) {
        each(&mut self.scales, halves, 0);
        for (group, lanes) in self.steps.iter_mut().enumerate() {
            for (lane, step) in lanes.iter_mut().enumerate() {
                [*step, _] = steps(lane, group);
            }
        }
    }

    #[inline(always)]
    fn step_and_minimum<L: Lanes>(&self, l: L, group: usize) -> [L::Floats; 2] {
        let mut scales = l.load_f16(&self.scales);
        if SHIFT > 0 {
            // A power of two: exact.
            scales = l.mul(scales, l.floats(1.0 / (1 << SHIFT) as f32));
        }
        [l.mul(scales, l.load_i8(&self.steps[group])); 2]
    }
}

/// Copies the scale or the floor of every lane.
#[inline(always)]
fn each(lanes: &mut [u16; LANES], halves: [[u16; 2]; LANES], which: usize) {
    for (lane, both) in lanes.iter_mut().zip(halves) {
        *lane = both[which];
    }
}

/// The f16 factors of minima, negated: files subtract them.
#[inline(always)]
fn floors(lanes: &mut [u16; LANES], halves: [[u16; 2]; LANES]) {
    for (lane, [_, floor]) in lanes.iter_mut().zip(halves) {
        *lane = floor ^ 0x8000;
    }
}

/// The same with minima: also bytes, times an f16 of their own.
#[derive(Debug, Clone)]
pub(crate) struct StepsAndMinima<const GROUPS: usize> {
    scales: [u16; LANES],
    floors: [u16; LANES],
    both: [[[i8; LANES]; 2]; GROUPS],
}

impl<const GROUPS: usize> Scales for StepsAndMinima<GROUPS> {
    const GROUP: usize = 256 / GROUPS;
    const MINIMA: bool = true;
    const EMPTY: Self = Self {
        scales: [0; LANES],
        floors: [0; LANES],
        both: [[[0; LANES]; 2]; GROUPS],
    };

    #[inline(always)]
    fn pack(&mut self, halves: [[u16; 2]; LANES], steps: impl Fn(usize, usize) -> [i8; 2]) {
        each(&mut self.scales, halves, 0);
        floors(&mut self.floors, halves);
        for (group, [scaled, minima]) in self.both.iter_mut().enumerate() {
            for (lane, (step, minimum)) in scaled.iter_mut().zip(minima).enumerate() {
                [*step, *minimum] = steps(lane, group);
            }
        }
    }

    #[inline(always)]
    fn step_and_minimum<L: Lanes>(&self, l: L, group: usize) -> [L::Floats; 2] {
        let [step, minimum] = &self.both[group];
        [
            l.mul(l.load_f16(&self.scales), l.load_i8(step)),
            l.mul(l.load_f16(&self.floors), l.load_i8(minimum)),
        ]
    }
}

/// The same with four bits each, 16 groups of 16 columns: steps in the low nibbles.
#[derive(Debug, Clone)]
pub(crate) struct Nibbles {
    scales: [u16; LANES],
    floors: [u16; LANES],
    both: [[u8; LANES]; 16],
}

impl Scales for Nibbles {
    const GROUP: usize = 16;
    const MINIMA: bool = true;
    const EMPTY: Self = Self {
        scales: [0; LANES],
        floors: [0; LANES],
        both: [[0; LANES]; 16],
    };

    #[inline(always)]
    fn pack(&mut self, halves: [[u16; 2]; LANES], steps: impl Fn(usize, usize) -> [i8; 2]) {
        each(&mut self.scales, halves, 0);
        floors(&mut self.floors, halves);
        for (group, lanes) in self.both.iter_mut().enumerate() {
            for (lane, both) in lanes.iter_mut().enumerate() {
                let [step, minimum] = steps(lane, group);
                *both = step.cast_unsigned() | minimum.cast_unsigned() << 4;
            }
        }
    }

    #[inline(always)]
    fn step_and_minimum<L: Lanes>(&self, l: L, group: usize) -> [L::Floats; 2] {
        let [steps, minima] = l.load_nibbles(&self.both[group]);
        [
            l.mul(l.load_f16(&self.scales), steps),
            l.mul(l.load_f16(&self.floors), minima),
        ]
    }
}
