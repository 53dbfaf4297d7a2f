//! Requests: each is over by a given time, is tried again where that may help, and reads an answer
//! of bounded size.

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

/// Bytes of an answer, at most: log-probabilities of eight candidates behind a long prefix are some
/// megabytes.
const LONGEST: u64 = 64 << 20;

/// How often something is tried at most.
const ATTEMPTS: u32 = 5;

/// The first wait between two tries; it doubles.
const PAUSE: Duration = Duration::from_millis(200);

/// The longest wait that a server may ask for.
const PATIENCE: Duration = Duration::from_secs(120);

/// What speaks to one server.
#[derive(Debug)]
pub(crate) struct Client {
    agent: Agent,
    address: Address,
    key: Option<Key>,
}

/// A time by which all must be over.
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

/// Why a try failed.
enum Failed {
    /// It may go well the next time, after so long where that is told.
    Passing(String, Option<Duration>),
    Final(RemoteError),
}

impl Client {
    pub fn new(address: Address, key: Option<Key>) -> Self {
        // The platform's own roots: behind a proxy that opens TLS only they will do.
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::PlatformVerifier)
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            // A key goes to the host that it is for and to no other.
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

    /// Asks for what is there.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn get(&self, url: &str, deadline: Deadline) -> Result<Value, RemoteError> {
        self.ask(url, None, deadline)
    }

    /// Sends `body` and reads the answer.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn post(&self, url: &str, body: &Value, deadline: Deadline) -> Result<Value, RemoteError> {
        self.ask(url, Some(body.to_string()), deadline)
    }

    fn ask(
        &self,
        url: &str,
        body: Option<String>,
        deadline: Deadline,
    ) -> Result<Value, RemoteError> {
        let mut pause = PAUSE;
        let mut tries = 1;
        loop {
            let left = deadline.left();
            if left.is_zero() {
                return Err(self.late(deadline));
            }
            let (why, asked) = match self.once(url, body.as_deref(), left, deadline) {
                Ok(value) => return Ok(value),
                Err(Failed::Final(error)) => return Err(error),
                Err(Failed::Passing(why, asked)) => (why, asked),
            };
            // Never sooner than usual, whatever is asked.
            let wait = asked.unwrap_or_default().min(PATIENCE).max(pause);
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
    ) -> Result<Value, Failed> {
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
        let answer = answer.map_err(|error| self.of_line(&error, deadline))?;
        let (head, body) = answer.into_parts();
        let mut bytes = Vec::new();
        let read = body.into_reader().take(LONGEST + 1).read_to_end(&mut bytes);
        if let Err(error) = read {
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
            return Err(match inner {
                Some(error) => self.of_line(error, deadline),
                None if deadline.left().is_zero() => Failed::Final(self.late(deadline)),
                None => Failed::Passing("the line broke".to_owned(), None),
            });
        }
        if bytes.len() as u64 > LONGEST {
            return Err(Failed::Final(
                self.nonsense("an answer of more than 64 MiB"),
            ));
        }
        let status = head.status.as_u16();
        match status {
            200 => read_json(&bytes).map_err(|_| Failed::Final(self.nonsense("it is no JSON"))),
            300..=399 => Err(Failed::Final(RemoteError::Refused {
                host: self.host(),
                status,
                why: "it sends elsewhere, which is not followed: name the address that it sends to"
                    .to_owned(),
            })),
            401 | 403 => Err(Failed::Final(RemoteError::Denied {
                host: self.host(),
                status,
                keyed: self.key.is_some(),
                variable: variable(&self.address),
            })),
            408 | 425 | 429 | 500 | 502..=504 => {
                let after = head.headers.get("retry-after");
                let seconds = after.and_then(|after| after.to_str().ok()?.trim().parse().ok());
                Err(Failed::Passing(
                    format!("it is busy (HTTP {status})"),
                    seconds.map(Duration::from_secs),
                ))
            }
            _ => Err(Failed::Final(RemoteError::Refused {
                host: self.host(),
                status,
                why: self.without_key(complaint(&bytes)),
            })),
        }
    }

    fn of_line(&self, error: &ureq::Error, deadline: Deadline) -> Failed {
        let why = match error {
            ureq::Error::Timeout(_) => return Failed::Final(self.late(deadline)),
            ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                "no server answers there"
            }
            ureq::Error::HostNotFound => "its name is not known",
            // The platform's resolver gives no kind of its own.
            ureq::Error::Io(error) if error.to_string().contains("lookup address") => {
                "its name is not known"
            }
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => {
                return Failed::Final(self.nonsense("its address can't be asked for"));
            }
            ureq::Error::Tls(_) | ureq::Error::Rustls(_) => "its certificate is not trusted",
            _ => "the line broke",
        };
        Failed::Passing(why.to_owned(), None)
    }

    /// Some servers repeat the key in what they complain of.
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
