//! The future that every store method returns.
//!
//! One concrete type rather than boxed futures: a read that memory answers costs no allocation, and a write is a single
//! slot that the writer thread fills.

use crate::StoreError;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::oneshot;

/// The result of a store method: ready at once, or sent later by the writer thread.
#[derive(Debug)]
pub struct Answer<T, E = StoreError>(Inner<T, E>);

#[derive(Debug)]
enum Inner<T, E> {
    Now(Option<Result<T, E>>),
    Later(oneshot::Receiver<Result<T, E>>),
}

impl<T, E> Answer<T, E> {
    /// A future whose result is known already.
    pub const fn now(result: Result<T, E>) -> Self {
        Self(Inner::Now(Some(result)))
    }

    /// A future whose result the writer sends through this channel.
    pub const fn later(receiver: oneshot::Receiver<Result<T, E>>) -> Self {
        Self(Inner::Later(receiver))
    }
}

impl<T, E> Unpin for Answer<T, E> {}

impl<T, E: From<StoreError>> Future for Answer<T, E> {
    type Output = Result<T, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.get_mut().0 {
            Inner::Now(result) => Poll::Ready(result.take().expect("an answer is polled to its end only once")),
            Inner::Later(receiver) => {
                Pin::new(receiver).poll(cx).map(|sent| sent.unwrap_or_else(|_| Err(StoreError::Closed.into())))
            }
        }
    }
}
