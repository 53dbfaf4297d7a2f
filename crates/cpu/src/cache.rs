//! The KV cache of one block, in f16, packed as the products read matrices: the keys as a matrix
//! of rows, the values as the transposed one.

use crate::half::to_half;
use crate::lanes::LANES;
use crate::packed::Half;

/// Keys and values of one block.
#[derive(Debug, Clone)]
pub struct Cache {
    heads: usize,
    width: usize,
    /// Eight keys after another.
    groups: usize,
    /// `[heads, groups, width]`, a lane for each of eight rows.
    keys: Vec<Half>,
    /// `[heads, width / 8, groups · 8]`, a lane for each of eight dimensions; those beyond `width`
    /// are zeros.
    values: Vec<Half>,
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
            values: vec![[0; LANES]; heads * width.div_ceil(LANES) * rows],
        }
    }

    /// Rows there is room for.
    pub fn rows(&self) -> usize {
        self.groups * LANES
    }

    /// Bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.keys[..]) + size_of_val(&self.values[..])
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
        let heads = key
            .chunks_exact(self.width)
            .zip(value.chunks_exact(self.width));
        if row >= self.rows() {
            return;
        }
        for (head, (key, value)) in heads.enumerate().take(self.heads) {
            let keys = &mut self.keys[(head * self.groups + row / LANES) * self.width..];
            for (lanes, number) in keys.iter_mut().zip(key) {
                lanes[row % LANES] = to_half(*number);
            }
            for (eight, value) in value.chunks(LANES).enumerate() {
                let at = self.value_at(head, eight) + row;
                for (lane, number) in self.values[at].iter_mut().zip(value) {
                    *lane = to_half(*number);
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
        }
    }

    /// Keys of the rows `8 · group ..`, `[width]`.
    #[inline(always)]
    pub(crate) fn keys(&self, head: usize, group: usize) -> &[Half] {
        &self.keys[(head * self.groups + group) * self.width..][..self.width]
    }

    /// The dimensions `8 · eight ..` of all values, `[rows]`.
    #[inline(always)]
    pub(crate) fn values(&self, head: usize, eight: usize) -> &[Half] {
        &self.values[self.value_at(head, eight)..][..self.groups * LANES]
    }

    fn value_at(&self, head: usize, eight: usize) -> usize {
        (head * self.width.div_ceil(LANES) + eight) * self.groups * LANES
    }
}
