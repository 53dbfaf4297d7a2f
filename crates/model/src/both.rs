//! Two things that go on side by side.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// What both give, or the first error, which ends the other.
pub async fn both<A, B, E>(
    a: impl Future<Output = Result<A, E>>,
    b: impl Future<Output = Result<B, E>>,
) -> Result<(A, B), E> {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut of_a, mut of_b) = (None, None);
    poll_fn(move |context| {
        if of_a.is_none()
            && let Poll::Ready(given) = a.as_mut().poll(context)
        {
            match given {
                Ok(given) => of_a = Some(given),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        if of_b.is_none()
            && let Poll::Ready(given) = b.as_mut().poll(context)
        {
            match given {
                Ok(given) => of_b = Some(given),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        match (of_a.take(), of_b.take()) {
            (Some(a), Some(b)) => Poll::Ready(Ok((a, b))),
            (a, b) => {
                (of_a, of_b) = (a, b);
                Poll::Pending
            }
        }
    })
    .await
}
