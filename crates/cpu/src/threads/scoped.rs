//! Natively, helpers are threads of one pass.

use std::sync::Arc;
use std::thread::{Builder, scope};

use super::Threads;
use super::concurrent::part_of;
use super::work_queue::WorkQueue;

/// Always false: a panic unwinds here. It ends the work, and [`Threads::run`] panics at its end.
pub(super) fn is_broken() -> bool {
    false
}

impl Threads {
    /// Runs `work`, shared by the threads; by fewer where the system refuses some, or where other
    /// tasks run [concurrently](Self::concurrently).
    pub fn run<R>(self, work: impl FnOnce() -> R) -> R {
        let count = part_of(self);
        if count == 1 || WorkQueue::is_here() {
            return work();
        }
        let queue = Arc::new(WorkQueue::new(count));
        let open = queue.open();
        scope(|scope| {
            for _ in 1..count {
                // A refused thread is not needed.
                _ = Builder::new().spawn_scoped(scope, || queue.help());
            }
            let out = work();
            drop(open);
            out
        })
    }
}
