//! Requests with a deadline, retried within it if that may help, and checked responses.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use web_time::Instant;

use crate::error::RemoteError;
use crate::json::{memory_of, read_json};
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

/// Memory for the values of a response, in bytes: 64 MiB of text would become gigabytes. For lists
/// of models and what else has a request without a text the first suffices, then there is more for
/// each byte of the request and each alternative that it asks for. Log-probabilities take about
/// 1400 bytes for a token in an echo and 2100 in vLLM's shape, where it takes some bytes of the
/// request, and 2000 for an alternative, of which the largest vocabularies have 260,000. The last
/// is what [`MAX_BYTES`](crate::MAX_BYTES) of vLLM's take: 28 candidates after 32,000 tokens.
const MEMORY: u64 = 64 << 20;
const MEMORY_PER_BYTE: u64 = 1 << 10;
const MAX_MEMORY: u64 = 2 << 30;

/// Memory for the values of a response to `body`, which may ask for alternatives to a token.
fn memory_for(body: &str, alternatives: u64) -> u64 {
    let asked = alternatives.saturating_add(body.len() as u64);
    let needed = asked.saturating_mul(MEMORY_PER_BYTE).saturating_add(MEMORY);
    needed.min(MAX_MEMORY)
}

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
        let alternatives = body.and_then(|body| body.get("logprobs")?.as_u64());
        let body = body.map(Value::to_string);
        let memory = memory_for(body.as_deref().unwrap_or(""), alternatives.unwrap_or(0));
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
                Ok(response) => match self.check(&response, memory) {
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

    fn check(&self, response: &Response, memory: u64) -> Result<Value, Setback> {
        let status = response.status;
        let refused = |why| {
            Setback::Final(RemoteError::Refused {
                host: self.host(),
                status,
                why,
            })
        };
        match status {
            // Built, a value takes up to a hundred times the memory of its text.
            200..=299 if memory_of(&response.body) > memory => Err(Setback::Final(
                self.nonsense("far more values than it was asked for"),
            )),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_of_log_probabilities_has_room_and_a_list_of_zeros_has_not() {
        const TOKENS: usize = 32_000 * 16;
        // A token in a request and in its response.
        let vllm = r#"{"12345":{"logprob":-1.234567,"rank":1,"decoded_token":" word"}},"#;
        let echo = r#"" word",-1.234567,12345,{" word":-1.234567," words":-1.234567},"#;
        let beside = r#"{"id":12345,"token":" word","bytes":[32,119,111,114,100],"logprob":-9.8},"#;
        for (asked, alternatives, told, count) in [
            ("12345,", 0, vllm, TOKENS),
            (" word", 1, echo, TOKENS),
            ("", 1_000_000, beside, 260_000),
        ] {
            let room = memory_for(&asked.repeat(TOKENS), alternatives);
            let needed = memory_of(told.as_bytes()) * count as u64;
            assert!(needed < room && room <= MAX_MEMORY, "{told}: {needed}");
        }
        let zeros = memory_of(b"0,") * (crate::MAX_BYTES / 2) as u64;
        assert!(zeros > memory_for(&"12345,".repeat(TOKENS), 1_000_000));
    }
}
