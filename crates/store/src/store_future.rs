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
pub struct StoreFuture<T, E = StoreError>(FutureState<T, E>);

#[derive(Debug)]
enum FutureState<T, E> {
    Ready(Option<Result<T, E>>),
    Waiting(oneshot::Receiver<Result<T, E>>),
}

impl<T, E> StoreFuture<T, E> {
    /// A future whose result is known already.
    pub const fn ready(result: Result<T, E>) -> Self {
        Self(FutureState::Ready(Some(result)))
    }

    /// A future whose result the writer sends through this channel.
    pub const fn from_receiver(receiver: oneshot::Receiver<Result<T, E>>) -> Self {
        Self(FutureState::Waiting(receiver))
    }
}

impl<T, E> Unpin for StoreFuture<T, E> {}

impl<T, E: From<StoreError>> Future for StoreFuture<T, E> {
    type Output = Result<T, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.get_mut().0 {
            FutureState::Ready(result) => Poll::Ready(result.take().expect("an answer is polled to its end only once")),
            FutureState::Waiting(receiver) => {
                Pin::new(receiver).poll(cx).map(|sent| sent.unwrap_or_else(|_| Err(StoreError::Closed.into())))
            }
        }
    }
}
