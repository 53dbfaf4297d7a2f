//! The KV cache of one block, packed as the products read matrices: the keys as a matrix of rows,
//! the values as the transposed one.
//!
//! A row of a head is 16-bit integers that share a scale. Against f16 that takes two operations in
//! place of four to become f32 in wasm, and has an eighth of its error where numbers are large,
//! which is where scores are.

use crate::input::{ROUND, step};
use crate::lanes::LANES;
use crate::packed::Short;

/// Keys and values of one block.
#[derive(Debug, Clone)]
pub struct Cache {
    heads: usize,
    width: usize,
    /// Eight keys after another.
    groups: usize,
    /// `[heads, groups, width]`, a lane for each of eight rows.
    keys: Vec<Short>,
    /// `[heads, groups · 8]`.
    key_scales: Vec<f32>,
    /// `[heads, width / 8, groups · 8]`, a lane for each of eight dimensions; those beyond `width`
    /// are zeros.
    values: Vec<Short>,
    /// `[heads, groups · 8]`.
    value_scales: Vec<f32>,
}

impl Cache {
    /// Room for `rows` keys and values of `heads` heads of `width` numbers.
    pub fn new(rows: usize, heads: usize, width: usize) -> Self {
        let groups = rows.div_ceil(LANES);
        let rows = groups * LANES;
        Self {
            heads,
            width,
            groups,
            keys: vec![[0; LANES]; heads * groups * width],
            key_scales: vec![0.0; heads * rows],
            values: vec![[0; LANES]; heads * width.div_ceil(LANES) * rows],
            value_scales: vec![0.0; heads * rows],
        }
    }

    /// Rows there is room for.
    pub fn rows(&self) -> usize {
        self.groups * LANES
    }

    /// Bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        let numbers = size_of_val(&self.keys[..]) + size_of_val(&self.values[..]);
        numbers + size_of_val(&self.key_scales[..]) + size_of_val(&self.value_scales[..])
    }

    /// Key and value heads.
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// Numbers of a head.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Writes key and value of one row, each `[heads, width]`; beyond the last row, nothing.
    pub fn write(&mut self, row: usize, key: &[f32], value: &[f32]) {
        if row >= self.rows() {
            return;
        }
        let width = self.width.max(1);
        let heads = key.chunks_exact(width).zip(value.chunks_exact(width));
        for (head, (key, value)) in heads.enumerate().take(self.heads) {
            let scales = head * self.rows() + row;
            let (scale, inverse) = step(key);
            self.key_scales[scales] = scale;
            let keys = &mut self.keys[(head * self.groups + row / LANES) * self.width..];
            for (lanes, number) in keys.iter_mut().zip(key) {
                lanes[row % LANES] = rounded(number * inverse);
            }
            let (scale, inverse) = step(value);
            self.value_scales[scales] = scale;
            for (eight, value) in value.chunks(LANES).enumerate() {
                let at = self.value_at(head, eight) + row;
                for (lane, number) in self.values[at].iter_mut().zip(value) {
                    *lane = rounded(number * inverse);
                }
            }
        }
    }

    /// Moves the rows `from .. from + count` to `to ..`, `to <= from`; what is not there stays.
    pub fn move_rows(&mut self, from: usize, to: usize, count: usize) {
        let count = count.min(self.rows().saturating_sub(from.max(to)));
        for head in 0..self.heads {
            let first = head * self.groups;
            for i in 0..count {
                let (from, to) = (from + i, to + i);
                for dimension in 0..self.width {
                    let at = |row: usize| (first + row / LANES) * self.width + dimension;
                    self.keys[at(to)][to % LANES] = self.keys[at(from)][from % LANES];
                }
            }
            for eight in 0..self.width.div_ceil(LANES) {
                let at = self.value_at(head, eight);
                self.values
                    .copy_within(at + from..at + from + count, at + to);
            }
            let at = head * self.rows();
            for scales in [&mut self.key_scales, &mut self.value_scales] {
                scales.copy_within(at + from..at + from + count, at + to);
            }
        }
    }

    /// Keys of the rows `8 · group ..`, `[width]`, and what each is to be multiplied with.
    #[inline(always)]
    pub(crate) fn keys(&self, head: usize, group: usize) -> (&[Short], &[f32; LANES]) {
        let at = head * self.groups + group;
        let scales = &self.key_scales.as_chunks::<LANES>().0[at];
        (&self.keys[at * self.width..][..self.width], scales)
    }

    /// The dimensions `8 · eight ..` of all values, `[rows]`.
    #[inline(always)]
    pub(crate) fn values(&self, head: usize, eight: usize) -> &[Short] {
        &self.values[self.value_at(head, eight)..][..self.rows()]
    }

    /// What each row of a head's values is to be multiplied with, `[rows]`.
    #[inline(always)]
    pub(crate) fn value_scales(&self, head: usize) -> &[f32] {
        &self.value_scales[head * self.rows()..][..self.rows()]
    }

    fn value_at(&self, head: usize, eight: usize) -> usize {
        (head * self.width.div_ceil(LANES) + eight) * self.rows()
    }
}

/// The nearest integer to a number of at most 2¹⁵.
fn rounded(number: f32) -> i16 {
    (number + ROUND).to_bits().wrapping_sub(ROUND.to_bits()) as i16
}
