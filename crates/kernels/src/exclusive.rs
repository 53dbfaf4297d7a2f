//! Work that one task does at a time, however often it waits: the others wait for it, and no thread
//! stands still.

use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// Lets one task in at a time.
#[derive(Debug, Default)]
pub(crate) struct Exclusive(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    taken: bool,
    /// Of those that wait.
    wakers: Vec<Waker>,
}

/// The task that has this is the only one; its end, or its being dropped, lets the next one in.
#[derive(Debug)]
pub(crate) struct Inside<'a>(&'a Exclusive);

impl Exclusive {
    /// Waits until nobody is inside.
    pub async fn enter(&self) -> Inside<'_> {
        poll_fn(|context| {
            let mut state = self.lock();
            if !state.taken {
                state.taken = true;
                return Poll::Ready(Inside(self));
            }
            let waker = context.waker();
            if !state.wakers.iter().any(|known| known.will_wake(waker)) {
                state.wakers.push(waker.clone());
            }
            Poll::Pending
        })
        .await
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.taken = false;
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_next_waits_and_is_woken() {
        let exclusive = Arc::new(Exclusive::default());
        let inside = pollster::block_on(exclusive.enter());
        let (tell, told) = mpsc::channel();
        for waits in 0..3 {
            let (exclusive, tell) = (exclusive.clone(), tell.clone());
            std::thread::spawn(move || {
                let _inside = pollster::block_on(exclusive.enter());
                tell.send(waits)
            });
        }
        assert!(told.recv_timeout(Duration::from_millis(100)).is_err());
        drop(inside);
        let woken = (0..3).map(|_| told.recv_timeout(Duration::from_secs(10)).unwrap());
        let mut woken: Vec<i32> = woken.collect();
        woken.sort_unstable();
        assert_eq!(woken, [0, 1, 2]);
    }
}
