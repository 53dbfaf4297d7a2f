//! A thread that runs passes, with its helpers. They stay a little longer than a pass: a draft is
//! many short passes, and it takes some tenths of a millisecond to start or wake threads.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::work_queue::WorkQueue;

/// Number of times that a helper finds nothing to do before it leaves a team at rest: about a
/// millisecond of spinning. In wasm a turn takes a tenth of the time, since nothing there pauses a
/// processor.
const PATIENCE: usize = if cfg!(target_family = "wasm") {
    1000
} else {
    100
};

/// A thread that runs passes, with its helpers.
pub(super) struct Team {
    queue: Arc<WorkQueue>,
    state: Mutex<State>,
}

struct State {
    /// Number of helpers.
    here: usize,
    /// Whether no pass runs.
    rests: bool,
    /// Whether there will be no other pass.
    over: bool,
}

/// A pass of the calling thread; it ends when dropped.
pub(super) struct Pass<'a>(&'a Team);

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        WorkQueue::close();
        self.0.state().rests = true;
    }
}

impl Team {
    /// A team of `threads` threads, which has no helpers yet.
    pub fn new(threads: usize) -> Self {
        Self {
            queue: Arc::new(WorkQueue::new(threads)),
            state: Mutex::new(State {
                here: 0,
                rests: true,
                over: false,
            }),
        }
    }

    /// Makes the team in `place` one for passes of `threads` threads, and returns it.
    pub fn suited(place: &mut Option<Arc<Self>>, threads: usize) -> Arc<Self> {
        if let Some(team) = place {
            if team.queue.threads() == threads && !team.queue.is_broken() {
                return Arc::clone(team);
            }
            team.end();
        }
        Arc::clone(place.insert(Arc::new(Self::new(threads))))
    }

    /// The state; no panic occurs while it is locked.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a pass on the calling thread, and calls helpers if any are missing; `None` during
    /// another pass of the team.
    pub fn begin(&self, call: impl FnOnce(usize)) -> Option<Pass<'_>> {
        let (pass, missing) = {
            let mut state = self.state();
            if !std::mem::replace(&mut state.rests, false) {
                return None;
            }
            (Pass(self), self.queue.threads() - 1 - state.here)
        };
        if missing > 0 {
            call(missing);
        }
        self.queue.open();
        Some(pass)
    }

    /// Sends the helpers away as soon as no pass runs.
    pub fn end(&self) {
        self.state().over = true;
    }

    /// Number of helpers.
    #[cfg(not(target_family = "wasm"))]
    pub fn helpers(&self) -> usize {
        self.state().here
    }

    /// Whether a pass runs.
    #[cfg(target_family = "wasm")]
    pub fn runs(&self) -> bool {
        !self.state().rests
    }

    /// Takes the place of a missing helper, who must then [`help`](Self::help); false if there is
    /// none.
    pub fn join(&self) -> bool {
        let mut state = self.state();
        let joins = state.here < self.queue.threads() - 1;
        state.here += usize::from(joins);
        joins
    }

    /// Helps while `asked`, until the team has ended, or rested for a while.
    pub fn help(&self, asked: impl Fn() -> bool) {
        let mut patience = PATIENCE;
        self.queue.help(|idle| {
            let asked = asked();
            if asked && !idle {
                return false;
            }
            let mut state = self.state();
            patience = if state.rests { patience - 1 } else { PATIENCE };
            let leaves = !asked || state.rests && (patience == 0 || state.over);
            state.here -= usize::from(leaves);
            leaves
        });
    }
}

#[cfg(all(test, not(target_family = "wasm")))]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::sync::mpsc::channel;
    use std::thread::{current, scope};
    use std::time::Duration;

    use super::super::each;
    use super::*;

    #[test]
    fn a_helper_that_comes_after_the_last_pass_leaves() {
        let team = Arc::new(Team::new(2));
        let pass = team.begin(|missing| assert_eq!(missing, 1));
        each(0..2, |_| ());
        drop(pass);
        let (left, leaves) = channel();
        let helper = Arc::clone(&team);
        std::thread::spawn(move || {
            assert!(helper.join());
            helper.help(|| true);
            left.send(()).unwrap();
        });
        leaves.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(team.helpers(), 0);
    }

    #[test]
    fn a_helper_that_is_not_asked_any_more_leaves_during_the_pass() {
        let team = Arc::new(Team::new(2));
        let _pass = team.begin(|_| ());
        let (asked, caller) = (AtomicBool::new(true), current().id());
        let begun = Barrier::new(2);
        scope(|scope| {
            assert!(team.join());
            let helper = scope.spawn(|| team.help(|| asked.load(SeqCst)));
            // It takes the part that the caller does not.
            each(0..2, |_| _ = begun.wait());
            asked.store(false, SeqCst);
            helper.join().unwrap();
        });
        assert_eq!(team.helpers(), 0);
        each(0..2, |_| assert_eq!(current().id(), caller));
        assert!(team.join(), "its place is free again");
    }

    #[test]
    fn a_team_runs_one_pass_at_a_time() {
        let team = Team::new(2);
        let pass = team.begin(|_| ());
        assert!(pass.is_some());
        assert!(team.begin(|_| ()).is_none());
        drop(pass);
        assert!(team.begin(|_| ()).is_some());
    }
}
