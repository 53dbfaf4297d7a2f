//! Replies as streams of server-sent events, whichever endpoint writes them.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_lite::{StreamExt, stream};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::error::ApiError;
use crate::work::Event;

/// Time a stream waits for the first event before it sends headers. Errors within it set the
/// status; later ones are events of the stream.
const AT_ONCE: Duration = Duration::from_millis(500);

/// Interval of comments in an idle stream; proxies time out after a minute.
const SIGN_OF_LIFE: Duration = Duration::from_secs(10);

/// Writer of an endpoint's events.
pub(crate) trait Writer: Send + 'static {
    /// Writes an event of the members; `None` means that the sender is gone.
    fn write(&mut self, event: Option<Event>) -> Vec<sse::Event>;

    /// Returns whether the last event has been written.
    fn is_over(&self) -> bool;
}

/// Streams a reply. Headers and a comment go out within [`AT_ONCE`], however long the prompt takes.
///
/// # Errors
/// The members' error before that, or 503 if the server ends first.
pub(crate) async fn streamed<W: Writer>(
    mut writer: W,
    mut events: UnboundedReceiver<Event>,
) -> Result<Response, ApiError> {
    let first = match tokio::time::timeout(AT_ONCE, events.recv()).await {
        Ok(Some(Event::Failed(error))) => return Err(error),
        Ok(None) => return Err(ApiError::closing()),
        Ok(first) => first,
        Err(_) => None,
    };
    let due: VecDeque<_> = match first {
        Some(first) => writer.write(Some(first)).into(),
        None => VecDeque::new(),
    };
    let stream = (writer, events, due);
    let written = stream::unfold(stream, |(mut writer, mut events, mut due)| async {
        loop {
            if let Some(event) = due.pop_front() {
                return Some((Ok::<_, Infallible>(event), (writer, events, due)));
            }
            if writer.is_over() {
                return None;
            }
            due = writer.write(events.recv().await).into();
        }
    });
    let begun = stream::once(Ok(sse::Event::default().comment("")));
    let alive = KeepAlive::new().interval(SIGN_OF_LIFE);
    let reply = Sse::new(begun.chain(written)).keep_alive(alive);
    Ok(([("x-accel-buffering", "no")], reply).into_response())
}
