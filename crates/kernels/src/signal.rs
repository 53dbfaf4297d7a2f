//! A result that a callback of the driver brings, to be awaited.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

struct State<T> {
    result: Option<T>,
    waker: Option<Waker>,
}

/// One result, from a callback to a future.
pub(crate) struct Signal<T>(Arc<Mutex<State<T>>>);

impl<T: Send + 'static> Signal<T> {
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            result: None,
            waker: None,
        })))
    }

    /// The callback that brings it.
    pub fn sender(&self) -> impl FnOnce(T) + Send + 'static {
        let state = self.0.clone();
        move |result| {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            state.result = Some(result);
            let waker = state.waker.take();
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// Wait for it.
    pub async fn receive(self) -> T {
        poll_fn(|context| {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match state.result.take() {
                Some(result) => Poll::Ready(result),
                None => {
                    state.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}
