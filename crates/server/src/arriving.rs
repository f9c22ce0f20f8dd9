//! Request bodies on their way in: the limits of size, of time, and of all bodies together.
//!
//! A caller can send a body before it is authenticated, so all such bodies share one budget. Bytes are counted as they
//! arrive, whatever length was declared, and released when the request is decoded or dropped.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use sabir_gateway::{Capacity, Share};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Sleep;

/// A complete body, counted until it is decoded.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) body: Bytes,
    pub(crate) held: Share,
}

/// Why a body was refused.
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

/// The limits of one body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) bytes_max: usize,
    pub(crate) time_max: Duration,
}

/// A body that is being received.
#[derive(Debug)]
pub(crate) struct Arriving {
    body: Incoming,
    held: Share,
    bounds: Bounds,
    /// The timeout; set when the body has to be waited for the first time.
    late: Option<Pin<Box<Sleep>>>,
}

impl Arriving {
    pub(crate) fn new(body: Incoming, room: &Capacity, bounds: Bounds) -> Self {
        Self { body, held: room.share(), bounds, late: None }
    }

    /// Its share of the budget.
    pub(crate) fn into_held(self) -> Share {
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
                } else if this.held.bytes() > this.bounds.bytes_max {
                    Err(Trouble::TooLarge)
                } else {
                    Ok(frame)
                }))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                // A small body arrives together with its head; no timer is set for it.
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
