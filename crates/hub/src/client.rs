//! HTTP requests: ranges, redirects, the hub's token, and how responses are interpreted.

use std::io::Read;
use std::ops::Range;
use std::time::Duration;

use ureq::http::HeaderMap;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body, Proxy};

use crate::address::{Parts, redirected, shown};
use crate::error::HubError;
use crate::retry::{RequestError, retry_after};

/// Maximum number of redirects followed.
const MAX_REDIRECTS: usize = 6;

/// Timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// HTTP client for a hub and the file hosts that it redirects to.
pub(crate) struct Client {
    agent: Agent,
    /// For a hub on this machine: through a proxy the token would leave it.
    without_proxy: Agent,
    endpoint: String,
    token: Option<String>,
}

/// Response after redirects.
pub(crate) struct Answer {
    /// Final status: 200, 206 or 416.
    pub(crate) status: u16,
    /// Headers of the first response, the hub's own.
    pub(crate) first: HeaderMap,
    /// Headers of the final response.
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
}

impl Client {
    /// Creates a client for the hub at `endpoint`; reads and writes time out after `stall`. Other
    /// hosts than this machine are reached by the proxy, if there is one.
    pub(crate) fn new(
        endpoint: &str,
        token: Option<&str>,
        stall: Duration,
        connections: usize,
        proxy: Option<Proxy>,
    ) -> Self {
        // The platform's roots: a proxy that intercepts TLS is trusted by no others.
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::PlatformVerifier)
            .build();
        let config = |proxy| {
            Agent::config_builder()
                .tls_config(tls.clone())
                .proxy(proxy)
                .http_status_as_error(false)
                // Followed in `get`, so that the token stays with the hub and the hub's headers are
                // seen.
                .max_redirects(0)
                .max_redirects_will_error(false)
                .timeout_connect(Some(CONNECT_TIMEOUT))
                .timeout_recv_response(Some(stall))
                .timeout_per_read(Some(stall))
                .timeout_per_write(Some(stall))
                .max_idle_connections_per_host(connections)
                .user_agent(concat!("conclave/", env!("CARGO_PKG_VERSION")))
                .build()
        };
        Self {
            agent: config(proxy).into(),
            without_proxy: config(None).into(),
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            token: token.map(str::to_owned),
        }
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Requests a URL or a range of it; `tag` makes the range conditional (`If-Range`).
    ///
    /// # Errors
    /// Every status other than 200, 206 and 416, and every connection error.
    pub(crate) fn get(
        &self,
        address: &str,
        range: Option<&Range<u64>>,
        tag: Option<&str>,
    ) -> Result<Answer, RequestError> {
        let mut at = address.to_owned();
        let mut first = None;
        for _ in 0..=MAX_REDIRECTS {
            let here = Parts::parse(&at).is_some_and(|parts| parts.is_this_machine());
            let agent = if here {
                &self.without_proxy
            } else {
                &self.agent
            };
            let mut request = agent.get(&at).header("accept-encoding", "identity");
            if let Some(range) = range {
                request =
                    request.header("range", format!("bytes={}-{}", range.start, range.end - 1));
                if let Some(tag) = tag {
                    request = request.header("if-range", tag);
                }
            }
            let ours = self.is_hub(&at);
            if let Some(token) = self.token.as_ref().filter(|_| ours) {
                request = request.header("authorization", format!("Bearer {token}"));
            }
            let (head, body) = request
                .call()
                .map_err(|error| passing(error, &at))?
                .into_parts();
            let status = head.status.as_u16();
            if matches!(status, 301 | 302 | 303 | 307 | 308) {
                let location =
                    text(&head.headers, "location").and_then(|location| redirected(&at, location));
                at = location.ok_or_else(|| {
                    nonsense(&at, "it redirects to an address that can't be followed")
                })?;
                first.get_or_insert(head.headers);
                continue;
            }
            let answer = Answer {
                status,
                first: first.unwrap_or_else(|| head.headers.clone()),
                headers: head.headers,
                body,
            };
            return match status {
                200 | 206 | 416 => Ok(answer),
                // The store's signed URLs expire; the next attempt gets a new one.
                403 if at != address && !ours => Err(RequestError::Passing(
                    "the file store refuses the hub's address (HTTP 403)".to_owned(),
                )),
                _ => Err(self.refused(&answer, &at)),
            };
        }
        Err(nonsense(address, "it redirects in a circle"))
    }

    /// Returns whether a URL has the hub's origin, and is https or on this machine, so that the
    /// token may be sent to it.
    fn is_hub(&self, address: &str) -> bool {
        let (hub, there) = (Parts::parse(&self.endpoint), Parts::parse(address));
        hub.zip(there)
            .is_some_and(|(hub, there)| hub.same_origin(&there) && there.is_private())
    }

    /// Reason why the token was not sent to a URL, and what to do; `None` if it was, or if there is
    /// no token.
    fn withheld(&self, at: &str) -> Option<String> {
        self.token.as_ref().filter(|_| !self.is_hub(at))?;
        let there = Parts::parse(at)?;
        let why = if there.is_private() {
            "which is not the hub of HF_ENDPOINT: if it is a hub, name it there by https"
        } else {
            "since plain http would show it to others on the way: if it is the hub, name it by \
            https in HF_ENDPOINT"
        };
        Some(format!(
            "HF_TOKEN was not sent to {}, {why}",
            there.authority
        ))
    }

    fn refused(&self, answer: &Answer, at: &str) -> RequestError {
        let what = shown(at);
        let status = answer.status;
        let code = text(&answer.headers, "x-error-code").unwrap_or_default();
        match status {
            408 | 425 | 429 | 500 | 502..=504 => {
                let header = |name| text(&answer.headers, name);
                let wait =
                    header("retry-after").and_then(|after| retry_after(after, header("date")));
                RequestError::Busy { status, wait }
            }
            401 | 403 => {
                let usual = match (code, status, self.token.is_some()) {
                    ("GatedRepo", _, false) => {
                        "its owner wants you to accept terms: do so on its page, then set \
                        HF_TOKEN to a token of yours"
                    }
                    ("GatedRepo", _, true) => {
                        "the account of HF_TOKEN has not been let in: accept the terms on its \
                        page, and wait for its owner if need be"
                    }
                    (_, 401, false) => {
                        "there is no such repository, or it is private: check the name, or set \
                        HF_TOKEN to a token that may read it"
                    }
                    (_, 401, true) => {
                        "there is no such repository, or HF_TOKEN is not valid: check both"
                    }
                    (_, _, false) => "it may not be read without a token: set HF_TOKEN",
                    (_, _, true) => {
                        "HF_TOKEN may not read it: give the token the right to, or ask the owner"
                    }
                };
                let why = self.withheld(at).unwrap_or_else(|| usual.to_owned());
                HubError::Denied { what, why, status }.into()
            }
            404 | 410 => HubError::NotThere {
                what,
                hint: String::new(),
            }
            .into(),
            _ => HubError::Status { what, status }.into(),
        }
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        text(&self.headers, name)
    }

    /// Header of the hub's own response.
    pub(crate) fn hub_header(&self, name: &str) -> Option<&str> {
        text(&self.first, name)
    }

    /// Range of the body, and the size of the whole file if known: `bytes 0-9/100`, `bytes */100`.
    pub(crate) fn content_range(&self) -> (Option<Range<u64>>, Option<u64>) {
        let read = || {
            let (range, whole) = self
                .header("content-range")?
                .trim()
                .strip_prefix("bytes ")?
                .split_once('/')?;
            let ends = range.split_once('-').and_then(|(from, to)| {
                Some(from.parse().ok()?..to.parse::<u64>().ok()?.checked_add(1)?)
            });
            Some((ends, whole.parse().ok()))
        };
        read().unwrap_or((None, None))
    }

    /// Size of the whole file in bytes, if known.
    pub(crate) fn size(&self) -> Option<u64> {
        match self.status {
            200 => self.header("content-length")?.trim().parse().ok(),
            _ => self.content_range().1,
        }
    }

    /// Validator for `If-Range`: a strong entity tag, or else a date.
    pub(crate) fn tag(&self) -> Option<&str> {
        let tag = self.header("etag").map(str::trim);
        tag.filter(|tag| tag.starts_with('"') && tag.len() < 300)
            .or_else(|| self.header("last-modified"))
    }

    /// Reads a whole body.
    ///
    /// # Errors
    /// A connection error, or more than `limit` bytes.
    pub(crate) fn read_all(self, limit: u64) -> Result<Vec<u8>, RequestError> {
        let mut bytes = Vec::new();
        let mut reader = self.body.into_reader().take(limit + 1);
        reader
            .read_to_end(&mut bytes)
            .map_err(|error| RequestError::Passing(describe_io(&error)))?;
        if bytes.len() as u64 > limit {
            return Err(RequestError::Passing(format!(
                "an answer of more than {limit} bytes where a short one was due"
            )));
        }
        Ok(bytes)
    }
}

/// Describes a connection error.
pub(crate) fn describe_io(error: &std::io::Error) -> String {
    use std::io::ErrorKind::{ConnectionReset, TimedOut, UnexpectedEof, WouldBlock};
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    match error.kind() {
        TimedOut | WouldBlock => "the connection stalled".to_owned(),
        _ if matches!(inner, Some(ureq::Error::Timeout(_))) => "the connection stalled".to_owned(),
        UnexpectedEof | ConnectionReset => "the connection broke".to_owned(),
        _ => format!("the connection broke ({error})"),
    }
}

fn passing(error: ureq::Error, at: &str) -> RequestError {
    RequestError::Passing(match error {
        ureq::Error::Timeout(_) => "no answer came in time".to_owned(),
        ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            "no server answers there".to_owned()
        }
        ureq::Error::Io(error) if names_nothing(&error) => {
            "the server's name is not known: is there a network?".to_owned()
        }
        ureq::Error::Io(error) => describe_io(&error),
        ureq::Error::HostNotFound => {
            "the server's name is not known: is there a network?".to_owned()
        }
        ureq::Error::ConnectionFailed => "the connection failed: is there a network?".to_owned(),
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => {
            return nonsense(at, "it is not a valid address");
        }
        error => error.to_string(),
    })
}

/// Returns whether a host name could not be resolved. `io::ErrorKind` has no value for it: the
/// message tells it, on Windows also the codes from `WSAHOST_NOT_FOUND` to `WSANO_DATA`.
fn names_nothing(error: &std::io::Error) -> bool {
    error.to_string().contains("lookup address")
        || cfg!(windows) && matches!(error.raw_os_error(), Some(11_001..=11_004))
}

fn nonsense(at: &str, why: &str) -> RequestError {
    HubError::Nonsense {
        what: shown(at),
        why: why.to_owned(),
    }
    .into()
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, ToSocketAddrs};

    use super::*;

    #[test]
    fn a_name_without_a_server_is_known_by_its_error() {
        let error = ("no such host", 80).to_socket_addrs().unwrap_err();
        assert!(names_nothing(&error), "{error:?}");
        let error = std::fs::File::open("no such file").unwrap_err();
        assert!(!names_nothing(&error), "{error:?}");
    }

    #[test]
    fn a_token_that_was_not_sent_is_not_asked_for() {
        let said = |endpoint: &str, token, at: &str, code: &'static str| {
            let client = Client::new(endpoint, token, Duration::from_secs(10), 1, None);
            let code = ureq::http::HeaderValue::from_static(code);
            let headers = HeaderMap::from_iter([("x-error-code".parse().unwrap(), code)]);
            let answer = Answer {
                status: 401,
                first: HeaderMap::new(),
                headers,
                body: Body::builder().data(""),
            };
            match client.refused(&answer, at) {
                RequestError::Final(error) => error.to_string(),
                other => panic!("{other:?}"),
            }
        };
        let (plain, token) = ("http://hub.example:80", Some("hf_secret"));
        let file = format!("{plain}/o/r/resolve/main/f");
        for code in ["GatedRepo", "RepoNotFound", ""] {
            let error = said(plain, token, &file, code);
            assert!(
                error.contains("not sent to hub.example:80, since plain http")
                    && error.contains("by https in HF_ENDPOINT")
                    && !error.contains("set HF_TOKEN")
                    && !error.contains("hf_secret"),
                "{error}"
            );
            let error = said("https://hub.example", token, "https://else.example/f", code);
            assert!(
                error.contains("not sent to else.example, which is not the hub")
                    && error.contains("by https"),
                "{error}"
            );
            let error = said(plain, None, &file, code);
            assert!(error.contains("HF_TOKEN to a token"), "{error}");
            let error = said("https://hub.example", token, "https://hub.example/f", code);
            assert!(!error.contains("not sent"), "{error}");
        }
    }

    #[test]
    fn a_hub_on_this_machine_is_asked_without_the_proxy() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", server.local_addr().unwrap());
        let served = std::thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            let mut head = [0; 1024];
            let length = stream.read(&mut head).unwrap();
            let response = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            stream.write_all(response.as_bytes()).unwrap();
            String::from_utf8_lossy(&head[..length]).into_owned()
        });
        // Nothing listens there.
        let proxy = Proxy::new("http://127.0.0.1:1").unwrap();
        let client = Client::new(&url, None, Duration::from_secs(10), 1, Some(proxy));
        let answer = client.get(&format!("{url}/a/b/file"), None, None);
        assert!(answer.is_ok_and(|answer| answer.status == 200));
        let head = served.join().unwrap();
        assert!(head.starts_with("GET /a/b/file HTTP/1.1"), "{head}");
    }
}
