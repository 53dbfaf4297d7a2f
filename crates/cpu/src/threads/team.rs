//! A thread that runs passes, and its helpers. They stay a little longer than a pass: a draft is
//! many short passes, and it takes some tenths of a millisecond to start or wake threads.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::work_queue::WorkQueue;

/// Number of times that a helper finds nothing to do, each after some ten microseconds of spinning,
/// before it leaves a team at rest.
const PATIENCE: usize = 100;

/// A thread's helpers.
pub(super) struct Team {
    queue: Arc<WorkQueue>,
    state: Mutex<State>,
}

struct State {
    /// Number of helpers.
    here: usize,
    /// Whether no pass runs.
    rests: bool,
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
            }),
        }
    }

    /// Whether it can run passes of this number of threads.
    pub fn suits(&self, threads: usize) -> bool {
        self.queue.threads() == threads && !self.queue.is_broken()
    }

    /// The state; no panic occurs while it is locked.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a pass on the calling thread; `call` gets the number of helpers that are missing, and
    /// calls so many.
    pub fn begin(&self, call: impl FnOnce(usize)) -> Pass<'_> {
        let missing = {
            let mut state = self.state();
            state.rests = false;
            self.queue.threads() - 1 - state.here
        };
        if missing > 0 {
            call(missing);
        }
        self.queue.open();
        Pass(self)
    }

    /// Number of helpers.
    #[cfg(not(target_family = "wasm"))]
    pub fn helpers(&self) -> usize {
        self.state().here
    }

    /// Takes the place of a missing helper, who must then [`help`](Self::help); false if there is
    /// none.
    pub fn join(&self) -> bool {
        let mut state = self.state();
        let joins = state.here < self.queue.threads() - 1;
        state.here += usize::from(joins);
        joins
    }

    /// Helps until the team has rested for a while.
    pub fn help(&self) {
        let mut patience = PATIENCE;
        self.queue.help(|| {
            let mut state = self.state();
            patience = if state.rests { patience - 1 } else { PATIENCE };
            let leaves = patience == 0;
            state.here -= usize::from(leaves);
            leaves
        });
    }
}

#[cfg(all(test, not(target_family = "wasm")))]
mod tests {
    use std::sync::mpsc::channel;
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
            helper.help();
            left.send(()).unwrap();
        });
        leaves.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(team.helpers(), 0);
    }
}
