//! Where a token stands: what the cache and attention kernels know of each token.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

/// Where one token of a pass stands. A buffer of these (`tokens`) drives
/// [`crate::append()`] and [`crate::attention()`]; it is data rather than launch
/// parameters, so that the same launches serve every step.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct Place {
    /// Its position in the text, from 0.
    pub position: u32,
    /// The cache row its key and value go to.
    pub row: u32,
    /// The cache row of the first token of its candidate.
    pub start: u32,
    /// Rows of the prefix: rows `0..prefix` are seen, and `start..=row`.
    pub prefix: u32,
}

impl Place {
    /// The cache's rows that the token sees in a layer with that window: of the prefix, and of its
    /// own candidate up to itself.
    pub fn sees(&self, window: Option<u32>) -> (Range<usize>, Range<usize>) {
        let [position, row, start, prefix] =
            [self.position, self.row, self.start, self.prefix].map(|at| at as usize);
        let from = |at: usize| window.map_or(0, |window| (at + 1).saturating_sub(window as usize));
        (
            from(position).min(prefix)..prefix,
            from(row).max(start)..row + 1,
        )
    }

    /// The cache's row of the token so many before this one, in its own candidate and then in the
    /// prefix; `None` before the text's beginning.
    pub fn before(&self, tokens: u32) -> Option<usize> {
        let own = self.row - self.start;
        let row = match tokens <= own {
            true => Some(self.row - tokens),
            false => self.prefix.checked_sub(tokens - own),
        };
        row.map(|row| row as usize)
    }
}

/// Places of `count` tokens that follow one another behind `prefix` kept rows: a decode
/// step or a chunk of a prefill.
pub fn places_in_sequence(prefix: u32, count: u32) -> Vec<Place> {
    (prefix..prefix + count)
        .map(|row| Place {
            position: row,
            row,
            start: prefix,
            prefix,
        })
        .collect()
}

/// Places of the last `count` tokens of a candidate behind `prefix` kept rows. Its rows begin at
/// `start`, the first `there` of them are there already.
pub fn places_of_candidate(
    prefix: u32,
    start: u32,
    there: u32,
    count: u32,
) -> impl Iterator<Item = Place> {
    (there..there + count).map(move |i| Place {
        position: prefix + i,
        row: start + i,
        start,
        prefix,
    })
}

/// Places of ragged candidates of these lengths in one pass behind `prefix` kept rows:
/// every candidate's positions begin at the prefix, their rows lie one behind another.
pub fn places_in_line(prefix: u32, lengths: &[u32]) -> Vec<Place> {
    let mut start = prefix;
    let mut places = Vec::new();
    for &length in lengths {
        places.extend(places_of_candidate(prefix, start, 0, length));
        start += length;
    }
    places
}
