//! Connection handling: limits, timeouts and shutdown.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::Request;
use futures_lite::future::or;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tower::ServiceExt;

/// Maximum number of open connections; further ones wait.
const MOST: usize = 1024;

/// Timeout for a request's headers, also between two requests, and again for its body.
pub(crate) const SILENCE: Duration = Duration::from_secs(60);

/// Maximum number of a request's headers, more than chains of proxies add.
const MOST_HEADERS: usize = 1000;

/// Pause after a failed accept.
const NO_ROOM: Duration = Duration::from_secs(1);

/// Serves connections until `shutdown`; returns once all earlier requests are answered.
pub(crate) async fn serve(
    listeners: Vec<TcpListener>,
    router: Router,
    shutdown: impl Future<Output = ()>,
) {
    let graceful = GracefulShutdown::new();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(SILENCE)
        .max_headers(MOST_HEADERS);
    let room = Arc::new(Semaphore::new(MOST));
    let mut shutdown = pin!(shutdown);
    loop {
        let ends = async {
            shutdown.as_mut().await;
            None
        };
        let connects = async {
            // The semaphore is never closed.
            let place = Arc::clone(&room).acquire_owned().await.ok()?;
            Some((accept(&listeners).await, place))
        };
        let Some((connected, place)) = or(ends, connects).await else {
            break;
        };
        let Ok((stream, from)) = connected else {
            tokio::time::sleep(NO_ROOM).await;
            continue;
        };
        // Segments are small and latency matters.
        let _ = stream.set_nodelay(true);
        let service = service_for(router.clone(), from);
        let connection = graceful.watch(http.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            // Disconnects are normal.
            let _ = connection.await;
            drop(place);
        });
    }
    drop(listeners);
    graceful.shutdown().await;
}

/// Accepts the next connection on any listener.
async fn accept(listeners: &[TcpListener]) -> std::io::Result<(TcpStream, SocketAddr)> {
    poll_fn(|context| {
        let mut all = listeners.iter().map(|one| one.poll_accept(context));
        all.find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
    .await
}

/// Returns the service of one connection; its requests carry the peer address.
fn service_for(
    router: Router,
    from: SocketAddr,
) -> impl hyper::service::Service<
    Request<Incoming>,
    Response = axum::response::Response,
    Error = std::convert::Infallible,
    Future: Send,
> + Send {
    service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(from));
        router.clone().oneshot(request)
    })
}
