//! Closes HTTP/2 connections without requests.
//!
//! Between two requests, an HTTP/1.1 connection has a timeout for the next head. HTTP/2 has no such timeout: a peer
//! that answers pings would keep its connection for ever. So the requests of a connection are counted, and it is closed
//! when there was none for a while.

use super::stalled_stream::{DataChunks, record_data, record_no_data};
use super::{RequestHandler, RequestService, ResponseFuture};
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
pub(super) struct StreamCounter {
    open: AtomicUsize,
    /// When the last request ended, or the connection began.
    ended: Mutex<Instant>,
}

impl StreamCounter {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { open: AtomicUsize::new(0), ended: Mutex::new(Instant::now()) })
    }

    fn begin(self: &Arc<Self>) -> OpenStream {
        self.open.fetch_add(1, Ordering::Relaxed);
        OpenStream(self.clone())
    }

    fn ended(&self) -> Instant {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there was no request for this long.
    pub(super) async fn wait_until_idle(&self, time: Duration) {
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
struct OpenStream(Arc<StreamCounter>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        *self.0.ended.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.0.open.fetch_sub(1, Ordering::Release);
    }
}

/// Handles the requests of one connection, and counts them.
pub(super) struct CountingService<B> {
    pub(super) requests: RequestService<B>,
    pub(super) streams: Arc<StreamCounter>,
}

impl<B: RequestHandler> Service<Request<Incoming>> for CountingService<B> {
    type Response = Response<CountedResponse>;
    type Error = Infallible;
    type Future = CountedResponse<ResponseFuture>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (of, open) = (self.requests.answer(request), Some(self.streams.begin()));
        CountedResponse { of, open, pieces: DataChunks::default() }
    }
}

/// A counted response, or the future of one; it sends its data in pieces.
pub(super) struct CountedResponse<T = Body> {
    of: T,
    open: Option<OpenStream>,
    pieces: DataChunks,
}

impl Future for CountedResponse<ResponseFuture> {
    type Output = Result<Response<CountedResponse>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(response) = self.of.as_mut().poll(cx) else { return Poll::Pending };
        let open = self.open.take();
        Poll::Ready(Ok(response.map(|of| CountedResponse { of, open, pieces: DataChunks::default() })))
    }
}

impl http_body::Body for CountedResponse {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            if let Some(piece) = self.pieces.next() {
                record_data(piece.len());
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            let polled = Pin::new(&mut self.of).poll_frame(cx);
            let Poll::Ready(Some(Ok(frame))) = polled else {
                record_no_data();
                return polled;
            };
            match frame.into_data() {
                Ok(data) => self.pieces = DataChunks::of(data),
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
        StreamCounter::new().wait_until_idle(time).await;
        assert!(begun.elapsed() >= time, "nothing was ever asked");

        let streams = StreamCounter::new();
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
                streams.wait_until_idle(time).await;
                Instant::now()
            },
            ended
        );
        assert!(idle >= ended + time, "{:?} after the last request", idle.saturating_duration_since(ended));
    }
}
