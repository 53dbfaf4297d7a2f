//! Natively, helpers are threads, which a pass starts if any are missing.

use std::cell::RefCell;
use std::sync::Arc;
use std::thread::Builder;

use super::Threads;
use super::concurrent::Concurrent;
use super::team::Team;
use super::work_queue::WorkQueue;

thread_local! {
    /// The team of the calling thread.
    static TEAM: RefCell<Option<Arc<Team>>> = const { RefCell::new(None) };
}

/// Ends the calling thread's team, if it has one, and returns it.
pub(super) fn end_team() -> Option<Arc<Team>> {
    TEAM.take().inspect(|team| team.end())
}

/// Always false: a panic unwinds here.
pub(super) fn is_broken() -> bool {
    false
}

impl Threads {
    /// Runs `work`, shared by the threads; by fewer where the system refuses some, or while other
    /// tasks run [concurrently](Self::concurrently).
    pub fn run<R>(self, work: impl FnOnce() -> R) -> R {
        if self.0 == 1 || WorkQueue::is_here() {
            return work();
        }
        let team = TEAM.with_borrow_mut(|team| Team::suited(team, self.0));
        let _pass = team.begin(|missing| {
            if let Some(tasks) = Concurrent::of_caller() {
                return tasks.add_team(&team);
            }
            for _ in 0..missing {
                let team = Arc::clone(&team);
                // A refused thread is not needed.
                _ = Builder::new().spawn(move || team.join().then(|| team.help(|| true)));
            }
        });
        work()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::{Barrier, Mutex};
    use std::thread::{ThreadId, current};

    use super::super::each;
    use super::*;

    /// Runs `work` on the calling thread and a helper, at the same time.
    fn on_both(work: impl Fn() + Sync) {
        let both = Barrier::new(2);
        Threads::new(2).run(|| {
            each(0..2, |_| {
                both.wait();
                work();
            });
        });
    }

    #[test]
    fn a_helper_stays_for_the_next_pass() {
        let seen: Mutex<HashSet<ThreadId>> = Mutex::default();
        for _ in 0..50 {
            on_both(|| {
                seen.lock().unwrap().insert(current().id());
            });
        }
        // Another only came if the system let the first wait.
        let threads = seen.into_inner().unwrap().len();
        assert!((2..25).contains(&threads), "{threads} threads");
    }

    #[test]
    fn a_helpers_panic_is_the_callers() {
        let caller = current().id();
        let pass = || on_both(|| assert_eq!(current().id(), caller, "scripted"));
        assert!(catch_unwind(AssertUnwindSafe(pass)).is_err());
        on_both(|| ());
    }

    #[test]
    fn a_thread_whose_task_has_ended_helps_another() {
        let meet = || on_both(|| ());
        let tasks: [&(dyn Fn() + Sync); 2] = [&|| (), &meet];
        Threads::new(2).concurrently(tasks);
    }
}
