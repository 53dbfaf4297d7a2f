//! Connections: how many there may be, how long one may say nothing, and how they end.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
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
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tower::ServiceExt;

/// Connections at once; more wait until one ends.
const MOST: usize = 1024;

/// How long a connection may take to say what it asks for, also after an answer; and as long again
/// for what it sends with it.
pub(crate) const SILENCE: Duration = Duration::from_secs(60);

/// How long to wait where the machine has no room for a connection.
const NO_ROOM: Duration = Duration::from_secs(1);

/// Serves all who connect until `shutdown`; comes back when all that was asked before is answered.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()>,
) {
    let graceful = GracefulShutdown::new();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(SILENCE);
    let room = Arc::new(Semaphore::new(MOST));
    let mut shutdown = pin!(shutdown);
    loop {
        let ends = async {
            shutdown.as_mut().await;
            None
        };
        let connects = async {
            // Nobody closes the semaphore.
            let place = Arc::clone(&room).acquire_owned().await.ok()?;
            Some((listener.accept().await, place))
        };
        let Some((connected, place)) = or(ends, connects).await else {
            break;
        };
        let Ok((stream, from)) = connected else {
            tokio::time::sleep(NO_ROOM).await;
            continue;
        };
        // Segments are small, and each is wanted at once.
        let _ = stream.set_nodelay(true);
        let service = service_for(router.clone(), from);
        let connection = graceful.watch(http.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            // A client that goes away is no news.
            let _ = connection.await;
            drop(place);
        });
    }
    drop(listener);
    graceful.shutdown().await;
}

/// What answers the requests of one connection, which know where they come from.
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
