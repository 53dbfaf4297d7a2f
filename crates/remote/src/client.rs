//! HTTP requests with a deadline, retries and a bounded response size.

use std::io::Read;
use std::time::{Duration, Instant};

use serde_json::Value;
use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};

use crate::address::Address;
use crate::error::RemoteError;
use crate::json::read_json;
use crate::key::{Key, variable};
use crate::wire::complaint;

/// Maximum response size: log-probabilities of eight candidates after a long prefix take some
/// megabytes.
const MAX_BYTES: u64 = 64 << 20;

/// Maximum number of attempts.
const ATTEMPTS: u32 = 5;

/// Wait before the first retry; doubles with each.
const FIRST_WAIT: Duration = Duration::from_millis(200);

/// Longest wait accepted from a server.
const MAX_WAIT: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(crate) struct Client {
    agent: Agent,
    address: Address,
    key: Option<Key>,
}

/// Time by which a move must be over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    at: Instant,
    whole: Duration,
}

impl Deadline {
    pub fn after(whole: Duration) -> Self {
        Self {
            at: Instant::now() + whole,
            whole,
        }
    }

    fn left(self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }
}

enum Failure {
    /// Temporary, with the server's requested wait if any.
    Passing(String, Option<Duration>),
    Final(RemoteError),
}

impl Client {
    pub fn new(address: Address, key: Option<Key>) -> Self {
        // The platform's roots: a proxy that intercepts TLS is trusted by no others.
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::PlatformVerifier)
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            // The key must go to its own host only.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("conclave/", env!("CARGO_PKG_VERSION")))
            .build();
        Self {
            agent: config.into(),
            address,
            key,
        }
    }

    pub fn host(&self) -> String {
        self.address.host().to_owned()
    }

    /// Sends a GET request.
    pub fn get(&self, url: &str, deadline: Deadline) -> Result<Value, RemoteError> {
        self.ask(url, None, deadline)
    }

    /// Posts `body` as JSON.
    pub fn post(&self, url: &str, body: &Value, deadline: Deadline) -> Result<Value, RemoteError> {
        self.ask(url, Some(body.to_string()), deadline)
    }

    fn ask(
        &self,
        url: &str,
        body: Option<String>,
        deadline: Deadline,
    ) -> Result<Value, RemoteError> {
        let mut pause = FIRST_WAIT;
        let mut tries = 1;
        loop {
            let left = deadline.left();
            if left.is_zero() {
                return Err(self.late(deadline));
            }
            let (why, asked) = match self.once(url, body.as_deref(), left, deadline) {
                Ok(value) => return Ok(value),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Passing(why, asked)) => (why, asked),
            };
            // A server may only lengthen the usual wait.
            let wait = asked.unwrap_or_default().min(MAX_WAIT).max(pause);
            if tries == ATTEMPTS || wait >= deadline.left() {
                return Err(RemoteError::Away {
                    host: self.host(),
                    why,
                });
            }
            std::thread::sleep(wait);
            pause *= 2;
            tries += 1;
        }
    }

    fn once(
        &self,
        url: &str,
        body: Option<&str>,
        left: Duration,
        deadline: Deadline,
    ) -> Result<Value, Failure> {
        let authorization = self.key.as_ref().map(Key::header);
        let answer = match body {
            Some(body) => {
                let mut request = self
                    .agent
                    .post(url)
                    .header("content-type", "application/json");
                if let Some(key) = &authorization {
                    request = request.header("authorization", key);
                }
                let request = request.config().timeout_global(Some(left)).build();
                request.send(body)
            }
            None => {
                let mut request = self.agent.get(url);
                if let Some(key) = &authorization {
                    request = request.header("authorization", key);
                }
                request.config().timeout_global(Some(left)).build().call()
            }
        };
        let answer = answer.map_err(|error| self.describe(&error, deadline))?;
        let (head, body) = answer.into_parts();
        let mut bytes = Vec::new();
        let read = body
            .into_reader()
            .take(MAX_BYTES + 1)
            .read_to_end(&mut bytes);
        if let Err(error) = read {
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
            return Err(match inner {
                Some(error) => self.describe(error, deadline),
                None if deadline.left().is_zero() => Failure::Final(self.late(deadline)),
                None => Failure::Passing("the connection broke".to_owned(), None),
            });
        }
        if bytes.len() as u64 > MAX_BYTES {
            return Err(Failure::Final(
                self.nonsense("an answer of more than 64 MiB"),
            ));
        }
        let status = head.status.as_u16();
        match status {
            200 => read_json(&bytes).map_err(|_| Failure::Final(self.nonsense("it is no JSON"))),
            300..=399 => Err(Failure::Final(RemoteError::Refused {
                host: self.host(),
                status,
                why: "it sends elsewhere, which is not followed: name the address that it sends to"
                    .to_owned(),
            })),
            401 | 403 => Err(Failure::Final(RemoteError::Denied {
                host: self.host(),
                status,
                keyed: self.key.is_some(),
                variable: variable(&self.address),
            })),
            408 | 425 | 429 | 500 | 502..=504 => {
                let after = head.headers.get("retry-after");
                let seconds = after.and_then(|after| after.to_str().ok()?.trim().parse().ok());
                Err(Failure::Passing(
                    format!("it is busy (HTTP {status})"),
                    seconds.map(Duration::from_secs),
                ))
            }
            _ => Err(Failure::Final(RemoteError::Refused {
                host: self.host(),
                status,
                why: self.without_key(complaint(&bytes)),
            })),
        }
    }

    fn describe(&self, error: &ureq::Error, deadline: Deadline) -> Failure {
        let why = match error {
            ureq::Error::Timeout(_) => return Failure::Final(self.late(deadline)),
            ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                "no server answers there"
            }
            ureq::Error::HostNotFound => "its name is not known",
            // The platform's resolver has no error kind of its own.
            ureq::Error::Io(error) if error.to_string().contains("lookup address") => {
                "its name is not known"
            }
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => {
                return Failure::Final(self.nonsense("its address can't be asked for"));
            }
            ureq::Error::Tls(_) | ureq::Error::Rustls(_) => "its certificate is not trusted",
            _ => "the connection broke",
        };
        Failure::Passing(why.to_owned(), None)
    }

    /// Removes the key, which some servers repeat in error messages.
    fn without_key(&self, text: String) -> String {
        match &self.key {
            Some(key) => text.replace(key.header().trim_start_matches("Bearer "), "…"),
            None => text,
        }
    }

    fn late(&self, deadline: Deadline) -> RemoteError {
        RemoteError::Late {
            host: self.host(),
            seconds: deadline.whole.as_secs(),
        }
    }

    pub fn nonsense(&self, why: &str) -> RemoteError {
        RemoteError::Nonsense {
            host: self.host(),
            why: why.to_owned(),
        }
    }
}
