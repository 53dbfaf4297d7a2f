//! The server: HTTP has its own threads, the members use the caller's.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use conclave_ensemble::Settings;
use conclave_member::Thinking;
use conclave_model::Sampling;
use conclave_rounds::TakePart;

use crate::access::{Access, Origin};
use crate::connections;
use crate::queue::Queue;
use crate::routes::{Shared, router};
use crate::work::{Job, work};

/// Model name of the ensemble.
const ENSEMBLE: &str = "conclave";

/// Number of HTTP threads; the cores are for the members.
const HTTP_THREADS: usize = 2;

/// Time for the current answer at shutdown.
const GRACE: Duration = Duration::from_secs(10);

/// Time for clients to read the rest after that.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Address and access of a server.
#[derive(Clone)]
pub struct Config {
    /// Address or host name to listen on; `localhost` means both 127.0.0.1 and ::1.
    pub host: String,
    /// Port; 0 for a free one.
    pub port: u16,
    /// Key that clients must send; required unless the address is a loopback one.
    pub key: Option<String>,
    /// Allowed origins of pages, as `https://example.org`; `*` matches any text without `/`, as
    /// a port digits; `null` a page without an origin.
    pub origins: Vec<String>,
    /// Maximum number of waiting requests; one address may have half of them.
    pub waiting: usize,
}

/// Leaves the key out.
impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("origins", &self.origins)
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

/// Defaults of all requests.
#[derive(Debug, Clone)]
pub struct Ensemble {
    /// Settings of the method.
    pub settings: Settings,
    /// Sampling; each request has its own seed, counted from this one.
    pub sampling: Sampling,
    /// Thinking mode.
    pub thinking: Thinking,
}

impl Ensemble {
    /// Returns `settings` without the method's limits of rounds, repetition and characters:
    /// `max_tokens` or the context ends an answer.
    pub fn without_limits(settings: Settings) -> Settings {
        Settings {
            max_rounds: 10_000,
            max_repeats: Settings::MOST_REPEATS,
            max_characters: 1_000_000,
            ..settings
        }
    }
}

/// Reasons that prevent serving.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A public address without a key.
    #[error(
        "{0} can be reached from other machines, so that a key is needed: choose one with --key or \
         CONCLAVE_KEY, or serve at 127.0.0.1"
    )]
    NoKey(String),
    /// A key that is too short or not visible ASCII.
    #[error("the key has to be of visible ASCII characters, at least 8")]
    Key,
    /// An invalid origin.
    #[error(
        "`{0}` is no origin: write it as a browser sends it, https://example.org, \
         http://localhost:* for any port, vscode-webview://* or null"
    )]
    Origin(String),
    /// An origin of files, which browsers do not send.
    #[error("`{0}` is no origin: browsers send null for pages that are files; write --origin null")]
    FileOrigin(String),
    /// An unknown host name.
    #[error("`{0}` is no address of this machine: write one, as 127.0.0.1 or ::1, or localhost")]
    Host(String),
    /// The address is in use or not local.
    #[error("can't listen at {address}: {source}; choose another --port or --host")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
    /// The HTTP threads could not be started.
    #[error("the server could not be started: {0}")]
    Start(std::io::Error),
}

/// A bound server that answers once run.
pub struct Server {
    /// At least one.
    listeners: Vec<TcpListener>,
    address: SocketAddr,
    access: Access,
    waiting: usize,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Binds the address. Connections wait until [`run`](Self::run).
    ///
    /// # Errors
    /// [`ServeError`], before anything is served.
    pub fn bind(config: Config) -> Result<Self, ServeError> {
        let hosts = hosts_of(&config.host)?;
        if config.key.is_none() && !hosts.iter().all(IpAddr::is_loopback) {
            return Err(ServeError::NoKey(config.host));
        }
        let fits = |key: &String| key.len() >= 8 && key.bytes().all(|byte| byte.is_ascii_graphic());
        if config.key.as_ref().is_some_and(|key| !fits(key)) {
            return Err(ServeError::Key);
        }
        let origins = config.origins.iter();
        let is_file = |one: &str| one.to_ascii_lowercase().starts_with("file:");
        let origins = origins.map(|one| match Origin::new(one) {
            _ if is_file(one) => Err(ServeError::FileOrigin(one.clone())),
            Some(origin) => Ok(origin),
            None => Err(ServeError::Origin(one.clone())),
        });
        let access = Access {
            key: config.key,
            origins: origins.collect::<Result<_, _>>()?,
        };
        let listeners = listen(&hosts, config.port)?;
        let address = listeners[0].0;
        Ok(Self {
            listeners: listeners
                .into_iter()
                .map(|(_, listener)| listener)
                .collect(),
            address,
            access,
            waiting: config.waiting.max(1),
        })
    }

    /// Returns the first bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves these members until `shutdown`, then gives the current answer ten seconds to end. The
    /// members run on the calling thread.
    ///
    /// # Errors
    /// [`ServeError::Start`].
    pub fn run<M: TakePart>(
        self,
        members: &mut [M],
        ensemble: &Ensemble,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ServeError> {
        let queue = Arc::new(Queue::new(self.waiting, Job::is_wanted));
        let ending = Arc::new(AtomicBool::new(false));
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let names = name_apart(members);
        let models = std::iter::once(ENSEMBLE.to_owned()).chain(names.iter().cloned());
        let shared = Arc::new(Shared {
            models: models.collect(),
            sampling: ensemble.sampling,
            queue: Arc::clone(&queue),
            metrics: Arc::default(),
            keyed: self.access.key.is_some(),
            slowest: connections::SILENCE,
            requests: AtomicU64::new(0),
            recent: Arc::default(),
            created: now.unwrap_or_default().as_secs(),
        });
        let router = router(shared, Arc::new(self.access));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(HTTP_THREADS)
            .thread_name("http")
            .enable_all()
            .build()
            .map_err(ServeError::Start)?;
        let listeners: Vec<_> = {
            let _inside = runtime.enter();
            let listeners = self.listeners.into_iter();
            let listeners = listeners.map(tokio::net::TcpListener::from_std);
            listeners
                .collect::<Result<_, _>>()
                .map_err(ServeError::Start)?
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
        let closes = CloseOnDrop(Arc::clone(&queue));
        let served = runtime.spawn(async move {
            let _closes = closes;
            connections::serve(listeners, router, asked).await;
        });
        work(members, &names, ensemble, &queue, &ending);
        // Clients may read the rest, within a limit.
        let _ = runtime.block_on(async { tokio::time::timeout(LAST_WORDS, served).await });
        runtime.shutdown_background();
        Ok(())
    }
}

/// Gives each member a name of its own, by which clients ask it: one that is the ensemble's or an
/// earlier member's gets a number. Returns the names. [`Server::run`] does it, too: before, it is
/// for callers that tell the names.
pub fn name_apart<M: TakePart>(members: &mut [M]) -> Vec<String> {
    name_apart_from(&[ENSEMBLE], members)
}

/// Does the same where other names are `taken`: outside of a server, the ensemble has none.
pub fn name_apart_from<M: TakePart>(taken: &[&str], members: &mut [M]) -> Vec<String> {
    let names = distinct(taken, members.iter().map(TakePart::name)).split_off(taken.len());
    for (member, name) in members.iter_mut().zip(&names) {
        member.set_name(name);
    }
    names
}

/// Returns the names `taken` and those of the members, numbered where they repeat: members on two
/// servers may share a name.
fn distinct<'a>(taken: &[&str], members: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<String> = taken.iter().map(|&name| name.to_owned()).collect();
    for name in members {
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let mut all = std::iter::once(name.to_owned()).chain(numbered);
        names.extend(all.find(|one| !names.contains(one)));
    }
    names
}

/// Closes the queue when the HTTP task ends, even by a panic; the members' thread would wait
/// forever.
struct CloseOnDrop(Arc<Queue<Job>>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Resolves `host`.
fn hosts_of(host: &str) -> Result<Vec<IpAddr>, ServeError> {
    if host.eq_ignore_ascii_case("localhost") {
        return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
    }
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    if let Ok(address) = bare.unwrap_or(host).parse() {
        return Ok(vec![address]);
    }
    let found = (host, 0).to_socket_addrs();
    let mut found: Vec<IpAddr> =
        found.map_or_else(|_| Vec::new(), |all| all.map(|one| one.ip()).collect());
    found.sort_unstable();
    found.dedup();
    match found.is_empty() {
        true => Err(ServeError::Host(host.to_owned())),
        false => Ok(found),
    }
}

/// Binds `port` at every host; for 0, a port free at the first. Address families that the machine
/// lacks are skipped unless none is left.
fn listen(hosts: &[IpAddr], port: u16) -> Result<Vec<(SocketAddr, TcpListener)>, ServeError> {
    let mut taken: Vec<(SocketAddr, TcpListener)> = Vec::new();
    for (at, host) in hosts.iter().enumerate() {
        let port = taken.first().map_or(port, |(first, _)| first.port());
        let address = SocketAddr::new(*host, port);
        let bound = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok((listener.local_addr()?, listener))
        });
        match bound {
            Ok(bound) => taken.push(bound),
            Err(source) => {
                let last = at + 1 == hosts.len() && taken.is_empty();
                if last || source.kind() == ErrorKind::AddrInUse {
                    return Err(ServeError::Listen { address, source });
                }
            }
        }
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(host: &str, key: Option<&str>) -> Config {
        Config {
            host: host.to_owned(),
            port: 0,
            key: key.map(str::to_owned),
            origins: Vec::new(),
            waiting: 1,
        }
    }

    #[test]
    fn other_machines_need_a_key() {
        let refused = |config| Server::bind(config).expect_err("it is refused");
        assert!(matches!(
            refused(config("0.0.0.0", None)),
            ServeError::NoKey(_)
        ));
        assert!(matches!(
            refused(config("127.0.0.1", Some("short"))),
            ServeError::Key
        ));
        assert!(matches!(
            refused(config("0.0.0.0", Some("has spaces in it"))),
            ServeError::Key
        ));
        Server::bind(config("0.0.0.0", Some("long-enough?"))).expect("it has a key");
        let own = Server::bind(config("127.0.0.1", None)).expect("it is this machine's");
        assert_eq!(own.address().ip(), Ipv4Addr::LOCALHOST);
        let taken = Config {
            port: own.address().port(),
            ..config("127.0.0.1", None)
        };
        assert!(matches!(refused(taken), ServeError::Listen { .. }));
        assert!(matches!(
            refused(config("no such host", None)),
            ServeError::Host(_)
        ));
        assert!(matches!(refused(config("::", None)), ServeError::NoKey(_)));
    }

    #[test]
    fn pages_that_are_files_are_allowed_by_null() {
        for origin in ["file://", "file:///home/me/page.html", "FILE://*"] {
            let mut config = config("127.0.0.1", None);
            config.origins = vec![origin.to_owned()];
            let refused = Server::bind(config).expect_err(origin).to_string();
            assert!(refused.contains("--origin null"), "{refused}");
        }
    }

    #[test]
    fn this_machine_is_reached_by_both_kinds_of_address() {
        let both = Server::bind(config("localhost", None)).expect("it is this machine's");
        assert_eq!(both.address().ip(), Ipv4Addr::LOCALHOST);
        // Not every machine has both.
        let kinds = 1 + usize::from(TcpListener::bind("[::1]:0").is_ok());
        assert_eq!(both.listeners.len(), kinds);
        let ports = both
            .listeners
            .iter()
            .map(|one| one.local_addr().unwrap().port());
        assert!(ports.into_iter().all(|port| port == both.address().port()));
        if kinds == 2 {
            let written = Server::bind(config("[::1]", None)).expect("it is this machine's");
            assert_eq!(written.address().ip(), Ipv6Addr::LOCALHOST);
        }
    }

    #[test]
    fn no_two_are_asked_by_one_name() {
        let names = distinct(
            &[ENSEMBLE],
            ["Quill", "conclave", "Quill", "Quill-2", "Quill"].into_iter(),
        );
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
}
