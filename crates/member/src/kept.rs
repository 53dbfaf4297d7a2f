//! Prefixes of earlier conversations, kept in the host's memory, so that returning to one runs only
//! the new tokens.

use conclave_model::Saved;
use conclave_text::Shown;

/// Tokens below which a prefix is rerun: a small model does that as fast as it is reused.
pub const MIN_REUSED_TOKENS: usize = 20;

/// Most conversations kept.
const MAX_COUNT: usize = 8;

/// Most bytes kept unless set otherwise.
const MAX_BYTES: usize = 64 << 20;

/// A prefix that a member can resume.
pub struct KeptPrefix {
    pub saved: Saved,
    /// Its text and that text's ids, as in [`Member`](crate::Member).
    pub shown: Option<Shown>,
    pub ids: Vec<u32>,
}

/// The kept prefixes, least recently used first.
#[derive(Default)]
pub struct KeptPrefixes {
    all: Vec<KeptPrefix>,
    /// Maximum bytes, if set.
    room: Option<usize>,
}

impl KeptPrefixes {
    /// All kept prefixes.
    pub fn all(&self) -> impl Iterator<Item = &KeptPrefix> {
        self.all.iter()
    }

    /// Maximum bytes of all prefixes beside a KV cache of `cache` bytes.
    pub fn room(&self, cache: usize) -> usize {
        self.room.unwrap_or(cache.min(MAX_BYTES))
    }

    /// Sets the maximum bytes of all prefixes.
    pub fn set_room(&mut self, bytes: usize) {
        self.room = Some(bytes);
        self.shrink(bytes);
    }

    /// Inserts a prefix; evicts those it supersedes, then the oldest beyond `room` bytes.
    pub fn put(&mut self, kept: KeptPrefix, room: usize) {
        let stands_for =
            |old: &KeptPrefix| kept.saved.keeps(old.saved.tokens()) == old.saved.tokens().len();
        self.all.retain(|old| !stands_for(old));
        self.all.push(kept);
        self.shrink(room);
    }

    /// Removes a prefix and returns it.
    pub fn take(&mut self, index: usize) -> Option<KeptPrefix> {
        (index < self.all.len()).then(|| self.all.remove(index))
    }

    fn shrink(&mut self, room: usize) {
        let bytes = |kept: &KeptPrefix| kept.saved.bytes();
        while self.all.len() > MAX_COUNT || self.all.iter().map(bytes).sum::<usize>() > room {
            self.all.remove(0);
        }
    }
}
