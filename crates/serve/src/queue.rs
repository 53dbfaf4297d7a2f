//! Queue between the HTTP threads and the members' thread.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::ApiError;
use crate::turns::{Client, Full, Turns};

/// Weight of the last request in the moving mean of durations.
const NEWEST: f64 = 0.2;

/// Upper limit of `Retry-After` in seconds.
const LONGEST_WAIT: f64 = 60.0;

/// Waiting requests.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    /// Returns false for requests whose client has disconnected.
    wanted: fn(&T) -> bool,
}

#[derive(Debug)]
struct State<T> {
    turns: Turns<T>,
    closed: bool,
    /// A request is being answered.
    busy: bool,
    /// Moving mean of a request's seconds.
    seconds: f64,
}

impl<T> Queue<T> {
    /// Creates a queue of at most `most` requests.
    pub fn new(most: usize, wanted: fn(&T) -> bool) -> Self {
        Self {
            wanted,
            state: Mutex::new(State {
                turns: Turns::new(most),
                closed: false,
                busy: false,
                seconds: 1.0,
            }),
            changed: Condvar::new(),
        }
    }

    // A panic can't leave a partial change: each change is one statement of `Turns`.
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request.
    ///
    /// # Errors
    /// 429 if the queue is full, 503 during shutdown.
    pub fn push(&self, client: &Client, thing: T) -> Result<(), ApiError> {
        let mut state = self.state();
        if state.closed {
            return Err(ApiError::closing());
        }
        state.turns.retain(self.wanted);
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

    /// Waits for the next request; `None` once the queue is closed.
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

    /// Records that the current request ended, and its duration.
    pub fn over(&self, took: Duration) {
        let mut state = self.state();
        state.busy = false;
        state.seconds += NEWEST * (took.as_secs_f64() - state.seconds);
    }

    /// Returns the number of waiting requests, and whether one is being answered.
    pub fn load(&self) -> (usize, bool) {
        let mut state = self.state();
        state.turns.retain(self.wanted);
        (state.turns.waiting(), state.busy)
    }

    /// Closes the queue and drops waiting requests.
    pub fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        while state.turns.pop().is_some() {}
        self.changed.notify_all();
    }
}
