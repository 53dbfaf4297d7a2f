//! In a page with shared memory, helpers are workers started by JavaScript. They wait for passes of
//! the one thread that runs models on this memory.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::Threads;
use super::work_queue::WorkQueue;

/// The helpers on this memory.
static HELPERS: Mutex<Helpers> = Mutex::new(Helpers {
    here: 0,
    wanted: 0,
    pass: None,
});

/// Signals a new pass, or that fewer helpers are wanted.
static CHANGED: Condvar = Condvar::new();

/// Whether a thread has panicked. In wasm that ends it without notice to the others.
static BROKEN: AtomicBool = AtomicBool::new(false);

/// Whether some work will never be done, because its thread has ended.
pub(super) fn is_broken() -> bool {
    BROKEN.load(Relaxed)
}

struct Helpers {
    here: usize,
    wanted: usize,
    /// The queue of the running pass.
    pass: Option<Arc<WorkQueue>>,
}

fn helpers() -> MutexGuard<'static, Helpers> {
    // No panic occurs while it is locked.
    HELPERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Withdraws a pass from helpers that have not joined it.
struct Passing;

impl Drop for Passing {
    fn drop(&mut self) {
        helpers().pass = None;
    }
}

impl Threads {
    /// Sets the number of helpers; excess ones leave after the running pass.
    pub fn want_helpers(count: usize) {
        helpers().wanted = count;
        CHANGED.notify_all();
    }

    /// Must be called at every panic, on any thread. Threads that wait for the panicking one panic
    /// as well.
    pub fn panicked() {
        BROKEN.store(true, Relaxed);
    }

    /// Helps with every pass, until there are more helpers than wanted; called by a helper worker.
    pub fn help() {
        let mut helpers = helpers();
        helpers.here += 1;
        while helpers.here <= helpers.wanted {
            let Some(queue) = helpers.pass.clone() else {
                helpers = CHANGED
                    .wait(helpers)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(helpers);
            queue.help();
            helpers = self::helpers();
        }
        helpers.here -= 1;
    }

    /// Runs `work`, shared by the helpers that have come to [`help`].
    pub fn run<R>(self, work: impl FnOnce() -> R) -> R {
        let mut helpers = helpers();
        let threads = self.0.min(1 + helpers.here);
        if threads == 1 || WorkQueue::is_here() {
            drop(helpers);
            return work();
        }
        let queue = Arc::new(WorkQueue::new(threads));
        helpers.pass = Some(Arc::clone(&queue));
        drop(helpers);
        CHANGED.notify_all();
        // Dropped in the opposite order: no helper joins a pass that has ended.
        let _open = queue.open();
        let _passing = Passing;
        work()
    }
}
