//! Closes HTTP/2 connections without requests.
//!
//! Between two requests, an HTTP/1.1 connection has a timeout for the next head. HTTP/2 has no such timeout: a peer
//! that answers pings would keep its connection for ever. So the requests of a connection are counted, and it is closed
//! when there was none for a while.

use super::stalled_stream::{Pieces, note_data, note_no_data};
use super::{Answering, Behind, Requests};
use crate::body::{Body, BodyError};
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::Service;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;

/// Counts the open requests of one connection.
#[derive(Debug)]
pub(super) struct Streams {
    open: AtomicUsize,
    /// When the last request ended, or the connection began.
    ended: Mutex<Instant>,
}

impl Streams {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { open: AtomicUsize::new(0), ended: Mutex::new(Instant::now()) })
    }

    fn begin(self: &Arc<Self>) -> Open {
        self.open.fetch_add(1, Ordering::Relaxed);
        Open(self.clone())
    }

    fn ended(&self) -> Instant {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there was no request for this long.
    pub(super) async fn quiet_for(&self, time: Duration) {
        let mut look = self.ended() + time;
        loop {
            tokio::time::sleep_until(look).await;
            // In this order: a request that is counted as ended has stored its time before.
            let open = self.open.load(Ordering::Acquire);
            let (ended, now) = (self.ended(), Instant::now());
            look = match open {
                0 if ended + time <= now => return,
                0 => ended + time,
                _ => now + time,
            };
        }
    }
}

/// A request, from its head to the end of its response.
#[derive(Debug)]
struct Open(Arc<Streams>);

impl Drop for Open {
    fn drop(&mut self) {
        *self.0.ended.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.0.open.fetch_sub(1, Ordering::Release);
    }
}

/// Handles the requests of one connection, and counts them.
pub(super) struct Counting<B> {
    pub(super) requests: Requests<B>,
    pub(super) streams: Arc<Streams>,
}

impl<B: Behind> Service<Request<Incoming>> for Counting<B> {
    type Response = Response<Counted>;
    type Error = Infallible;
    type Future = Counted<Answering>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (of, open) = (self.requests.answer(request), Some(self.streams.begin()));
        Counted { of, open, pieces: Pieces::default() }
    }
}

/// A counted response, or the future of one; it sends its data in pieces.
pub(super) struct Counted<T = Body> {
    of: T,
    open: Option<Open>,
    pieces: Pieces,
}

impl Future for Counted<Answering> {
    type Output = Result<Response<Counted>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(response) = self.of.as_mut().poll(cx) else { return Poll::Pending };
        let open = self.open.take();
        Poll::Ready(Ok(response.map(|of| Counted { of, open, pieces: Pieces::default() })))
    }
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            if let Some(piece) = self.pieces.next() {
                note_data(piece.len());
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            let polled = Pin::new(&mut self.of).poll_frame(cx);
            let Poll::Ready(Some(Ok(frame))) = polled else {
                note_no_data();
                return polled;
            };
            match frame.into_data() {
                Ok(data) => self.pieces = Pieces::of(data),
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.bytes_left() == 0 && self.of.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (left, hint) = (self.pieces.bytes_left() as u64, self.of.size_hint());
        let mut with_pieces = SizeHint::new();
        with_pieces.set_lower(hint.lower() + left);
        if let Some(upper) = hint.upper() {
            with_pieces.set_upper(upper + left);
        }
        with_pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_is_idle_only_when_nothing_was_asked_for_long_enough() {
        let time = Duration::from_millis(200);
        let pause = |ms| tokio::time::sleep(Duration::from_millis(ms));
        let begun = Instant::now();
        Streams::new().quiet_for(time).await;
        assert!(begun.elapsed() >= time, "nothing was ever asked");

        let streams = Streams::new();
        let ended = async {
            pause(100).await;
            let (long, short) = (streams.begin(), streams.begin());
            pause(50).await;
            drop(short);
            pause(500).await;
            let ended = Instant::now();
            drop(long);
            ended
        };
        let (idle, ended) = tokio::join!(
            async {
                streams.quiet_for(time).await;
                Instant::now()
            },
            ended
        );
        assert!(idle >= ended + time, "{:?} after the last request", idle.saturating_duration_since(ended));
    }
}
