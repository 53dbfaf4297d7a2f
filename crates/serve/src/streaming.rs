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
    writer: W,
    events: UnboundedReceiver<Event>,
) -> Result<Response, ApiError> {
    streamed_within(writer, events, AT_ONCE, SIGN_OF_LIFE).await
}

/// Streams a reply: headers within `at_once`, and comments every `sign_of_life`.
async fn streamed_within<W: Writer>(
    mut writer: W,
    mut events: UnboundedReceiver<Event>,
    at_once: Duration,
    sign_of_life: Duration,
) -> Result<Response, ApiError> {
    let first = match tokio::time::timeout(at_once, events.recv()).await {
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
    let alive = KeepAlive::new().interval(sign_of_life);
    let reply = Sse::new(begun.chain(written)).keep_alive(alive);
    Ok(([("x-accel-buffering", "no")], reply).into_response())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tokio::sync::mpsc::unbounded_channel;

    use super::*;
    use crate::work::Usage;

    /// Writes an event's kind; the end is the last.
    struct Kinds {
        over: bool,
    }

    impl Writer for Kinds {
        fn write(&mut self, event: Option<Event>) -> Vec<sse::Event> {
            self.over = !matches!(event, Some(Event::Begun { .. }));
            let kind = if self.over { "end" } else { "begun" };
            vec![sse::Event::default().data(kind)]
        }

        fn is_over(&self) -> bool {
            self.over
        }
    }

    #[test]
    fn comments_come_at_their_interval_for_as_long_as_a_stream_waits() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            let interval = Duration::from_millis(60);
            let (sender, events) = unbounded_channel();
            let kinds = Kinds { over: false };
            let response = streamed_within(kinds, events, Duration::from_millis(1), interval);
            let mut body = response.await.unwrap().into_body().into_data_stream();
            let mut next = async || {
                let begun = Instant::now();
                let data = body.next().await.unwrap().unwrap();
                (String::from_utf8_lossy(&data).into_owned(), begun.elapsed())
            };
            // The first with the headers; two before the answer begins, and two within it.
            let (first, _) = next().await;
            assert!(
                first.starts_with(':') && !first.contains("data"),
                "{first:?}"
            );
            for begins in [true, false] {
                for _ in 0..2 {
                    let (comment, after) = next().await;
                    let is_comment = comment.starts_with(':') && !comment.contains("data");
                    assert!(is_comment, "{comment:?}");
                    assert!(after > interval / 2, "{after:?}");
                }
                let (event, word) = match begins {
                    true => (Event::Begun { choice: 0 }, "begun"),
                    false => (Event::End(Usage::default()), "end"),
                };
                sender.send(event).unwrap();
                let (data, _) = next().await;
                assert_eq!(data, format!("data: {word}\n\n"));
            }
            assert!(body.next().await.is_none());
        });
        // Proxies close what is silent for a minute, some for half of one.
        assert_eq!(SIGN_OF_LIFE, Duration::from_secs(10));
    }
}
