//! In a page with shared memory, helpers are workers started by JavaScript. They wait for passes of
//! the one thread that runs models on this memory.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::Threads;
use super::team::Team;
use super::work_queue::WorkQueue;

/// The helpers on this memory.
static HELPERS: Mutex<Helpers> = Mutex::new(Helpers {
    here: 0,
    wanted: 0,
    team: None,
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
    /// The thread that runs models, with those that help it.
    team: Option<Arc<Team>>,
}

impl Helpers {
    /// The team, if it misses a helper.
    fn join(&self) -> Option<Arc<Team>> {
        self.team.clone().filter(|team| team.join())
    }

    /// The team, for passes of `threads` threads.
    fn team_of(&mut self, threads: usize) -> Arc<Team> {
        match &self.team {
            Some(team) if team.suits(threads) => Arc::clone(team),
            // Helpers of another find it at rest, and leave.
            _ => Arc::clone(self.team.insert(Arc::new(Team::new(threads)))),
        }
    }
}

fn helpers() -> MutexGuard<'static, Helpers> {
    // No panic occurs while it is locked.
    HELPERS.lock().unwrap_or_else(PoisonError::into_inner)
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
            helpers = CHANGED
                .wait(helpers)
                .unwrap_or_else(PoisonError::into_inner);
            if let Some(team) = helpers.join() {
                drop(helpers);
                team.help();
                helpers = self::helpers();
            }
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
        let team = helpers.team_of(1 + places);
        drop(helpers);
        let _pass = team.begin(|missing| {
            for _ in 0..missing {
                CHANGED.notify_one();
            }
        });
        work()
    }
}
