//! Carrier of requests: `ureq` natively (feature `client`), the page's `fetch` in a browser. It
//! sends one request; retries, limits and checks are the protocol's.

use std::time::Duration;

use crate::key::Key;

/// Maximum size of a response, in bytes: log-probabilities of eight candidates after a long prefix
/// take some megabytes.
pub const MAX_BYTES: usize = 64 << 20;

/// One HTTP request: GET without a body, else POST of JSON.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// URL.
    pub url: &'a str,
    /// JSON text.
    pub body: Option<&'a str>,
    /// Key for the header `authorization`, see [`Key::header`]; for this host only.
    pub key: Option<&'a Key>,
    /// Time limit of the whole response.
    pub time: Duration,
}

/// Response to a [`Request`]; hostile until checked.
#[derive(Debug, Clone)]
pub struct Response {
    /// HTTP status; 300 to 399 for every redirect, which is not followed.
    pub status: u16,
    /// Wait requested by `Retry-After`.
    pub retry_after: Option<Duration>,
    /// Body, of at most [`MAX_BYTES`].
    pub body: Vec<u8>,
}

/// Reason why there is no response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The time limit passed.
    Late,
    /// The caller has stopped the move.
    Stopped,
    /// The body is larger than [`MAX_BYTES`].
    TooLarge,
    /// The address can't be requested.
    Address,
    /// The next attempt may succeed. Contains the cause.
    Passing(String),
}

/// Sends requests.
pub trait Transport {
    /// Sends one request: without following redirects, and with the key in a header only.
    ///
    /// # Errors
    /// [`Failure`].
    fn send(&self, request: Request<'_>) -> impl Future<Output = Result<Response, Failure>>;

    /// Waits.
    ///
    /// # Errors
    /// [`Failure::Stopped`].
    fn pause(&self, time: Duration) -> impl Future<Output = Result<(), Failure>>;
}
