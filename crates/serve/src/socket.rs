//! Sockets of clients: who has gone, and who only sends no more.
//!
//! A client may shut down its sending side after a request and still read the answer, as `nc -N`
//! does. To this side that looks like a closed connection until something is written: only a
//! client that has closed answers with a reset. So something is written that clients skip: a
//! comment into a stream of events, before any other answer an interim response of HTTP/1.1.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Version, header};
use axum::response::Response;
use futures_lite::{StreamExt, stream};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Instant, Sleep, sleep};

/// Interval of looks at a socket whose client sends no more.
const LOOK: Duration = Duration::from_millis(50);

/// Time before something is written: most refusals take less.
const PATIENCE: Duration = Duration::from_millis(100);

/// Interval at which something is written.
const AGAIN: Duration = Duration::from_secs(2);

const INTERIM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
const COMMENT: &[u8] = b":\n\n";

/// Time and bytes for a client that still sends after its answer: a socket closed with unread bytes
/// is reset, and the client may lose the answer.
const LINGER: Duration = Duration::from_secs(2);
const MOST_UNREAD: usize = 64 << 20;

/// A connection's socket, shared by its two users.
pub(crate) struct Socket {
    read: Arc<OwnedReadHalf>,
    write: OwnedWriteHalf,
    state: Arc<State>,
    /// Deadline and further bytes at the end of the connection.
    lingers: Option<(Pin<Box<Sleep>>, usize)>,
}

/// Facts that the watch needs.
#[derive(Debug, Default)]
struct State {
    /// Written bytes may be followed by others of the same response.
    writes: AtomicBool,
    /// A request waits for its response and may get an interim one.
    waits: AtomicBool,
    /// A comment is due in a stream of events.
    comments: AtomicBool,
}

/// Watch over a connection's client.
#[derive(Clone)]
pub(crate) struct Watch {
    read: Arc<OwnedReadHalf>,
    state: Arc<State>,
}

/// A request that waits for its response, until dropped.
pub(crate) struct Waiting(Arc<State>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waits.store(false, Ordering::Relaxed);
    }
}

impl Socket {
    pub fn new(stream: TcpStream) -> (Self, Watch) {
        let (read, write) = stream.into_split();
        let (read, state) = (Arc::new(read), Arc::<State>::default());
        let watch = Watch {
            read: Arc::clone(&read),
            state: Arc::clone(&state),
        };
        let socket = Self {
            read,
            write,
            state,
            lingers: None,
        };
        (socket, watch)
    }

    /// Reads until the client sends no more. Returns at once if nothing has come unread.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut unread = [0; 4096];
        loop {
            let read = self.read.try_read(&mut unread);
            let waits = matches!(&read, Err(error) if error.kind() == ErrorKind::WouldBlock);
            match (read, &mut self.lingers) {
                (Ok(1..), lingers @ None) => {
                    *lingers = Some((Box::pin(sleep(LINGER)), MOST_UNREAD));
                }
                (Ok(count @ 1..), Some((_, most))) if *most > count => *most -= count,
                (Err(_), Some((deadline, _))) if waits => {
                    ready!(poll_both(
                        deadline.as_mut().poll(cx),
                        self.read.as_ref().as_ref().poll_read_ready(cx)
                    ));
                    if deadline.is_elapsed() {
                        return Poll::Ready(());
                    }
                }
                _ => return Poll::Ready(()),
            }
        }
    }
}

/// Returns whether either is ready.
fn poll_both<A, B>(one: Poll<A>, other: Poll<B>) -> Poll<()> {
    match one.is_ready() || other.is_ready() {
        true => Poll::Ready(()),
        false => Poll::Pending,
    }
}

impl Watch {
    /// Notes a request of this version, until the result is dropped.
    pub fn waits(&self, version: Version) -> Waiting {
        // Clients of HTTP/1.0 know no interim responses.
        let may = version >= Version::HTTP_11;
        self.state.waits.store(may, Ordering::Relaxed);
        Waiting(Arc::clone(&self.state))
    }

    /// Returns a response whose stream of events has comments when they are due.
    pub fn commented(&self, response: Response) -> Response {
        let kind = response.headers().get(header::CONTENT_TYPE);
        if kind.is_none_or(|kind| kind != "text/event-stream") {
            return response;
        }
        let state = Arc::clone(&self.state);
        response.map(|body| {
            let mut events = body.into_data_stream();
            // Each part of the body is a whole event.
            Body::from_stream(stream::poll_fn(move |cx| match events.poll_next(cx) {
                Poll::Pending if state.comments.swap(false, Ordering::Relaxed) => {
                    Poll::Ready(Some(Ok(Bytes::from_static(COMMENT))))
                }
                polled => polled,
            }))
        })
    }

    /// Returns once the client has closed the connection; to be polled after the connection, by the
    /// same task.
    pub async fn gone(self) {
        let stream: &TcpStream = self.read.as_ref().as_ref();
        loop {
            match stream.peek(&mut [0]).await {
                Ok(0) => break,
                // Bytes that the connection has still to read.
                Ok(_) => sleep(LOOK).await,
                Err(_) => return,
            }
        }
        let mut next = Instant::now() + PATIENCE;
        loop {
            // Systems tell of a reset in one of these ways.
            let ready = stream.ready(Interest::READABLE | Interest::WRITABLE);
            let is_reset = ready.await.is_ok_and(|ready| ready.is_write_closed());
            if is_reset || stream.peek(&mut [0]).await.is_err() {
                return;
            }
            let may = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
            let due = !may(&self.state.writes) && Instant::now() >= next;
            if due {
                next = Instant::now() + AGAIN;
                self.state.comments.store(true, Ordering::Relaxed);
            }
            if due && may(&self.state.waits) {
                // So few bytes fit as a whole if any do.
                match stream.try_write(INTERIM) {
                    Err(error) if error.kind() != ErrorKind::WouldBlock => return,
                    _ => {}
                }
            }
            sleep(LOOK).await;
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.read.as_ref().as_ref().poll_read_ready(cx))?;
            match self.read.try_read(buffer.initialize_unfilled()) {
                Ok(count) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.state.writes.store(true, Ordering::Relaxed);
        Pin::new(&mut self.write).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        all: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.state.writes.store(true, Ordering::Relaxed);
        Pin::new(&mut self.write).poll_write_vectored(cx, all)
    }

    fn is_write_vectored(&self) -> bool {
        self.write.is_write_vectored()
    }

    /// Called once no byte of the response is left.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.state.writes.store(false, Ordering::Relaxed);
        Pin::new(&mut self.write).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingers.is_none() {
            ready!(Pin::new(&mut self.write).poll_shutdown(cx))?;
        }
        ready!(self.poll_linger(cx));
        Poll::Ready(Ok(()))
    }
}
