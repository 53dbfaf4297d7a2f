//! The KV cache of one block, packed like matrices: the keys as a matrix of rows, the values as the
//! transposed one.
//!
//! Numbers are 16-bit integers, and each eight numbers of a head's row share a scale. Some
//! dimensions of keys are hundreds of times as large as the others, and one scale for a whole head
//! lost 8e-3 of the largest logit of a model. Scales are rounded up to BF16, so that no number
//! exceeds the range of the integers. Queries are rounded too, so that scores are integer products.
//! The softmax weights of values are not rounded: with a scale for eight rows, a weight would
//! depend on neighbouring rows, and a candidate in line must give the same result as alone. Where
//! rounding is ruled out, the cache is f32.

use crate::carry::Carry;
use crate::input::{I16x4, nearest, step_of_half};
use crate::lanes::LANES;
use crate::packed::{F32x8, I16x8, I16x8x8};
use crate::tile::Tile;

/// Numbers of a row that share a scale.
const GROUP: usize = LANES;

/// Keys and values of one block.
#[derive(Debug, Clone)]
pub struct Cache {
    shape: Shape,
    numbers: Numbers,
}

/// Layout of keys and values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub heads: usize,
    pub width: usize,
    /// Number of groups of eight rows.
    groups: usize,
}

/// Keys and values.
#[derive(Debug, Clone)]
pub(crate) enum Numbers {
    /// Integers times a scale.
    Integers(Planes<I16x8x8, I16x8>),
    /// Unrounded.
    Floats(Planes<F32x8, F32x8>),
}

/// Keys in blocks `K` and values in columns `V` of the same number type.
#[derive(Debug, Clone)]
pub(crate) struct Planes<K, V> {
    /// `[heads, groups, width / COLS]`, a lane for each of eight rows.
    keys: Vec<K>,
    /// `[heads, width / 8, groups · 8]`, a lane for each of eight dimensions; zeros beyond
    /// `width`.
    values: Vec<V>,
    /// BF16 scale of each of `values`, a lane for each of eight rows: `[heads, width / 8, groups]`;
    /// empty where numbers are not rounded.
    value_scales: Vec<[u16; LANES]>,
}

/// Blocks of keys.
pub(crate) trait Keys: Tile + Copy {
    /// Type of a number.
    type Number: bytemuck::Pod + Default;
    /// Columns of a block.
    const COLS: usize;
    /// Block of zeros.
    const NONE: Self;
    /// Whether each group of eight numbers of a row has a scale.
    const SCALED: bool;

    /// The number in a lane and a column.
    fn number(&mut self, lane: usize, col: usize) -> &mut Self::Number;

    /// The BF16 scale of a lane, where there are scales.
    fn scale(&mut self, lane: usize) -> Option<&mut u16>;

    /// Rounds up to eight numbers; returns their BF16 scale.
    fn round(numbers: &[f32], to: &mut [Self::Number; GROUP]) -> u16;

    /// Appends a query in the form of products' input.
    fn parts(query: &[f32], to: &mut Vec<Self::InputBlock>);
}

impl Keys for I16x8x8 {
    type Number = i16;
    const COLS: usize = GROUP;
    const NONE: Self = Self {
        scales: [0; LANES],
        pairs: [[0; 2 * LANES]; GROUP / 2],
    };
    const SCALED: bool = true;

    #[inline(always)]
    fn number(&mut self, lane: usize, col: usize) -> &mut i16 {
        &mut self.pairs[col / 2][2 * lane + col % 2]
    }

    #[inline(always)]
    fn scale(&mut self, lane: usize) -> Option<&mut u16> {
        Some(&mut self.scales[lane])
    }

    #[inline(always)]
    fn round(numbers: &[f32], to: &mut [i16; GROUP]) -> u16 {
        let (scale, inverse) = step_of_half(numbers);
        for (to, number) in to.iter_mut().zip(numbers) {
            *to = nearest(number * inverse) as i16;
        }
        scale
    }

    fn parts(query: &[f32], to: &mut Vec<[I16x4; 2]>) {
        to.extend(query.chunks(GROUP).map(|eight| {
            let (first, second) = eight.split_at(eight.len().min(GROUP / 2));
            [first, second].map(I16x4::round)
        }));
    }
}

impl Keys for F32x8 {
    type Number = f32;
    const COLS: usize = 1;
    const NONE: Self = [0.0; LANES];
    const SCALED: bool = false;

    #[inline(always)]
    fn number(&mut self, lane: usize, _: usize) -> &mut f32 {
        &mut self[lane]
    }

    #[inline(always)]
    fn scale(&mut self, _: usize) -> Option<&mut u16> {
        None
    }

    #[inline(always)]
    fn round(numbers: &[f32], to: &mut [f32; GROUP]) -> u16 {
        to[..numbers.len()].copy_from_slice(numbers);
        0
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
        }
    }

    /// Capacity in rows.
    pub fn rows(&self) -> usize {
        self.shape.rows()
    }

    /// Number of key and value heads.
    pub fn heads(&self) -> usize {
        self.shape.heads
    }

    /// Numbers of a head.
    pub fn width(&self) -> usize {
        self.shape.width
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        match &self.numbers {
            Numbers::Integers(planes) => planes.bytes(),
            Numbers::Floats(planes) => planes.bytes(),
        }
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
                Numbers::Floats(planes) => planes.write(shape, head, row, key, value),
                Numbers::Integers(planes) => planes.write(shape, head, row, key, value),
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
    }

    /// Bytes of a row.
    pub fn row_bytes(heads: usize, width: usize, exact: bool) -> usize {
        let of_head = match exact {
            true => size_of::<f32>() * width,
            false => size_of::<i16>() * (width + width.div_ceil(GROUP)),
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
                Numbers::Integers(planes) => planes.carry(shape, head, rows, carry),
            }
        }
    }

    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    pub(crate) fn numbers(&self) -> &Numbers {
        &self.numbers
    }
}

impl Shape {
    #[inline(always)]
    fn rows(self) -> usize {
        self.groups * LANES
    }

    /// Groups of dimensions that share a scale.
    #[inline(always)]
    fn eights(self) -> usize {
        self.width.div_ceil(GROUP)
    }

    /// Index of the dimensions `8 · eight .. 8 · eight + 8` of a head's values.
    #[inline(always)]
    fn values(self, head: usize, eight: usize) -> usize {
        (head * self.eights() + eight) * self.rows()
    }
}

impl<K: Keys> Planes<K, [K::Number; LANES]> {
    fn new(s: Shape) -> Self {
        let keys = s.heads * s.groups * s.width.div_ceil(K::COLS);
        let values = s.heads * s.eights() * s.rows();
        let scales = if K::SCALED { values / LANES } else { 0 };
        Self {
            keys: vec![K::NONE; keys],
            values: vec![[K::Number::default(); LANES]; values],
            value_scales: vec![[0; LANES]; scales],
        }
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.keys[..])
            + size_of_val(&self.values[..])
            + size_of_val(&self.value_scales[..])
    }

    fn block(&mut self, s: Shape, head: usize, row: usize, dimension: usize) -> &mut K {
        let at = (head * s.groups + row / LANES) * s.width.div_ceil(K::COLS);
        &mut self.keys[at + dimension / K::COLS]
    }

    fn key(&mut self, s: Shape, head: usize, row: usize, dimension: usize) -> &mut K::Number {
        let block = self.block(s, head, row, dimension);
        block.number(row % LANES, dimension % K::COLS)
    }

    fn value(&mut self, s: Shape, head: usize, row: usize, dimension: usize) -> &mut K::Number {
        &mut self.values[s.values(head, dimension / LANES) + row][dimension % LANES]
    }

    /// Scales of the dimensions `8 · eight .. 8 · eight + 8` of a row's key and value.
    fn scales(&mut self, s: Shape, head: usize, row: usize, eight: usize) -> Option<[&mut u16; 2]> {
        let at = (s.values(head, eight) + row) / LANES;
        let key_at = (head * s.groups + row / LANES) * s.width.div_ceil(K::COLS);
        let key = self.keys.get_mut(key_at + eight * GROUP / K::COLS)?;
        let values = self.value_scales.get_mut(at)?;
        Some([key.scale(row % LANES)?, &mut values[row % LANES]])
    }

    /// Writes key and value of one row of a head.
    fn write(&mut self, s: Shape, head: usize, row: usize, key: &[f32], value: &[f32]) {
        let eights = key.chunks(GROUP).zip(value.chunks(GROUP));
        for (eight, (key, value)) in eights.enumerate() {
            let mut rounded = [[K::Number::default(); GROUP]; 2];
            let [keys, values] = &mut rounded;
            let rounding = [K::round(key, keys), K::round(value, values)];
            for i in 0..key.len() {
                let [key, value] = rounded.map(|numbers| numbers[i]);
                *self.key(s, head, row, GROUP * eight + i) = key;
                *self.value(s, head, row, GROUP * eight + i) = value;
            }
            if let Some(scales) = self.scales(s, head, row, eight) {
                scales
                    .into_iter()
                    .zip(rounding)
                    .for_each(|(to, scale)| *to = scale);
            }
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
                for eight in 0..s.eights() {
                    let moved = self
                        .scales(s, head, from, eight)
                        .map(|two| two.map(|one| *one));
                    let into = self.scales(s, head, to, eight);
                    for (moved, into) in moved.iter().flatten().zip(into.into_iter().flatten()) {
                        *into = *moved;
                    }
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
            for eight in 0..s.eights() {
                for scale in self.scales(s, head, row, eight).into_iter().flatten() {
                    carry.numbers(std::slice::from_mut(scale));
                }
            }
        }
    }

    /// Blocks of keys of the rows `8 · group .. 8 · group + 8`.
    #[inline(always)]
    pub fn keys(&self, s: Shape, head: usize, group: usize) -> &[K] {
        let blocks = s.width.div_ceil(K::COLS);
        &self.keys[(head * s.groups + group) * blocks..][..blocks]
    }

    /// Dimensions `8 · eight .. 8 · eight + 8` of the values of all rows.
    #[inline(always)]
    pub fn values(&self, s: Shape, head: usize, eight: usize) -> &[[K::Number; LANES]] {
        &self.values[s.values(head, eight)..][..s.rows()]
    }

    /// BF16 scales of the same values; empty if there are none.
    #[inline(always)]
    pub fn value_scales(&self, s: Shape, head: usize, eight: usize) -> &[[u16; LANES]] {
        let at = s.values(head, eight) / LANES;
        self.value_scales.get(at..at + s.groups).unwrap_or_default()
    }
}
