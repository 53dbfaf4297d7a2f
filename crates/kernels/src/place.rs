//! A token's position and cache rows, for the cache and attention kernels.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

/// Position and cache rows of one token of a pass. A buffer of these (`tokens`) drives
/// [`crate::append()`] and [`crate::attention()`]; it is data rather than launch parameters, so
/// that the same launches serve every step.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct Place {
    /// Its position in the text, from 0.
    pub position: u32,
    /// The cache row for its key and value.
    pub row: u32,
    /// The cache row of the first token of its candidate.
    pub start: u32,
    /// Rows of the prefix: the token sees rows `0..prefix` and `start..=row`.
    pub prefix: u32,
}

impl Place {
    /// The cache rows visible to the token in a layer with that window: those of the prefix, and
    /// those of its own candidate up to itself.
    pub fn sees(&self, window: Option<u32>) -> (Range<usize>, Range<usize>) {
        let [position, row, start, prefix] =
            [self.position, self.row, self.start, self.prefix].map(|at| at as usize);
        let from = |at: usize| window.map_or(0, |window| (at + 1).saturating_sub(window as usize));
        (
            from(position).min(prefix)..prefix,
            from(row).max(start)..row + 1,
        )
    }

    /// The cache row of the token `tokens` before this one, in its own candidate and then in the
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

/// Places of `count` consecutive tokens after `prefix` kept rows: a decode step or a chunk of a
/// prefill.
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

/// Places of the last `count` tokens of a candidate after `prefix` kept rows. Its rows begin at
/// `start`; the first `there` of them are present already.
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

/// Places of ragged candidates of these lengths in one pass after `prefix` kept rows: each
/// candidate's positions begin at the prefix, and their rows follow each other.
pub fn places_in_line(prefix: u32, lengths: &[u32]) -> Vec<Place> {
    let mut start = prefix;
    let mut places = Vec::new();
    for &length in lengths {
        places.extend(places_of_candidate(prefix, start, 0, length));
        start += length;
    }
    places
}
