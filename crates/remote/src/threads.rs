//! Moves natively: each on its own thread, so that others go on meanwhile.

use conclave_ensemble::Candidate;
use futures_channel::oneshot;

use crate::error::RemoteError;
use crate::member::{Drafted, Remote, Verified};

impl Remote {
    /// Drafts a segment of at most `limit` tokens.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub async fn draft(&mut self, limit: usize) -> Result<Drafted, RemoteError> {
        self.on_thread(move |member| {
            let client = member.client.clone();
            pollster::block_on(member.draft_by(&client, limit))
        })
        .await
    }

    /// Scores every candidate, `[candidates]`; with `score_end`, also whether a candidate that ends
    /// the answer should. Returns an empty row if there are more candidates than letters.
    ///
    /// # Errors
    /// [`RemoteError`]; [`RemoteError::Silent`] if a judge names no letter.
    pub async fn verify(
        &mut self,
        candidates: &[Candidate],
        score_end: bool,
    ) -> Result<Vec<Verified>, RemoteError> {
        let candidates = candidates.to_vec();
        self.on_thread(move |member| {
            let client = member.client.clone();
            pollster::block_on(member.verify_by(&client, &candidates, score_end))
        })
        .await
    }

    /// Runs `work` with a copy of the member on its own thread, then takes the copy's state. If the
    /// future is dropped, the thread ends by its deadline and its result is discarded.
    async fn on_thread<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, RemoteError> + Send + 'static,
    ) -> Result<T, RemoteError> {
        let (sender, receiver) = oneshot::channel();
        let mut member = self.clone();
        std::thread::spawn(move || {
            let outcome = work(&mut member);
            sender.send(Box::new((member, outcome)))
        });
        let Ok(moved) = receiver.await else {
            return Err(self.server().nonsense("it could not be read"));
        };
        let (member, outcome) = *moved;
        *self = member;
        outcome
    }
}
