//! A hash index with four bytes per slot: it stores only numbers, whose meaning the caller knows.
//! Vocabularies have up to 262,144 tokens and 514,906 merges, and a page that loads a model has
//! little memory to spare.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};

const EMPTY: u32 = u32::MAX;

/// Open addressing with linear probing, at most three quarters full.
#[derive(Debug, Default)]
pub(crate) struct Table {
    slots: Box<[u32]>,
    used: usize,
    hasher: RandomState,
}

impl Table {
    pub(crate) fn with_room(entries: usize) -> Self {
        let slots = (entries + entries / 3 + 1).next_power_of_two();
        Self {
            slots: vec![EMPTY; slots].into_boxed_slice(),
            ..Self::default()
        }
    }

    /// The number under `key`, which the caller recognises by `is`.
    pub(crate) fn find(&self, key: impl Hash, is: impl Fn(u32) -> bool) -> Option<u32> {
        let (slot, found) = self.slot(key, is)?;
        found.then(|| self.slots[slot])
    }

    /// Inserts `number` under `key`, replacing the one that `is` matches; returns the old one.
    /// Entries beyond the room of [`Table::with_room`] are ignored.
    pub(crate) fn put(
        &mut self,
        key: impl Hash,
        number: u32,
        is: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let (slot, found) = self.slot(key, is)?;
        if found {
            return Some(std::mem::replace(&mut self.slots[slot], number));
        }
        // One slot stays empty, so that every search ends.
        if self.used + 1 < self.slots.len() {
            self.slots[slot] = number;
            self.used += 1;
        }
        None
    }

    /// Slot of `key`, or the free one for it.
    fn slot(&self, key: impl Hash, is: impl Fn(u32) -> bool) -> Option<(usize, bool)> {
        let mask = self.slots.len().checked_sub(1)?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the low bits are what is wanted"
        )]
        let mut slot = self.hasher.hash_one(key) as usize & mask;
        loop {
            match self.slots[slot] {
                EMPTY => return Some((slot, false)),
                number if is(number) => return Some((slot, true)),
                _ => slot = (slot + 1) & mask,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_again_and_replaced() {
        let keys: Vec<String> = (0..5000).map(|number| format!("k{number}")).collect();
        let mut table = Table::with_room(keys.len());
        for (number, key) in (0_u32..).zip(&keys) {
            let is = |found: u32| &keys[found as usize] == key;
            assert_eq!(table.put(key, number, is), None);
        }
        for (number, key) in (0_u32..).zip(&keys) {
            let is = |found: u32| &keys[found as usize] == key;
            assert_eq!(table.find(key, is), Some(number));
            assert_eq!(table.put(key, number, is), Some(number));
        }
        assert_eq!(table.find("other", |_| false), None);
        assert_eq!(Table::default().find("other", |_| true), None);
        // Searches end even in a full table.
        let mut small = Table::with_room(0);
        assert_eq!(small.put(1, 1, |_| false), None);
        assert_eq!(small.find(1, |_| true), None);
    }
}
