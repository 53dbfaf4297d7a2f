//! Two groups of eight rows at once, in twice the vectors: the groups share their input, and
//! processors read two streams of weights ahead of the products.

use super::{Groups, Lanes};

/// Vectors of `L` for two groups.
#[derive(Debug, Clone, Copy)]
pub struct Both<L> {
    lanes: L,
    groups: Groups,
}

impl<L: Lanes> Both<L> {
    /// # Safety
    /// As [`Lanes::wide`] says.
    #[inline(always)]
    pub unsafe fn new<T>(lanes: L, first: &[T], second: &[T]) -> Self {
        let groups = Groups::new(first, second);
        Self { lanes, groups }
    }

    /// `from` and the place of the second group that corresponds to it.
    #[inline(always)]
    fn places<'a, T>(&self, from: &'a T) -> [&'a T; 2] {
        // SAFETY: the second group has that place, by the contract of `new`.
        [from, unsafe { &*self.groups.second(from) }]
    }
}

/// An operation of both groups.
macro_rules! both {
    ($($name:ident($($each:ident: $each_type:ty),*; $($same:ident: $same_type:ty),*) -> $out:ty;)*) => {
        $(#[inline(always)]
        fn $name(self, $($each: $each_type,)* $($same: $same_type,)*) -> $out {
            let l = self.lanes;
            [
                l.$name($($each[0],)* $($same,)*),
                l.$name($($each[1],)* $($same,)*),
            ]
        })*
    };
}

/// A load from both groups.
macro_rules! loads {
    ($($name:ident($from:ty) -> $out:ty;)*) => {
        $(#[inline(always)]
        fn $name(self, from: &$from) -> $out {
            let [first, second] = self.places(from);
            [self.lanes.$name(first), self.lanes.$name(second)]
        })*
    };
}

impl<L: Lanes> Lanes for Both<L> {
    const REGISTERS: usize = L::REGISTERS;
    const WIDE: bool = true;
    const QUADS: bool = L::QUADS;

    type Words = [L::Words; 2];
    type Ints = [L::Ints; 2];
    type Floats = [L::Floats; 2];
    type Wide = Self;

    loads! {
        load_words([i16; 16]) -> Self::Words;
        widen([i8; 16]) -> Self::Words;
        load_bytes([u8; 32]) -> Self::Words;
        load_i16([i16; 8]) -> Self::Floats;
        load([f32; 8]) -> Self::Floats;
        load_f16([u16; 8]) -> Self::Floats;
        load_bf16([u16; 8]) -> Self::Floats;
        load_i8([i8; 8]) -> Self::Floats;
    }

    both! {
        bits(bytes: Self::Words; at: usize, mask: u8, to: usize) -> Self::Words;
        field(words: Self::Words; at: usize, mask: u16) -> Self::Words;
        or(a: Self::Words, b: Self::Words;) -> Self::Words;
        pair(; pair: i32) -> Self::Words;
        ints(; value: i32) -> Self::Ints;
        dot(sum: Self::Ints, a: Self::Words, b: Self::Words;) -> Self::Ints;
        quad(sum: Self::Ints, a: Self::Words; b: i32) -> Self::Ints;
        with_low(a: Self::Ints, b: Self::Ints;) -> Self::Ints;
        floats(; value: f32) -> Self::Floats;
        to_floats(values: Self::Ints;) -> Self::Floats;
        nearest(values: Self::Floats;) -> Self::Floats;
        power_of_two(n: Self::Floats;) -> Self::Floats;
        min(a: Self::Floats, b: Self::Floats;) -> Self::Floats;
        max(a: Self::Floats, b: Self::Floats;) -> Self::Floats;
        add(a: Self::Floats, b: Self::Floats;) -> Self::Floats;
        div(a: Self::Floats, b: Self::Floats;) -> Self::Floats;
        mul(a: Self::Floats, b: Self::Floats;) -> Self::Floats;
        mul_add(sum: Self::Floats, a: Self::Floats, b: Self::Floats;) -> Self::Floats;
    }

    #[inline(always)]
    fn rolls(turns: usize, rows: usize) -> bool {
        L::rolls(turns, rows)
    }

    #[inline(always)]
    fn upper(self, [_, upper]: Self::Floats) -> Self::Floats {
        [upper; 2]
    }

    #[inline(always)]
    fn store(self, [lower, _]: Self::Floats, to: &mut [f32; 8]) {
        self.lanes.store(lower, to);
    }

    #[inline(always)]
    fn look_up(self, table: &[u8; 16], [first, second]: Self::Words) -> Self::Words {
        let l = self.lanes;
        [l.look_up(table, first), l.look_up(table, second)]
    }

    #[inline(always)]
    fn split(self, [first, second]: Self::Words) -> [Self::Words; 2] {
        let [a, b] = self.lanes.split(first);
        let [c, d] = self.lanes.split(second);
        [[a, c], [b, d]]
    }

    #[inline(always)]
    fn load_nibbles(self, from: &[u8; 8]) -> [Self::Floats; 2] {
        let [first, second] = self.places(from);
        let [a, b] = self.lanes.load_nibbles(first);
        let [c, d] = self.lanes.load_nibbles(second);
        [[a, c], [b, d]]
    }

    #[inline(always)]
    fn turns(self, turns: usize) -> usize {
        self.lanes.turns(turns)
    }
}
