//! Between the threads of HTTP and that of the members: what waits, and how long it may take.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::ApiError;
use crate::turns::{Client, Full, Turns};

/// How much the last request counts in the mean of their times.
const NEWEST: f64 = 0.2;

/// Seconds that a client is asked to wait, at most.
const LONGEST_WAIT: f64 = 60.0;

/// Requests that wait for the members.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<T> {
    turns: Turns<T>,
    closed: bool,
    /// One is being answered.
    busy: bool,
    /// Seconds that a request takes, a moving mean.
    seconds: f64,
}

impl<T> Queue<T> {
    /// With room for `most` that wait.
    pub fn new(most: usize) -> Self {
        Self {
            state: Mutex::new(State {
                turns: Turns::new(most),
                closed: false,
                busy: false,
                seconds: 1.0,
            }),
            changed: Condvar::new(),
        }
    }

    // No state is half-way at a panic: each change is one statement of `Turns`.
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a request wait for its turn.
    ///
    /// # Errors
    /// 429 where there is no room, 503 when the server ends.
    pub fn push(&self, client: &Client, thing: T) -> Result<(), ApiError> {
        let mut state = self.state();
        if state.closed {
            return Err(ApiError::closing());
        }
        state.turns.push(client, thing).map_err(|full| {
            let seconds = state.seconds * (state.turns.waiting() + 1) as f64;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "within 1 to 60"
            )]
            let seconds = seconds.clamp(1.0, LONGEST_WAIT).ceil() as u64;
            let why = match full {
                Full::All => "Too many requests wait already.",
                Full::Address => "Too many requests of your address wait already.",
            };
            ApiError::busy(format!("{why} Try again in {seconds} s."), seconds)
        })?;
        self.changed.notify_one();
        Ok(())
    }

    /// The next request, as soon as there is one; `None` when the server ends.
    pub fn next(&self) -> Option<T> {
        let mut state = self.state();
        loop {
            if state.closed {
                return None;
            }
            if let Some(thing) = state.turns.pop() {
                state.busy = true;
                return Some(thing);
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The request that was taken last is over, after so long.
    pub fn over(&self, took: Duration) {
        let mut state = self.state();
        state.busy = false;
        state.seconds += NEWEST * (took.as_secs_f64() - state.seconds);
    }

    /// How many wait, and whether one is being answered.
    pub fn load(&self) -> (usize, bool) {
        let state = self.state();
        (state.turns.waiting(), state.busy)
    }

    /// Takes no more, and lets go of what waits.
    pub fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        while state.turns.pop().is_some() {}
        self.changed.notify_all();
    }
}
