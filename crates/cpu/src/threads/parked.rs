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

/// Signals a new pass.
static CHANGED: Condvar = Condvar::new();

/// Whether a thread has panicked. In wasm that ends it without notice to the others.
static BROKEN: AtomicBool = AtomicBool::new(false);

/// Whether some work will never be done, because its thread has ended.
pub(super) fn is_broken() -> bool {
    BROKEN.load(Relaxed)
}

struct Helpers {
    here: usize,
    /// Most that may join a pass.
    wanted: usize,
    /// The running pass.
    pass: Option<Pass>,
}

struct Pass {
    queue: Arc<WorkQueue>,
    /// Number of helpers that may still join.
    places: usize,
}

impl Helpers {
    /// A place in the running pass, if one is left.
    fn join(&mut self) -> Option<Arc<WorkQueue>> {
        let pass = self.pass.as_mut()?;
        pass.places = pass.places.checked_sub(1)?;
        Some(Arc::clone(&pass.queue))
    }
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
    /// Sets how many helpers may join each pass from the next one on.
    pub fn want_helpers(count: usize) {
        helpers().wanted = count;
    }

    /// Must be called at every panic, on any thread. Threads that wait for the panicking one panic
    /// as well.
    pub fn panicked() {
        BROKEN.store(true, Relaxed);
    }

    /// Helps with every pass that has room, for ever; called by a helper worker.
    pub fn help() -> ! {
        let mut helpers = helpers();
        helpers.here += 1;
        loop {
            let Some(queue) = helpers.join() else {
                helpers = CHANGED
                    .wait(helpers)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(helpers);
            queue.help();
            helpers = self::helpers();
        }
    }

    /// Runs `work`, shared by the helpers that have come to [`help`](Self::help), as many as are
    /// [wanted](Self::want_helpers).
    pub fn run<R>(self, work: impl FnOnce() -> R) -> R {
        let mut helpers = helpers();
        let places = helpers.here.min(helpers.wanted).min(self.0 - 1);
        if places == 0 || WorkQueue::is_here() {
            drop(helpers);
            return work();
        }
        let queue = Arc::new(WorkQueue::new(1 + places));
        helpers.pass = Some(Pass {
            queue: Arc::clone(&queue),
            places,
        });
        drop(helpers);
        for _ in 0..places {
            CHANGED.notify_one();
        }
        // Dropped in the opposite order: no helper joins a pass that has ended.
        let _open = queue.open();
        let _passing = Passing;
        work()
    }
}
