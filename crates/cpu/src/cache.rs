//! The KV cache of one block, packed like matrices: the keys as a matrix of rows, the values as the
//! transposed one.
//!
//! A row of a head is 16-bit integers that share a scale, with an eighth of f16's error for large
//! numbers, which scores consist of. Queries are rounded too, so that scores are integer products.
//! The weights of values are not: rounding eight together would depend on neighbouring rows, and a
//! candidate in line must give what it gives alone. Where rounding is ruled out, the cache is f32.

use crate::carry::Carry;
use crate::input::{I16x4, nearest, step_of};
use crate::lanes::LANES;
use crate::packed::{F32x8, I16x8, I16x8x4};
use crate::tile::Tile;

/// Keys and values of one block.
#[derive(Debug, Clone)]
pub struct Cache {
    shape: Shape,
    numbers: Numbers,
    /// Scales of each head's key rows, `[heads, groups · 8]`.
    key_scales: Vec<f32>,
    /// The same for values.
    value_scales: Vec<f32>,
}

/// Layout of keys and values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub heads: usize,
    pub width: usize,
    /// Groups of eight rows.
    groups: usize,
}

/// Keys and values.
#[derive(Debug, Clone)]
pub(crate) enum Numbers {
    /// Integers times a scale.
    Integers(Planes<I16x8x4, I16x8>),
    /// Unrounded.
    Floats(Planes<F32x8, F32x8>),
}

/// Keys in blocks `K` and values in columns `V` of the same number type.
#[derive(Debug, Clone)]
pub(crate) struct Planes<K, V> {
    /// `[heads, groups, width / COLS]`, a lane for each of eight rows.
    keys: Vec<K>,
    /// `[heads, width / 8, groups · 8]`, a lane for each of eight dimensions; zeros beyond `width`.
    values: Vec<V>,
}

/// Blocks of keys.
pub(crate) trait Keys: Tile + Copy {
    /// Type of a number.
    type Number: bytemuck::Pod + Default;
    /// Columns of a block.
    const COLS: usize;
    /// All zeros.
    const NONE: Self;

    /// The number at a lane and a column.
    fn number(&mut self, lane: usize, col: usize) -> &mut Self::Number;

    /// Appends a query in the form of products' input.
    fn parts(query: &[f32], to: &mut Vec<Self::InputBlock>);
}

impl Keys for I16x8x4 {
    type Number = i16;
    const COLS: usize = 4;
    const NONE: Self = [[0; 2 * LANES]; 2];

    #[inline(always)]
    fn number(&mut self, lane: usize, col: usize) -> &mut i16 {
        &mut self[col / 2][2 * lane + col % 2]
    }

    fn parts(query: &[f32], to: &mut Vec<I16x4>) {
        to.extend(query.chunks(4).map(I16x4::round));
    }
}

impl Keys for F32x8 {
    type Number = f32;
    const COLS: usize = 1;
    const NONE: Self = [0.0; LANES];

    #[inline(always)]
    fn number(&mut self, lane: usize, _: usize) -> &mut f32 {
        &mut self[lane]
    }

    fn parts(query: &[f32], to: &mut Vec<f32>) {
        to.extend_from_slice(query);
    }
}

impl Cache {
    /// Allocates `rows` keys and values of `heads` heads of `width` numbers, 16 bits each or, if
    /// `exact`, 32.
    pub fn new(rows: usize, heads: usize, width: usize, exact: bool) -> Self {
        let shape = Shape {
            heads,
            width,
            groups: rows.div_ceil(LANES),
        };
        Self {
            shape,
            numbers: if exact {
                Numbers::Floats(Planes::new(shape))
            } else {
                Numbers::Integers(Planes::new(shape))
            },
            key_scales: vec![1.0; heads * shape.rows()],
            value_scales: vec![1.0; heads * shape.rows()],
        }
    }

    /// Capacity in rows.
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

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        let numbers = match &self.numbers {
            Numbers::Integers(planes) => planes.bytes(),
            Numbers::Floats(planes) => planes.bytes(),
        };
        numbers + size_of_val(&self.key_scales[..]) + size_of_val(&self.value_scales[..])
    }

    /// Bytes of memory that [`new`](Self::new) takes.
    pub fn bytes_of(rows: usize, heads: usize, width: usize, exact: bool) -> u64 {
        let of_lanes = Self::new(LANES, heads, width, exact).bytes();
        rows.div_ceil(LANES) as u64 * of_lanes as u64
    }

    /// Writes key and value of one row, each `[heads, width]`; ignores rows beyond the last.
    pub fn write(&mut self, row: usize, key: &[f32], value: &[f32]) {
        let shape = self.shape;
        if row >= shape.rows() {
            return;
        }
        let width = shape.width.max(1);
        let heads = key.chunks_exact(width).zip(value.chunks_exact(width));
        for (head, (key, value)) in heads.enumerate().take(shape.heads) {
            match &mut self.numbers {
                Numbers::Floats(planes) => {
                    planes.write(shape, head, row, |dimension| {
                        (key[dimension], value[dimension])
                    });
                }
                Numbers::Integers(planes) => {
                    let [(key_scale, k), (value_scale, v)] = [key, value].map(step_of);
                    self.key_scales[head * shape.rows() + row] = key_scale;
                    self.value_scales[head * shape.rows() + row] = value_scale;
                    planes.write(shape, head, row, |dimension| {
                        let (key, value) = (k * key[dimension], v * value[dimension]);
                        (nearest(key) as i16, nearest(value) as i16)
                    });
                }
            }
        }
    }

    /// Moves the rows `from .. from + count` to `to ..`, `to <= from`; skips rows out of range.
    pub fn move_rows(&mut self, from: usize, to: usize, count: usize) {
        let shape = self.shape;
        let count = count.min(shape.rows().saturating_sub(from.max(to)));
        match &mut self.numbers {
            Numbers::Integers(planes) => planes.move_rows(shape, from, to, count),
            Numbers::Floats(planes) => planes.move_rows(shape, from, to, count),
        }
        for at in (0..shape.heads).map(|head| head * shape.rows()) {
            for scales in [&mut self.key_scales, &mut self.value_scales] {
                scales.copy_within(at + from..at + from + count, at + to);
            }
        }
    }

    /// Bytes of a row.
    pub fn row_bytes(heads: usize, width: usize, exact: bool) -> usize {
        let of_head = match exact {
            true => size_of::<f32>() * width,
            false => size_of::<i16>() * width + size_of::<f32>(),
        };
        2 * heads * of_head
    }

    /// Copies the first `rows` rows out or in, [`row_bytes`](Self::row_bytes) each, bit for bit.
    pub fn carry(&mut self, rows: usize, carry: &mut Carry<'_>) {
        let shape = self.shape;
        let rows = rows.min(shape.rows());
        for head in 0..shape.heads {
            match &mut self.numbers {
                Numbers::Floats(planes) => planes.carry(shape, head, rows, carry),
                Numbers::Integers(planes) => {
                    for scales in [&mut self.key_scales, &mut self.value_scales] {
                        carry.numbers(&mut scales[head * shape.rows()..][..rows]);
                    }
                    planes.carry(shape, head, rows, carry);
                }
            }
        }
    }

    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    pub(crate) fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// Scales of the keys `8 · group ..` of a head.
    #[inline(always)]
    pub(crate) fn key_scales(&self, head: usize, group: usize) -> &[f32; LANES] {
        &self.key_scales.as_chunks().0[head * self.shape.groups + group]
    }

    /// Scale of each row of a head's values, `[rows]`.
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

    /// Index of the dimensions `8 · eight ..` of a head's values.
    #[inline(always)]
    fn values(self, head: usize, eight: usize) -> usize {
        (head * self.width.div_ceil(LANES) + eight) * self.rows()
    }
}

impl<K: Keys> Planes<K, [K::Number; LANES]> {
    fn new(s: Shape) -> Self {
        let keys = s.heads * s.groups * s.width.div_ceil(K::COLS);
        let values = s.heads * s.width.div_ceil(LANES) * s.rows();
        Self {
            keys: vec![K::NONE; keys],
            values: vec![[K::Number::default(); LANES]; values],
        }
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.keys[..]) + size_of_val(&self.values[..])
    }

    fn key(&mut self, s: Shape, head: usize, row: usize, dimension: usize) -> &mut K::Number {
        let at = (head * s.groups + row / LANES) * s.width.div_ceil(K::COLS);
        self.keys[at + dimension / K::COLS].number(row % LANES, dimension % K::COLS)
    }

    fn value(&mut self, s: Shape, head: usize, row: usize, dimension: usize) -> &mut K::Number {
        &mut self.values[s.values(head, dimension / LANES) + row][dimension % LANES]
    }

    /// Writes key and value of one row of a head; `numbers` returns both for a dimension.
    fn write(
        &mut self,
        s: Shape,
        head: usize,
        row: usize,
        numbers: impl Fn(usize) -> (K::Number, K::Number),
    ) {
        for dimension in 0..s.width {
            let (key, value) = numbers(dimension);
            *self.key(s, head, row, dimension) = key;
            *self.value(s, head, row, dimension) = value;
        }
    }

    fn move_rows(&mut self, s: Shape, from: usize, to: usize, count: usize) {
        for head in 0..s.heads {
            for (from, to) in (0..count).map(|i| (from + i, to + i)) {
                for dimension in 0..s.width {
                    let key = *self.key(s, head, from, dimension);
                    *self.key(s, head, to, dimension) = key;
                    let value = *self.value(s, head, from, dimension);
                    *self.value(s, head, to, dimension) = value;
                }
            }
        }
    }

    fn carry(&mut self, s: Shape, head: usize, rows: usize, carry: &mut Carry<'_>) {
        for row in 0..rows {
            for dimension in 0..s.width {
                carry.numbers(std::slice::from_mut(self.key(s, head, row, dimension)));
                carry.numbers(std::slice::from_mut(self.value(s, head, row, dimension)));
            }
        }
    }

    /// Keys of the rows `8 · group ..`.
    #[inline(always)]
    pub fn keys(&self, s: Shape, head: usize, group: usize) -> &[K] {
        let blocks = s.width.div_ceil(K::COLS);
        &self.keys[(head * s.groups + group) * blocks..][..blocks]
    }

    /// The dimensions `8 · eight ..` of the values of all rows.
    #[inline(always)]
    pub fn values(&self, s: Shape, head: usize, eight: usize) -> &[[K::Number; LANES]] {
        &self.values[s.values(head, eight)..][..s.rows()]
    }
}
