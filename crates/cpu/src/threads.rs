//! Threads that share work: natively as many as requested, in a page with shared memory the helper
//! workers, elsewhere just the calling thread.
//!
//! Work within [`Threads::run`] is shared product by product, with the same results as on one
//! thread: only whole rows are divided. A product takes some ten microseconds, less than waking a
//! thread, so helpers stay awake until a little after [`Threads::run`] has ended.

#[cfg(not(target_family = "wasm"))]
mod concurrent;
#[cfg(all(target_family = "wasm", target_feature = "atomics"))]
mod parked;
#[cfg(not(target_family = "wasm"))]
mod spawned;
#[cfg(any(not(target_family = "wasm"), target_feature = "atomics"))]
mod team;
#[cfg(any(not(target_family = "wasm"), target_feature = "atomics"))]
mod work_queue;

#[cfg(all(target_family = "wasm", not(target_feature = "atomics")))]
pub(crate) use self::one::{each, sharing};
#[cfg(all(target_family = "wasm", target_feature = "atomics"))]
use self::parked::is_broken;
#[cfg(not(target_family = "wasm"))]
use self::spawned::is_broken;
#[cfg(any(not(target_family = "wasm"), target_feature = "atomics"))]
pub(crate) use self::work_queue::{each, sharing};

/// Maximum number of threads that share [`Threads::run`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threads(usize);

impl Threads {
    /// The calling thread alone.
    pub const ONE: Self = Self(1);

    /// All helpers.
    #[cfg(target_family = "wasm")]
    pub const ALL: Self = Self(usize::MAX);

    /// `count` threads, including the calling one; 0 counts as one. Wasm without shared memory
    /// always has one.
    pub const fn new(count: usize) -> Self {
        if count == 0 {
            return Self::ONE;
        }
        Self(count)
    }

    /// The maximum.
    pub const fn count(self) -> usize {
        self.0
    }
}

#[cfg(all(target_family = "wasm", not(target_feature = "atomics")))]
mod one {
    use super::Threads;

    impl Threads {
        /// No-op: the memory is not shared.
        pub fn help(_number: usize, _asked: impl Fn() -> bool) {}

        /// No-op: no thread waits for another.
        pub fn panicked() {}

        /// Runs `work` with these threads.
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
