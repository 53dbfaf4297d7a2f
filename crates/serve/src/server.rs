//! The server: HTTP on threads of its own, the members on the one that runs it.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::HeaderValue;
use conclave_ensemble::Settings;
use conclave_member::Thinking;
use conclave_model::Sampling;
use conclave_rounds::TakePart;

use crate::access::Access;
use crate::connections;
use crate::queue::Queue;
use crate::routes::{Shared, router};
use crate::work::work;

/// The name that all members together are asked by.
const ENSEMBLE: &str = "conclave";

/// Threads that speak HTTP; the cores are the members'.
const HTTP_THREADS: usize = 2;

/// How long the answer that is being given may take when the server ends.
const GRACE: Duration = Duration::from_secs(10);

/// How long clients may take after that to hear the rest.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Where a server is, and whom it answers.
#[derive(Clone)]
pub struct Config {
    /// The address to listen at.
    pub host: IpAddr,
    /// The port; 0 for one that is free.
    pub port: u16,
    /// What clients have to know; needed at any address that is not this machine's own.
    pub key: Option<String>,
    /// Origins of pages that may ask, as `https://example.org`.
    pub origins: Vec<String>,
    /// How many requests may wait; half of them of one address.
    pub waiting: usize,
}

/// How the members answer, where a request says nothing else.
#[derive(Debug, Clone)]
pub struct Ensemble {
    /// The method's switches.
    pub settings: Settings,
    /// How members draw; each request by a seed of its own, counted from this one.
    pub sampling: Sampling,
    /// Whether they think before they answer.
    pub thinking: Thinking,
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Anyone could ask.
    #[error(
        "{0} can be reached from other machines, so that a key is needed: choose one with --key or CONCLAVE_KEY, or serve at 127.0.0.1"
    )]
    NoKey(IpAddr),
    /// A key that keeps nobody out, or that no header can carry.
    #[error("the key has to be of visible ASCII characters, at least 8")]
    Key,
    /// An origin that no browser would send.
    #[error(
        "`{0}` is no origin: write it as a browser sends it, https://example.org or http://localhost:5173"
    )]
    Origin(String),
    /// The address is taken, or not this machine's.
    #[error("can't listen at {address}: {source}; choose another --port or --host")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The threads of HTTP could not be started.
    #[error("the server could not be started: {0}")]
    Start(std::io::Error),
}

/// A server that listens, and answers once it is run.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    access: Access,
    waiting: usize,
}

impl Server {
    /// Takes the address. Who connects before the server is run waits.
    ///
    /// # Errors
    /// [`ServeError`], before anything is served.
    pub fn bind(config: Config) -> Result<Self, ServeError> {
        if config.key.is_none() && !config.host.is_loopback() {
            return Err(ServeError::NoKey(config.host));
        }
        let fits = |key: &String| key.len() >= 8 && key.bytes().all(|byte| byte.is_ascii_graphic());
        if config.key.as_ref().is_some_and(|key| !fits(key)) {
            return Err(ServeError::Key);
        }
        let origins = config.origins.iter().map(|origin| origin_of(origin));
        let access = Access {
            key: config.key,
            origins: origins.collect::<Result<_, _>>()?,
        };
        let address = SocketAddr::new(config.host, config.port);
        let refused = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        Ok(Self {
            listener,
            address,
            access,
            waiting: config.waiting.max(1),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers with these members until `shutdown`; then takes no more, gives the answer that is on
    /// its way ten seconds to end, and comes back. This thread is the members'.
    ///
    /// # Errors
    /// [`ServeError::Start`].
    pub fn run<M: TakePart>(
        self,
        members: &mut [M],
        ensemble: &Ensemble,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ServeError> {
        let queue = Arc::new(Queue::new(self.waiting));
        let ending = Arc::new(AtomicBool::new(false));
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let models = distinct(members.iter().map(TakePart::name));
        let names = models[1..].to_vec();
        let shared = Arc::new(Shared {
            models,
            sampling: ensemble.sampling,
            queue: Arc::clone(&queue),
            slowest: connections::SILENCE,
            requests: AtomicU64::new(0),
            created: now.unwrap_or_default().as_secs(),
        });
        let router = router(shared, Arc::new(self.access));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(HTTP_THREADS)
            .thread_name("http")
            .enable_all()
            .build()
            .map_err(ServeError::Start)?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(self.listener).map_err(ServeError::Start)?
        };
        let asked = {
            let (queue, ending) = (Arc::clone(&queue), Arc::clone(&ending));
            async move {
                shutdown.await;
                queue.close();
                tokio::spawn(async move {
                    tokio::time::sleep(GRACE).await;
                    ending.store(true, Ordering::Relaxed);
                });
            }
        };
        let served = runtime.spawn(connections::serve(listener, router, asked));
        work(members, &names, ensemble, &queue, &ending);
        // Clients hear the rest; one that doesn't read holds nobody up.
        let _ = runtime.block_on(async { tokio::time::timeout(LAST_WORDS, served).await });
        runtime.shutdown_background();
        Ok(())
    }
}

/// The ensemble's name and its members', each told from those before it: a client asks by them, and
/// reads votes by them, and members behind two servers may be called alike.
fn distinct<'a>(members: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names = vec![ENSEMBLE.to_owned()];
    for name in members {
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let mut all = std::iter::once(name.to_owned()).chain(numbered);
        names.extend(all.find(|one| !names.contains(one)));
    }
    names
}

/// An origin as a browser sends it: a scheme, a host, perhaps a port, and nothing behind.
fn origin_of(text: &str) -> Result<HeaderValue, ServeError> {
    let wrong = || ServeError::Origin(text.to_owned());
    let (scheme, host) = text.split_once("://").ok_or_else(wrong)?;
    let fits = !scheme.is_empty() && !host.is_empty() && !host.contains(['/', '?', '#', '*']);
    let origin = HeaderValue::from_str(text).map_err(|_| wrong())?;
    fits.then_some(origin).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn config(host: [u8; 4], key: Option<&str>) -> Config {
        Config {
            host: IpAddr::from(host),
            port: 0,
            key: key.map(str::to_owned),
            origins: Vec::new(),
            waiting: 1,
        }
    }

    #[test]
    fn other_machines_need_a_key() {
        let refused = |config| Server::bind(config).err().expect("it is refused");
        assert!(matches!(
            refused(config([0, 0, 0, 0], None)),
            ServeError::NoKey(_)
        ));
        assert!(matches!(
            refused(config([127, 0, 0, 1], Some("short"))),
            ServeError::Key
        ));
        assert!(matches!(
            refused(config([0, 0, 0, 0], Some("has spaces in it"))),
            ServeError::Key
        ));
        Server::bind(config([0, 0, 0, 0], Some("long-enough?"))).expect("it has a key");
        let own = Server::bind(config([127, 0, 0, 1], None)).expect("it is this machine's");
        assert_eq!(own.address().ip(), Ipv4Addr::LOCALHOST);
        let taken = Config {
            port: own.address().port(),
            ..config([127, 0, 0, 1], None)
        };
        assert!(matches!(refused(taken), ServeError::Listen { .. }));
    }

    #[test]
    fn no_two_are_asked_by_one_name() {
        let names = distinct(["Quill", "conclave", "Quill", "Quill-2", "Quill"].into_iter());
        let wanted = [
            "conclave",
            "Quill",
            "conclave-2",
            "Quill-2",
            "Quill-2-2",
            "Quill-3",
        ];
        assert_eq!(names, wanted);
    }

    #[test]
    fn origins_are_as_browsers_send_them() {
        for origin in [
            "https://example.org",
            "http://localhost:5173",
            "app://conclave",
        ] {
            assert_eq!(origin_of(origin).unwrap(), origin);
        }
        for wrong in [
            "example.org",
            "https://",
            "https://example.org/",
            "https://*",
            "https://a\nb",
        ] {
            assert!(
                matches!(origin_of(wrong), Err(ServeError::Origin(_))),
                "{wrong}"
            );
        }
    }
}
