//! In a page with shared memory, helpers are workers started by JavaScript. They wait for passes of
//! the one thread that runs models on this memory.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Threads;
use super::team::Team;
use super::work_queue::WorkQueue;

/// The helpers on this memory.
static HELPERS: Mutex<Helpers> = Mutex::new(Helpers {
    started: 0,
    team: None,
});

/// Longest wait of a helper for a pass, after which its worker's event loop runs.
const REST: Duration = Duration::from_millis(250);

/// Signals a new pass.
static CHANGED: Condvar = Condvar::new();

/// Whether a thread has panicked. In wasm that ends it without notice to the others.
static BROKEN: AtomicBool = AtomicBool::new(false);

/// Whether some work will never be done, because its thread has ended.
pub(super) fn is_broken() -> bool {
    BROKEN.load(Relaxed)
}

struct Helpers {
    /// Number of those that have come to help at least once.
    started: usize,
    /// The thread that runs models, with those that help it.
    team: Option<Arc<Team>>,
}

fn helpers() -> MutexGuard<'static, Helpers> {
    // No panic occurs while it is locked.
    HELPERS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Threads {
    /// Must be called at every panic, on any thread. Threads that wait for the panicking one panic
    /// as well.
    pub fn panicked() {
        BROKEN.store(true, Relaxed);
    }

    /// Helps with every pass while `asked`, until there is none for a while; called again and again
    /// by the helper worker of this `number`, from 0. A product is begun with all helpers in mind:
    /// those that are not asked leave their parts to the others.
    pub fn help(number: usize, asked: impl Fn() -> bool) {
        let mut helpers = helpers();
        helpers.started = helpers.started.max(number + 1);
        let mut woken = false;
        while asked() {
            // One that was woken joins even if the pass has ended: more of them follow.
            let joins = |team: &Arc<Team>| (woken || team.runs()) && team.join();
            if let Some(team) = helpers.team.clone().filter(joins) {
                drop(helpers);
                team.help(&asked);
                helpers = self::helpers();
                woken = false;
            } else {
                let waited = CHANGED.wait_timeout(helpers, REST);
                let (locked, end) = waited.unwrap_or_else(PoisonError::into_inner);
                helpers = locked;
                if end.timed_out() {
                    break;
                }
                woken = true;
            }
        }
    }

    /// Runs `work`, shared by the helpers that come to [`help`](Self::help), also during it.
    pub fn run<R>(self, work: impl FnOnce() -> R) -> R {
        let mut helpers = helpers();
        let places = helpers.started.min(self.0 - 1);
        if places == 0 || WorkQueue::is_here() {
            drop(helpers);
            return work();
        }
        let team = Team::suited(&mut helpers.team, 1 + places);
        drop(helpers);
        let _pass = team.begin(|missing| {
            // Locked, so that a helper either waits already or finds the pass.
            let _helpers = self::helpers();
            for _ in 0..missing {
                CHANGED.notify_one();
            }
        });
        work()
    }
}
