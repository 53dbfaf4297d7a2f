//! Requests with a deadline, retried within it if that may help, and checked responses.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use web_time::Instant;

use crate::error::RemoteError;
use crate::json::read_json;
use crate::key::{Key, variable};
use crate::server::Server;
use crate::transport::{Failure, Request, Response, Transport};
use crate::wire::{complaint, is_too_long};

/// Maximum number of attempts.
const ATTEMPTS: u32 = 6;

/// Wait before the first retry; doubles with each.
const FIRST_WAIT: Duration = Duration::from_millis(200);

/// Longest wait accepted from a server.
const MAX_WAIT: Duration = Duration::from_secs(120);

/// Transport of a move, and the time by which the move must be over.
#[derive(Debug)]
pub(crate) struct Asking<'a, T> {
    transport: &'a T,
    until: Instant,
    whole: Duration,
}

impl<T> Clone for Asking<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Asking<'_, T> {}

impl<'a, T: Transport> Asking<'a, T> {
    pub fn within(transport: &'a T, whole: Duration) -> Self {
        Self {
            transport,
            until: Instant::now() + whole,
            whole,
        }
    }

    fn left(self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

/// Outcome of an attempt without a usable response.
enum Setback {
    /// Temporary, with the server's requested wait if any.
    Passing(String, Option<Duration>),
    Final(RemoteError),
}

impl Server {
    /// Sends a GET request to a path of the OpenAI interface.
    pub(crate) async fn get<D: DeserializeOwned>(
        &self,
        path: &str,
        asking: Asking<'_, impl Transport>,
    ) -> Result<D, RemoteError> {
        self.read(self.address().base(), path, None, asking).await
    }

    /// Posts JSON to a path of the OpenAI interface.
    pub(crate) async fn post<D: DeserializeOwned>(
        &self,
        path: &str,
        body: &Value,
        asking: Asking<'_, impl Transport>,
    ) -> Result<D, RemoteError> {
        let base = self.address().base();
        self.read(base, path, Some(body), asking).await
    }

    /// Posts to a path outside of the OpenAI interface.
    pub(crate) async fn post_beside<D: DeserializeOwned>(
        &self,
        path: &str,
        body: &Value,
        asking: Asking<'_, impl Transport>,
    ) -> Result<D, RemoteError> {
        let root = self.address().root();
        self.read(root, path, Some(body), asking).await
    }

    async fn read<D: DeserializeOwned>(
        &self,
        below: &str,
        path: &str,
        body: Option<&Value>,
        asking: Asking<'_, impl Transport>,
    ) -> Result<D, RemoteError> {
        let answer = self.ask(&format!("{below}/{path}"), body, asking).await?;
        let read = serde_json::from_value(answer);
        read.map_err(|_| self.nonsense("it has an unexpected shape"))
    }

    async fn ask<T: Transport>(
        &self,
        url: &str,
        body: Option<&Value>,
        asking: Asking<'_, T>,
    ) -> Result<Value, RemoteError> {
        let body = body.map(Value::to_string);
        let mut pause = FIRST_WAIT;
        let mut tries = 1;
        loop {
            let time = asking.left();
            if time.is_zero() {
                return Err(self.late(asking.whole));
            }
            let request = Request {
                url,
                body: body.as_deref(),
                key: self.key(),
                time,
            };
            let setback = match asking.transport.send(request).await {
                Ok(response) => match self.check(&response) {
                    Ok(value) => return Ok(value),
                    Err(setback) => setback,
                },
                Err(Failure::Passing(why)) => Setback::Passing(why, None),
                Err(failure) => Setback::Final(self.failed(failure, asking.whole)),
            };
            let (why, wished) = match setback {
                Setback::Final(error) => return Err(error),
                Setback::Passing(why, wished) => (why, wished),
            };
            // A server may only lengthen the usual wait.
            let wait = wished.unwrap_or_default().min(MAX_WAIT).max(pause);
            if tries == ATTEMPTS || wait >= asking.left() {
                return Err(RemoteError::Away {
                    host: self.host(),
                    why,
                });
            }
            let paused = asking.transport.pause(wait).await;
            paused.map_err(|failure| self.failed(failure, asking.whole))?;
            pause *= 2;
            tries += 1;
        }
    }

    fn failed(&self, failure: Failure, whole: Duration) -> RemoteError {
        match failure {
            Failure::Late => self.late(whole),
            Failure::Stopped => RemoteError::Stopped,
            Failure::TooLarge => self.nonsense("an answer of more than 64 MiB"),
            Failure::Address => self.nonsense("its address can't be asked for"),
            Failure::Passing(why) => RemoteError::Away {
                host: self.host(),
                why,
            },
        }
    }

    fn check(&self, response: &Response) -> Result<Value, Setback> {
        let status = response.status;
        let refused = |why| {
            Setback::Final(RemoteError::Refused {
                host: self.host(),
                status,
                why,
            })
        };
        match status {
            200..=299 => {
                let read = read_json(&response.body);
                let answer: Value =
                    read.map_err(|_| Setback::Final(self.nonsense("it is no JSON")))?;
                // Some proxies answer so for a server that failed.
                match answer.get("error").is_some_and(|error| !error.is_null()) {
                    true => Err(refused(self.complaint(response))),
                    false => Ok(answer),
                }
            }
            300..=399 => Err(refused(
                "it sends elsewhere, which is not followed: name the address that it sends to"
                    .to_owned(),
            )),
            401 | 403 => Err(Setback::Final(RemoteError::Denied {
                host: self.host(),
                status,
                keyed: self.key().is_some(),
                variable: variable(self.address()),
            })),
            408 | 425 | 429 | 500.. => Err(Setback::Passing(
                format!("it is busy (HTTP {status})"),
                response.retry_after,
            )),
            _ => {
                let why = self.complaint(response);
                match status == 400 && is_too_long(&why) {
                    true => Err(Setback::Final(RemoteError::TooLong { host: self.host() })),
                    false => Err(refused(why)),
                }
            }
        }
    }

    fn complaint(&self, response: &Response) -> String {
        complaint(&response.body, self.key().map(Key::secret))
    }

    fn late(&self, whole: Duration) -> RemoteError {
        RemoteError::Late {
            host: self.host(),
            seconds: whole.as_secs(),
        }
    }

    pub(crate) fn nonsense(&self, why: &str) -> RemoteError {
        RemoteError::Nonsense {
            host: self.host(),
            why: why.to_owned(),
        }
    }
}
