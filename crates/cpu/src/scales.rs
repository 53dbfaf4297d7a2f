//! How steps and minima lie: a number is `step · level + minimum`, and 16 or 32 columns share both.

use std::fmt::Debug;

use crate::lanes::{LANES, Lanes};

/// Steps and minima of a block of eight rows.
pub(crate) trait Scales: Clone + Debug + Send + Sync + 'static {
    /// Columns that share a step.
    const GROUP: usize;
    /// Whether there are minima.
    const MINIMA: bool;

    /// Packs what each lane's block has: the bits of its scale and of its floor, which the integers
    /// that `steps` tells of a lane and a group are multiples of.
    fn pack(halves: [[u16; 2]; LANES], steps: impl Fn(usize, usize) -> [i8; 2]) -> Self;

    /// Step and minimum of a group; the minimum means nothing where there are none.
    fn of<L: Lanes>(&self, lanes: L, group: usize) -> [L::Floats; 2];
}

/// An f16 for 32 columns, and another for their minimum where `COUNT` is 2.
#[derive(Debug, Clone)]
pub(crate) struct Halves<const COUNT: usize>([[u16; LANES]; COUNT]);

impl<const COUNT: usize> Scales for Halves<COUNT> {
    const GROUP: usize = 32;
    const MINIMA: bool = COUNT == 2;

    #[inline(always)]
    fn pack(halves: [[u16; 2]; LANES], _steps: impl Fn(usize, usize) -> [i8; 2]) -> Self {
        Self(std::array::from_fn(|which| halves.map(|both| both[which])))
    }

    #[inline(always)]
    fn of<L: Lanes>(&self, l: L, _group: usize) -> [L::Floats; 2] {
        [l.halves(&self.0[0]), l.halves(&self.0[COUNT - 1])]
    }
}

/// A BF16 for 32 columns, which has the range of an f32.
#[derive(Debug, Clone)]
pub(crate) struct Brain([u16; LANES]);

impl Scales for Brain {
    const GROUP: usize = 32;
    const MINIMA: bool = false;

    #[inline(always)]
    fn pack(halves: [[u16; 2]; LANES], _steps: impl Fn(usize, usize) -> [i8; 2]) -> Self {
        Self(halves.map(|both| both[0]))
    }

    #[inline(always)]
    fn of<L: Lanes>(&self, l: L, _group: usize) -> [L::Floats; 2] {
        [l.brains(&self.0); 2]
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

    #[inline(always)]
    fn pack(halves: [[u16; 2]; LANES], steps: impl Fn(usize, usize) -> [i8; 2]) -> Self {
        Self {
            scales: halves.map(|[scale, _]| scale),
            steps: std::array::from_fn(|group| std::array::from_fn(|lane| steps(lane, group)[0])),
        }
    }

    #[inline(always)]
    fn of<L: Lanes>(&self, l: L, group: usize) -> [L::Floats; 2] {
        let mut scales = l.halves(&self.scales);
        if SHIFT > 0 {
            // A power of two: nothing is rounded.
            scales = l.times(scales, l.floats(1.0 / (1 << SHIFT) as f32));
        }
        [l.times(scales, l.of_bytes(&self.steps[group])); 2]
    }
}

/// The f16 of which minima are multiples, with its sign turned: files take them away.
fn floors(halves: [[u16; 2]; LANES]) -> [u16; LANES] {
    halves.map(|[_, floor]| floor ^ 0x8000)
}

/// The same with minima, a byte each too and times an f16 of their own.
#[derive(Debug, Clone)]
pub(crate) struct StepsAndMinima<const GROUPS: usize> {
    scales: [u16; LANES],
    floors: [u16; LANES],
    both: [[[i8; LANES]; 2]; GROUPS],
}

impl<const GROUPS: usize> Scales for StepsAndMinima<GROUPS> {
    const GROUP: usize = 256 / GROUPS;
    const MINIMA: bool = true;

    #[inline(always)]
    fn pack(halves: [[u16; 2]; LANES], steps: impl Fn(usize, usize) -> [i8; 2]) -> Self {
        let of = |group: usize, which: usize| {
            std::array::from_fn(|lane: usize| steps(lane, group)[which])
        };
        Self {
            scales: halves.map(|[scale, _]| scale),
            floors: floors(halves),
            both: std::array::from_fn(|group| [of(group, 0), of(group, 1)]),
        }
    }

    #[inline(always)]
    fn of<L: Lanes>(&self, l: L, group: usize) -> [L::Floats; 2] {
        let [step, minimum] = &self.both[group];
        [
            l.times(l.halves(&self.scales), l.of_bytes(step)),
            l.times(l.halves(&self.floors), l.of_bytes(minimum)),
        ]
    }
}

/// The same with four bits each, 16 groups of 16 columns: steps in the low ones.
#[derive(Debug, Clone)]
pub(crate) struct Nibbles {
    scales: [u16; LANES],
    floors: [u16; LANES],
    both: [[u8; LANES]; 16],
}

impl Scales for Nibbles {
    const GROUP: usize = 16;
    const MINIMA: bool = true;

    #[inline(always)]
    fn pack(halves: [[u16; 2]; LANES], steps: impl Fn(usize, usize) -> [i8; 2]) -> Self {
        let both = |lane: usize, group: usize| {
            let [step, minimum] = steps(lane, group).map(i8::cast_unsigned);
            step | minimum << 4
        };
        Self {
            scales: halves.map(|[scale, _]| scale),
            floors: floors(halves),
            both: std::array::from_fn(|group| std::array::from_fn(|lane| both(lane, group))),
        }
    }

    #[inline(always)]
    fn of<L: Lanes>(&self, l: L, group: usize) -> [L::Floats; 2] {
        let [steps, minima] = l.of_nibbles(&self.both[group]);
        [
            l.times(l.halves(&self.scales), steps),
            l.times(l.halves(&self.floors), minima),
        ]
    }
}
