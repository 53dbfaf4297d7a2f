//! A member whose server could not be used when the ensemble was put together. It leaves each
//! answer to the others, with the reason, until its server is there.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use conclave_ensemble::{Candidate, Settings};
use conclave_member::{
    Begun, Draft, Embedding, Judged, JudgedToken, Message, Passage, Thought, VerifiedScore,
};
use conclave_model::Sampling;
use conclave_remote::{Remote, RemoteError};

use crate::form::FormOf;
use crate::taking_part::{MoveError, TakePart};

/// Pause before the first new attempt; doubles with each.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Connects to the server of a member with this name; blocks until it has answered or its time is
/// over.
pub type Connect = dyn Fn(&str) -> Result<Remote, RemoteError> + Send + Sync;

/// A member that is away.
pub struct Away {
    name: String,
    error: RemoteError,
    connect: Arc<Connect>,
    attempt: Option<Receiver<Result<Remote, RemoteError>>>,
    pause: Duration,
    /// Time of the next attempt.
    next: Instant,
}

impl std::fmt::Debug for Away {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Away")
            .field("name", &self.name)
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

impl Away {
    /// Creates the member `name`, to which `connect` has failed with this error.
    pub fn new(name: &str, error: RemoteError, connect: Arc<Connect>) -> Self {
        Self {
            name: name.to_owned(),
            error,
            connect,
            attempt: None,
            pause: FIRST_PAUSE,
            next: Instant::now() + FIRST_PAUSE,
        }
    }

    /// Returns the member once it is there. Begins the next attempt if it is time for one, on its
    /// own thread: nobody waits for it. An error that time does not heal is final.
    pub(crate) fn connected(&mut self) -> Option<Remote> {
        if let Some(attempt) = &self.attempt {
            match attempt.try_recv() {
                Ok(Ok(member)) => return Some(member),
                Ok(Err(error)) => self.error = error,
                Err(TryRecvError::Empty) => return None,
                // It has panicked.
                Err(TryRecvError::Disconnected) => {}
            }
            self.attempt = None;
            self.pause = (2 * self.pause).min(LONGEST_PAUSE);
            self.next = Instant::now() + self.pause;
        }
        if self.error.passes() && Instant::now() >= self.next {
            let (sender, receiver) = channel();
            let (connect, name) = (Arc::clone(&self.connect), self.name.clone());
            std::thread::spawn(move || {
                // The member may be gone.
                let _ = sender.send(connect(&name));
            });
            self.attempt = Some(receiver);
        }
        None
    }

    fn error(&self) -> MoveError {
        self.error.clone().into()
    }
}

impl TakePart for Away {
    fn name(&self) -> &str {
        &self.name
    }

    fn set_name(&mut self, name: &str) {
        name.clone_into(&mut self.name);
    }

    async fn measure(&self, _messages: &[Message]) -> Result<usize, MoveError> {
        Err(self.error())
    }

    fn measure_text(&self, _text: &str) -> Result<usize, MoveError> {
        Err(self.error())
    }

    fn render(&self, _messages: &[Message]) -> Result<String, MoveError> {
        Err(self.error())
    }

    async fn judge_text(
        &mut self,
        _text: &str,
        _judged: &mut Judged,
    ) -> Result<Vec<JudgedToken>, MoveError> {
        Err(self.error())
    }

    async fn embed(&mut self, _passage: &Passage) -> Result<Embedding, MoveError> {
        Err(self.error())
    }

    fn hold(&mut self, _form: Option<FormOf<'_>>) -> Result<(), MoveError> {
        Ok(())
    }

    async fn begin_while(
        &mut self,
        _messages: &[Message],
        _sampling: Sampling,
        _stream: u64,
        _go_on: impl AsyncFnMut(usize, usize) -> bool,
    ) -> Result<Begun, MoveError> {
        Err(self.error())
    }

    async fn think_while(
        &mut self,
        _go_on: impl AsyncFnMut(&str) -> bool,
    ) -> Result<Thought, MoveError> {
        Err(self.error())
    }

    fn drafts(&self) -> bool {
        false
    }

    async fn draft(
        &mut self,
        _limit: usize,
        _branch: f64,
        _novel: bool,
    ) -> Result<Draft, MoveError> {
        Err(self.error())
    }

    async fn verify(
        &mut self,
        _candidates: &[Candidate],
        _settings: &Settings,
    ) -> Result<Vec<VerifiedScore>, MoveError> {
        Err(self.error())
    }

    async fn keep(&mut self, _winner: usize) -> Result<(), MoveError> {
        Err(self.error())
    }

    fn release(&mut self) {}
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn fails(error: &RemoteError) -> (Away, Arc<AtomicUsize>) {
        let tried = Arc::new(AtomicUsize::new(0));
        let (count, again) = (Arc::clone(&tried), error.clone());
        let connect = move |_: &str| {
            count.fetch_add(1, Ordering::SeqCst);
            Err(again.clone())
        };
        let mut away = Away::new("far", error.clone(), Arc::new(connect));
        away.next = Instant::now();
        (away, tried)
    }

    /// Lets a begun attempt end, and takes its result.
    fn settle(away: &mut Away) {
        let begun = Instant::now();
        while away.attempt.is_some() {
            assert!(away.connected().is_none());
            assert!(begun.elapsed() < Duration::from_secs(10));
            std::thread::yield_now();
        }
    }

    #[test]
    fn pauses_grow_up_to_the_longest() {
        let (host, why) = ("far.example".to_owned(), "it is down".to_owned());
        let (mut away, tried) = fails(&RemoteError::Away { host, why });
        for attempt in 1..=12_u32 {
            away.next = Instant::now();
            assert!(away.connected().is_none());
            settle(&mut away);
            assert_eq!(tried.load(Ordering::SeqCst), attempt as usize);
            let wanted = FIRST_PAUSE * 2_u32.pow(attempt);
            let left = away.next - Instant::now();
            assert!(left <= wanted.min(LONGEST_PAUSE), "{left:?}");
            assert!(left > wanted.min(LONGEST_PAUSE) / 2, "{left:?}");
            // Not before that time.
            assert!(away.connected().is_none() && away.attempt.is_none());
        }
    }

    #[test]
    fn a_refusal_is_final() {
        let why = "no such model".to_owned();
        let host = "far.example".to_owned();
        let (mut away, tried) = fails(&RemoteError::Refused {
            host,
            status: 404,
            why,
        });
        assert!(away.connected().is_none() && away.attempt.is_none());
        assert_eq!(tried.load(Ordering::SeqCst), 0);
        let error = away.measure_text("Well?").unwrap_err().to_string();
        assert!(error.contains("no such model"), "{error}");
    }
}
