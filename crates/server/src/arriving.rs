//! Requests on their way in: no longer than a limit, no slower than a limit, and not too many at once.
//!
//! Strangers can send, so what they send is bounded for all of them together before anybody asks who they are. Bytes are
//! counted as they arrive, whatever was announced, and given back when the request is decoded or gone.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Sleep;

/// A request that is no longer than this may use all of the budget, in bytes.
const SMALL: usize = 64 << 10;
/// The part of the budget that larger ones leave to the small ones, so that a few large ones cannot keep out everybody.
const RESERVE: usize = 8;

/// What of a budget large requests may use.
pub(crate) const fn for_large(most: usize) -> usize {
    most - most / RESERVE
}

/// What all requests together may hold before they are decoded.
#[derive(Debug, Clone)]
pub(crate) struct Budget(Arc<Count>);

#[derive(Debug)]
struct Count {
    most: usize,
    used: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(most: usize) -> Self {
        Self(Arc::new(Count { most, used: AtomicUsize::new(0) }))
    }

    fn hold(&self) -> Held {
        Held { budget: self.clone(), bytes: 0 }
    }
}

/// The share of one request, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    budget: Budget,
    bytes: usize,
}

impl Held {
    /// Counts bytes that have come; whether there was room for them.
    fn add(&mut self, bytes: usize) -> bool {
        let Count { most, used } = &*self.budget.0;
        let all = used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        self.bytes += bytes;
        let room = if self.bytes <= SMALL { *most } else { for_large(*most) };
        all <= room
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.0.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A body that has arrived, counted until it is decoded.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) body: Bytes,
    pub(crate) held: Held,
}

/// Why a body is not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error("the body is too large")]
    TooLarge,
    #[error("the body took too long to arrive")]
    Late,
    #[error("too much is on its way at present; try again")]
    Crowded,
    #[error("the body broke off: {0}")]
    Broken(#[from] hyper::Error),
}

/// The bounds of one body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) bytes_max: usize,
    pub(crate) time_max: Duration,
}

/// A body on its way in.
#[derive(Debug)]
pub(crate) struct Arriving {
    body: Incoming,
    held: Held,
    bounds: Bounds,
    /// Until when; there is one once something had to be waited for.
    late: Option<Pin<Box<Sleep>>>,
}

impl Arriving {
    pub(crate) fn new(body: Incoming, budget: &Budget, bounds: Bounds) -> Self {
        Self { body, held: budget.hold(), bounds, late: None }
    }

    /// What it counts for.
    pub(crate) fn into_held(self) -> Held {
        self.held
    }
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = Trouble;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Trouble>>> {
        let this = self.get_mut();
        match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                Poll::Ready(Some(if !this.held.add(bytes) {
                    Err(Trouble::Crowded)
                } else if this.held.bytes > this.bounds.bytes_max {
                    Err(Trouble::TooLarge)
                } else {
                    Ok(frame)
                }))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                // A small body is here with its head; no clock is asked and no timer set for it.
                let time_max = this.bounds.time_max;
                let late = this.late.get_or_insert_with(|| Box::pin(tokio::time::sleep(time_max)));
                late.as_mut().poll(cx).map(|()| Some(Err(Trouble::Late)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_held_is_given_back() {
        let budget = Budget::new(1 << 20);
        let mut one = budget.hold();
        assert!(one.add(500 << 10));
        let mut two = budget.hold();
        assert!(!two.add(500 << 10), "there is no room for both");
        drop(two);
        drop(one);
        assert_eq!(budget.0.used.load(Ordering::Relaxed), 0);
        assert!(budget.hold().add(800 << 10));
    }

    #[test]
    fn large_requests_leave_room_for_small_ones() {
        let budget = Budget::new(1 << 20);
        let mut large = budget.hold();
        assert!(large.add(7 << 17));
        let mut next = budget.hold();
        assert!(!next.add(SMALL + 1), "no more large ones");
        drop(next);
        let mut small = budget.hold();
        assert!(small.add(1000) && small.add(1000));
        let mut more = budget.hold();
        assert!(more.add(SMALL) && !more.add(1 << 20), "one that grows is no longer small");
    }
}
