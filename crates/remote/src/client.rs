//! Requests by `ureq`, which block; [`crate::Remote`] makes them from a thread.

use std::io::Read;
use std::time::Duration;

use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body, Proxy};

use crate::address::is_this_machine;
use crate::key::Key;
use crate::transport::{Failure, MAX_BYTES, Request, Response, Transport};

/// HTTP client. Its futures are ready at once, after the response.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    agent: Agent,
    /// For servers on this machine: through a proxy the key and the conversation would leave it.
    without_proxy: Agent,
}

impl Client {
    /// A client that uses the proxy of the environment.
    pub fn new() -> Self {
        Self::with_proxy(Proxy::try_from_env())
    }

    fn with_proxy(proxy: Option<Proxy>) -> Self {
        // The platform's roots: a proxy that intercepts TLS is trusted by no others.
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::PlatformVerifier)
            .build();
        let agent = |proxy| -> Agent {
            Agent::config_builder()
                .tls_config(tls.clone())
                .proxy(proxy)
                .http_status_as_error(false)
                // The key must go to its own host only.
                .max_redirects(0)
                .max_redirects_will_error(false)
                .user_agent(concat!("conclave/", env!("CARGO_PKG_VERSION")))
                .build()
                .into()
        };
        Self {
            agent: agent(proxy),
            without_proxy: agent(None),
        }
    }

    fn answer(&self, request: Request<'_>) -> Result<ureq::http::Response<Body>, ureq::Error> {
        let authorization = request.key.map(Key::header);
        let agent = if is_this_machine(request.url) {
            &self.without_proxy
        } else {
            &self.agent
        };
        match request.body {
            Some(body) => {
                let mut post = agent.post(request.url);
                post = post.header("content-type", "application/json");
                if let Some(key) = &authorization {
                    post = post.header("authorization", key);
                }
                let config = post.config().timeout_global(Some(request.time));
                config.build().send(body)
            }
            None => {
                let mut get = agent.get(request.url);
                if let Some(key) = &authorization {
                    get = get.header("authorization", key);
                }
                get.config()
                    .timeout_global(Some(request.time))
                    .build()
                    .call()
            }
        }
    }
}

impl Transport for Client {
    async fn send(&self, request: Request<'_>) -> Result<Response, Failure> {
        let (head, body) = self.answer(request).map_err(describe)?.into_parts();
        let mut bytes = Vec::new();
        let most = MAX_BYTES as u64 + 1;
        let read = body.into_reader().take(most).read_to_end(&mut bytes);
        if let Err(error) = read {
            return Err(match error.downcast::<ureq::Error>() {
                Ok(error) => describe(error),
                Err(_) => broken(),
            });
        }
        if bytes.len() > MAX_BYTES {
            return Err(Failure::TooLarge);
        }
        let after = head.headers.get("retry-after");
        let seconds = after.and_then(|after| after.to_str().ok()?.trim().parse().ok());
        Ok(Response {
            status: head.status.as_u16(),
            retry_after: seconds.map(Duration::from_secs),
            body: bytes,
        })
    }

    async fn pause(&self, time: Duration) -> Result<(), Failure> {
        std::thread::sleep(time);
        Ok(())
    }
}

fn broken() -> Failure {
    Failure::Passing("the connection broke".to_owned())
}

fn describe(error: ureq::Error) -> Failure {
    let why = match error {
        ureq::Error::Timeout(_) => return Failure::Late,
        ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            "no server answers there"
        }
        ureq::Error::HostNotFound => "its name is not known",
        ureq::Error::Io(error) if names_nothing(&error) => "its name is not known",
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => return Failure::Address,
        ureq::Error::Tls(_) | ureq::Error::Rustls(_) => "its certificate is not trusted",
        _ => return broken(),
    };
    Failure::Passing(why.to_owned())
}

/// Whether a name could not be resolved. Such errors have no kind of their own: on Windows they are
/// those of its sockets from `WSAHOST_NOT_FOUND` to `WSANO_DATA`.
fn names_nothing(error: &std::io::Error) -> bool {
    error.to_string().contains("lookup address")
        || cfg!(windows) && matches!(error.raw_os_error(), Some(11_001..=11_004))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, ToSocketAddrs};

    use super::*;

    #[test]
    fn a_name_without_a_server_is_known_by_its_error() {
        let error = ("no such host", 80).to_socket_addrs().unwrap_err();
        assert!(names_nothing(&error), "{error:?}");
    }

    #[test]
    fn a_server_on_this_machine_is_asked_without_the_proxy() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1/models", server.local_addr().unwrap());
        let served = std::thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            let mut head = [0; 1024];
            let length = stream.read(&mut head).unwrap();
            let response = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
            stream.write_all(response.as_bytes()).unwrap();
            String::from_utf8_lossy(&head[..length]).into_owned()
        });
        // Nothing listens there.
        let client = Client::with_proxy(Some(Proxy::new("http://127.0.0.1:1").unwrap()));
        let request = Request {
            url: &url,
            key: None,
            body: None,
            time: Duration::from_secs(10),
        };
        assert_eq!(client.answer(request).unwrap().status(), 200);
        let head = served.join().unwrap();
        assert!(head.starts_with("GET /v1/models HTTP/1.1"), "{head}");
    }
}
