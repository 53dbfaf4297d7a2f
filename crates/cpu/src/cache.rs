//! The KV cache of one block, packed as the products read matrices: the keys as a matrix of rows,
//! the values as the transposed one.
//!
//! A row of a head is 16-bit integers that share a scale: against f16 that takes two operations in
//! place of four to become f32 in wasm, and has an eighth of its error where numbers are large,
//! which is where scores are. Where not even that may be lost, it is f32.

use crate::input::{ROUND, step};
use crate::lanes::LANES;

/// Keys and values of one block.
#[derive(Debug, Clone)]
pub struct Cache {
    shape: Shape,
    numbers: Numbers,
    /// What each row of a head's keys is to be multiplied with, `[heads, groups · 8]`.
    key_scales: Vec<f32>,
    /// The same for values.
    value_scales: Vec<f32>,
}

/// How keys and values lie.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub heads: usize,
    pub width: usize,
    /// Eight rows after another.
    groups: usize,
}

/// Keys and values.
#[derive(Debug, Clone)]
pub(crate) enum Numbers {
    /// Times a scale.
    Short(Planes<i16>),
    /// As they are.
    Single(Planes<f32>),
}

/// Keys and values as numbers of one kind.
#[derive(Debug, Clone)]
pub(crate) struct Planes<N> {
    /// `[heads, groups, width]`, a lane for each of eight rows.
    keys: Vec<[N; LANES]>,
    /// `[heads, width / 8, groups · 8]`, a lane for each of eight dimensions; those beyond `width`
    /// are zeros.
    values: Vec<[N; LANES]>,
}

impl Cache {
    /// Room for `rows` keys and values of `heads` heads of `width` numbers, in 16 bits each or,
    /// where they are to stay `exact`, in 32.
    pub fn new(rows: usize, heads: usize, width: usize, exact: bool) -> Self {
        let shape = Shape {
            heads,
            width,
            groups: rows.div_ceil(LANES),
        };
        Self {
            shape,
            numbers: if exact {
                Numbers::Single(Planes::new(shape))
            } else {
                Numbers::Short(Planes::new(shape))
            },
            key_scales: vec![1.0; heads * shape.rows()],
            value_scales: vec![1.0; heads * shape.rows()],
        }
    }

    /// Rows there is room for.
    pub fn rows(&self) -> usize {
        self.shape.rows()
    }

    /// Key and value heads.
    pub fn heads(&self) -> usize {
        self.shape.heads
    }

    /// Numbers of a head.
    pub fn width(&self) -> usize {
        self.shape.width
    }

    /// Bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        let numbers = match &self.numbers {
            Numbers::Short(planes) => planes.bytes(),
            Numbers::Single(planes) => planes.bytes(),
        };
        numbers + size_of_val(&self.key_scales[..]) + size_of_val(&self.value_scales[..])
    }

    /// Writes key and value of one row, each `[heads, width]`; beyond the last row, nothing.
    pub fn write(&mut self, row: usize, key: &[f32], value: &[f32]) {
        let shape = self.shape;
        if row >= shape.rows() {
            return;
        }
        let width = shape.width.max(1);
        let heads = key.chunks_exact(width).zip(value.chunks_exact(width));
        for (head, (key, value)) in heads.enumerate().take(shape.heads) {
            match &mut self.numbers {
                Numbers::Single(planes) => {
                    planes.write_key(shape, head, row, key, |number| number);
                    planes.write_value(shape, head, row, value, |number| number);
                }
                Numbers::Short(planes) => {
                    let (scale, inverse) = step(key);
                    self.key_scales[head * shape.rows() + row] = scale;
                    planes.write_key(shape, head, row, key, |x| rounded(x * inverse));
                    let (scale, inverse) = step(value);
                    self.value_scales[head * shape.rows() + row] = scale;
                    planes.write_value(shape, head, row, value, |x| rounded(x * inverse));
                }
            }
        }
    }

    /// Moves the rows `from .. from + count` to `to ..`, `to <= from`; what is not there stays.
    pub fn move_rows(&mut self, from: usize, to: usize, count: usize) {
        let shape = self.shape;
        let count = count.min(shape.rows().saturating_sub(from.max(to)));
        match &mut self.numbers {
            Numbers::Short(planes) => planes.move_rows(shape, from, to, count),
            Numbers::Single(planes) => planes.move_rows(shape, from, to, count),
        }
        for at in (0..shape.heads).map(|head| head * shape.rows()) {
            for scales in [&mut self.key_scales, &mut self.value_scales] {
                scales.copy_within(at + from..at + from + count, at + to);
            }
        }
    }

    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    pub(crate) fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// What the keys `8 · group ..` of a head are to be multiplied with.
    #[inline(always)]
    pub(crate) fn key_scales(&self, head: usize, group: usize) -> &[f32; LANES] {
        &self.key_scales.as_chunks().0[head * self.shape.groups + group]
    }

    /// What each row of a head's values is to be multiplied with, `[rows]`.
    #[inline(always)]
    pub(crate) fn value_scales(&self, head: usize) -> &[f32] {
        &self.value_scales[head * self.rows()..][..self.rows()]
    }
}

impl Shape {
    #[inline(always)]
    fn rows(self) -> usize {
        self.groups * LANES
    }

    /// Where the keys `8 · group ..` of a head begin.
    #[inline(always)]
    fn keys(self, head: usize, group: usize) -> usize {
        (head * self.groups + group) * self.width
    }

    /// Where the dimensions `8 · eight ..` of a head's values begin.
    #[inline(always)]
    fn values(self, head: usize, eight: usize) -> usize {
        (head * self.width.div_ceil(LANES) + eight) * self.rows()
    }
}

impl<N: Copy + Default> Planes<N> {
    fn new(shape: Shape) -> Self {
        let none = [N::default(); LANES];
        Self {
            keys: vec![none; shape.keys(shape.heads, 0)],
            values: vec![none; shape.values(shape.heads, 0)],
        }
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.keys[..]) + size_of_val(&self.values[..])
    }

    fn write_key(&mut self, s: Shape, head: usize, row: usize, key: &[f32], to: impl Fn(f32) -> N) {
        let keys = &mut self.keys[s.keys(head, row / LANES)..];
        for (lanes, number) in keys.iter_mut().zip(key) {
            lanes[row % LANES] = to(*number);
        }
    }

    fn write_value(
        &mut self,
        s: Shape,
        head: usize,
        row: usize,
        value: &[f32],
        to: impl Fn(f32) -> N,
    ) {
        for (eight, value) in value.chunks(LANES).enumerate() {
            let lanes = &mut self.values[s.values(head, eight) + row];
            for (lane, number) in lanes.iter_mut().zip(value) {
                *lane = to(*number);
            }
        }
    }

    fn move_rows(&mut self, s: Shape, from: usize, to: usize, count: usize) {
        for head in 0..s.heads {
            for (from, to) in (0..count).map(|i| (from + i, to + i)) {
                let [source, target] = [from, to].map(|row| s.keys(head, row / LANES));
                for dimension in 0..s.width {
                    let number = self.keys[source + dimension][from % LANES];
                    self.keys[target + dimension][to % LANES] = number;
                }
            }
            for eight in 0..s.width.div_ceil(LANES) {
                let at = s.values(head, eight);
                self.values
                    .copy_within(at + from..at + from + count, at + to);
            }
        }
    }

    /// Keys of the rows `8 · group ..`, `[width]`.
    #[inline(always)]
    pub fn keys(&self, s: Shape, head: usize, group: usize) -> &[[N; LANES]] {
        &self.keys[s.keys(head, group)..][..s.width]
    }

    /// The dimensions `8 · eight ..` of all values, `[rows]`.
    #[inline(always)]
    pub fn values(&self, s: Shape, head: usize, eight: usize) -> &[[N; LANES]] {
        &self.values[s.values(head, eight)..][..s.rows()]
    }
}

/// The nearest integer to a number of at most 2¹⁵.
fn rounded(number: f32) -> i16 {
    (number + ROUND).to_bits().wrapping_sub(ROUND.to_bits()) as i16
}
