//! In a page whose memory is shared, those that help are workers that JavaScript starts. They wait
//! for passes of the one thread that runs models on this memory.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::Threads;
use super::desk::Desk;

/// Those that help on this memory.
static HELPERS: Mutex<Helpers> = Mutex::new(Helpers {
    here: 0,
    wanted: 0,
    pass: None,
});

/// There is a pass, or fewer are wanted.
static CHANGED: Condvar = Condvar::new();

/// One of the threads has panicked, which here ends it without a word to the others.
static BROKEN: AtomicBool = AtomicBool::new(false);

/// Whether work may never be done: somebody who took a part of it is gone.
pub(super) fn is_broken() -> bool {
    BROKEN.load(Relaxed)
}

struct Helpers {
    here: usize,
    wanted: usize,
    /// Where the pass that runs offers its work.
    pass: Option<Arc<Desk>>,
}

fn helpers() -> MutexGuard<'static, Helpers> {
    // Nothing panics while it holds them.
    HELPERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes a pass away from those that have not come to it.
struct Passing;

impl Drop for Passing {
    fn drop(&mut self) {
        helpers().pass = None;
    }
}

impl Threads {
    /// How many shall help from now on; what is too many leaves behind the pass that runs.
    pub fn want_helpers(count: usize) {
        helpers().wanted = count;
        CHANGED.notify_all();
    }

    /// To be told of every panic, on whichever thread: who waits for that thread panics as well.
    pub fn panicked() {
        BROKEN.store(true, Relaxed);
    }

    /// Helps with every pass, until more do than are wanted: what a worker that was started for it
    /// calls.
    pub fn help() {
        let mut helpers = helpers();
        helpers.here += 1;
        while helpers.here <= helpers.wanted {
            let Some(desk) = helpers.pass.clone() else {
                helpers = CHANGED
                    .wait(helpers)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(helpers);
            desk.help();
            helpers = self::helpers();
        }
        helpers.here -= 1;
    }

    /// Does some work, which is shared by as many of them as have come to [`help`].
    pub fn run<R>(self, work: impl FnOnce() -> R) -> R {
        let mut helpers = helpers();
        let threads = self.0.min(1 + helpers.here);
        if threads == 1 || Desk::is_here() {
            drop(helpers);
            return work();
        }
        let desk = Arc::new(Desk::new(threads));
        helpers.pass = Some(Arc::clone(&desk));
        drop(helpers);
        CHANGED.notify_all();
        // Dropped in the opposite order: nobody comes to a pass that has ended.
        let _open = desk.open();
        let _passing = Passing;
        work()
    }
}
