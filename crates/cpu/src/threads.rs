//! Threads that share work: natively as many as there are to be, in a page whose memory is shared
//! those that come to help, elsewhere the one there is.
//!
//! What runs within [`Threads::run`] is shared by them, product by product, and comes to the same
//! numbers as on one thread: only whole rows are divided. A product takes some ten microseconds,
//! less than it takes to wake a thread, so that those that help stay awake until [`Threads::run`]
//! ends.

#[cfg(any(not(target_family = "wasm"), target_feature = "atomics"))]
mod desk;
#[cfg(all(target_family = "wasm", target_feature = "atomics"))]
mod parked;
#[cfg(not(target_family = "wasm"))]
mod scoped;

#[cfg(any(not(target_family = "wasm"), target_feature = "atomics"))]
pub(crate) use self::desk::{each, sharing};
#[cfg(all(target_family = "wasm", not(target_feature = "atomics")))]
pub(crate) use self::one::{each, sharing};
#[cfg(all(target_family = "wasm", target_feature = "atomics"))]
use self::parked::is_broken;
#[cfg(not(target_family = "wasm"))]
use self::scoped::is_broken;

/// How many threads share what [`Threads::run`] is given, at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threads(usize);

impl Threads {
    /// The one that calls.
    pub const ONE: Self = Self(1);

    /// With all that come to help.
    #[cfg(target_family = "wasm")]
    pub const ALL: Self = Self(usize::MAX);

    /// So many with the one that calls; none count as one. In wasm whose memory is not shared it is
    /// that one always.
    pub const fn new(count: usize) -> Self {
        if count == 0 {
            return Self::ONE;
        }
        Self(count)
    }

    /// How many there are at most.
    pub const fn count(self) -> usize {
        self.0
    }
}

#[cfg(all(target_family = "wasm", not(target_feature = "atomics")))]
mod one {
    use super::Threads;

    impl Threads {
        /// Nobody can: the memory is not shared.
        pub fn want_helpers(_count: usize) {}

        /// Nobody can: the memory is not shared.
        pub fn help() {}

        /// Nobody waits for another thread.
        pub fn panicked() {}

        /// Does some work.
        pub fn run<R>(self, work: impl FnOnce() -> R) -> R {
            work()
        }
    }

    pub(crate) fn sharing(_multiplications: usize) -> usize {
        1
    }

    pub(crate) fn each<T>(parts: impl Iterator<Item = T>, work: impl Fn(T)) {
        parts.for_each(work);
    }
}
