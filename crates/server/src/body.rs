//! The body of an answer: whole, a stream of events, gRPC's own, or pieces from elsewhere.

use crate::sse::EventStream;
use crate::stage::{Broken, Pieces};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body::{Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};

/// What all answers are made of.
#[derive(Debug)]
pub(crate) enum Body {
    Whole(Option<Bytes>),
    Events(Box<EventStream>),
    Grpc(tonic::body::Body),
    /// What a stage plays; an error breaks the answer off where it is.
    Pieces(Piecewise),
}

/// An answer that comes in pieces.
pub(crate) struct Piecewise {
    pieces: Pieces,
    broken: bool,
}

impl std::fmt::Debug for Piecewise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Piecewise").field("broken", &self.broken).finish_non_exhaustive()
    }
}

impl Piecewise {
    pub(crate) fn new(pieces: Pieces) -> Self {
        Self { pieces, broken: false }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.broken {
            return Poll::Ready(Some(Err(BodyError::aborted("broken off"))));
        }
        match self.pieces.as_mut().poll_next(cx) {
            Poll::Ready(Some(Ok(bytes))) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            Poll::Ready(Some(Err(Broken))) => {
                // What came before it has to leave first, and leaves only when there is nothing to write.
                self.broken = true;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// Why a body broke off. Only gRPC bodies and those of a stage can.
pub(crate) type BodyError = tonic::Status;

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            Self::Events(stream) => stream.poll_bytes(cx).map(|bytes| bytes.map(|b| Ok(Frame::data(b)))),
            Self::Grpc(body) => Pin::new(body).poll_frame(cx),
            Self::Pieces(pieces) => pieces.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Events(stream) => stream.is_done(),
            Self::Grpc(body) => body.is_end_stream(),
            Self::Pieces(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            Self::Events(_) | Self::Pieces(_) => SizeHint::default(),
            Self::Grpc(body) => body.size_hint(),
        }
    }
}

/// An answer with a body of a given type.
pub(crate) fn answer(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let bytes: Bytes = body.into();
    let mut response = Response::new(Body::Whole(Some(bytes).filter(|b| !b.is_empty())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Event streams.
pub(crate) const EVENT_STREAM: &str = "text/event-stream";

/// JSON, as JSON-RPC and operators get it.
pub(crate) const JSON: &str = "application/json";
/// JSON, as HTTP+JSON has it since 1.0.1.
pub(crate) const A2A_JSON: &str = "application/a2a+json";
/// Plain text.
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
