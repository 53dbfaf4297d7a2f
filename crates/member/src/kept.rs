//! The prefixes of conversations that are not the present one, in the host's memory: who turns from
//! one to another reads only what is new.

use conclave_model::Saved;
use conclave_text::Shown;

/// Tokens: fewer are read sooner than they are looked after.
pub const WORTH: usize = 64;

/// Conversations that are kept, at most.
const MOST: usize = 8;

/// Bytes that they take, at most, where nobody says.
const MOST_BYTES: usize = 64 << 20;

/// One that a member can go on from.
pub struct Kept {
    pub saved: Saved,
    /// Its text, and the ids of that, as the member had them: see its own.
    pub shown: Option<Shown>,
    pub ids: Vec<u32>,
}

/// Some of them, the one that was asked longest ago first.
#[derive(Default)]
pub struct KeptPrefixes {
    all: Vec<Kept>,
    /// Bytes, where somebody has said.
    room: Option<usize>,
}

impl KeptPrefixes {
    /// Those there are.
    pub fn all(&self) -> impl Iterator<Item = &Kept> {
        self.all.iter()
    }

    /// Bytes that all may take beside a KV cache of `cache` bytes.
    pub fn room(&self, cache: usize) -> usize {
        self.room.unwrap_or(cache.min(MOST_BYTES))
    }

    /// Sets how many bytes all may take.
    pub fn set_room(&mut self, bytes: usize) {
        self.room = Some(bytes);
        self.shrink(bytes);
    }

    /// Adds one; what it can stand for as well goes, and what is more than there is room for.
    pub fn put(&mut self, kept: Kept, room: usize) {
        let stands_for =
            |old: &Kept| kept.saved.keeps(old.saved.tokens()) == old.saved.tokens().len();
        self.all.retain(|old| !stands_for(old));
        self.all.push(kept);
        self.shrink(room);
    }

    /// Takes one out.
    pub fn take(&mut self, index: usize) -> Option<Kept> {
        (index < self.all.len()).then(|| self.all.remove(index))
    }

    fn shrink(&mut self, room: usize) {
        let bytes = |kept: &Kept| kept.saved.bytes();
        while self.all.len() > MOST || self.all.iter().map(bytes).sum::<usize>() > room {
            self.all.remove(0);
        }
    }
}
