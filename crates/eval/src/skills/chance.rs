//! Seeded draws: one ChaCha stream per (purpose, seed, index), so that any question can be drawn
//! again on its own, and training and examination never share a stream.

use super::Purpose;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// Source of random draws for one question or conversation.
pub(crate) struct Chance(ChaCha8Rng);

impl Chance {
    pub(crate) fn new(purpose: Purpose, seed: u64, index: u64) -> Self {
        let mut key = [0_u8; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(match purpose {
            Purpose::Training => b"training",
            Purpose::Examination => b"examined",
        });
        let mut rng = ChaCha8Rng::from_seed(key);
        rng.set_stream(index);
        Self(rng)
    }

    /// Number in `0..bound`; the bias of about 2^-32 is negligible here.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u64::from(self.0.next_u32()) * bound as u64) >> 32) as usize
    }

    /// Number in `low..=high`.
    pub(crate) fn between(&mut self, low: u32, high: u32) -> u32 {
        low + self.below((high - low + 1) as usize) as u32
    }

    /// True with a probability of `share` percent.
    pub(crate) fn percent(&mut self, share: usize) -> bool {
        self.below(100) < share
    }

    /// One of the items.
    pub(crate) fn pick<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.below(items.len())]
    }

    /// `count` distinct items in random order, or all if there are fewer.
    pub(crate) fn sample<T: Copy>(&mut self, items: &[T], count: usize) -> Vec<T> {
        let mut pool = items.to_vec();
        let count = count.min(pool.len());
        for place in 0..count {
            let other = place + self.below(pool.len() - place);
            pool.swap(place, other);
        }
        pool.truncate(count);
        pool
    }

    /// One of the phrasings, with `{a}`, `{b}`, … replaced in order by the values.
    pub(crate) fn say(&mut self, phrasings: &[&str], values: &[&str]) -> String {
        let mut text = self.pick(phrasings).to_string();
        for (place, value) in values.iter().enumerate() {
            let hole = format!("{{{}}}", (b'a' + place as u8) as char);
            text = text.replace(&hole, value);
        }
        text
    }

    /// Varies a question as people type it: sometimes with a greeting, without its capital or its
    /// full stop.
    pub(crate) fn colloquial(&mut self, text: &str) -> String {
        let mut text = text.to_string();
        if self.percent(8) {
            let greeting =
                self.pick(&["Please: ", "Hi! ", "Hello! ", "A question: ", "Quick one: "]);
            text = format!("{greeting}{text}");
        }
        if self.percent(8)
            && let Some(first) = text.chars().next()
        {
            text.replace_range(..first.len_utf8(), &first.to_lowercase().to_string());
        }
        if self.percent(8) && text.ends_with(['.', '?']) {
            text.pop();
        }
        text
    }
}

/// Joins `items` with commas.
pub(crate) fn commas<T: ToString>(items: &[T]) -> String {
    items
        .iter()
        .map(T::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Count with a unit, singular for one: `1 hour`, `3 hours`.
pub(crate) fn counted(count: u32, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
