//! Response bodies: whole, an event stream, gRPC, or chunks of a local server.
//!
//! A response is a copy of stored data, and stays in memory until the client has read it. So all responses that are
//! built and not written yet share one budget ([`OutgoingBudget`]). A response that does not fit is refused, and the
//! client may ask again.

use crate::sse::EventStream;
use crate::stack::CROWDED_SECONDS;
use crate::stage::{Broken, Pieces};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use http_body::{Frame, SizeHint};
use sabir_gateway::{Capacity, Share};
use sabir_proto::Fault;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The body of every response.
#[derive(Debug)]
pub(crate) enum Body {
    Whole(Option<Bytes>),
    /// Like `Whole`, counted in the budget until it is written.
    Counted(Option<Bytes>),
    Events(Box<EventStream>),
    Grpc(tonic::body::Body),
    /// A gRPC body of agents, counted in the budget.
    CountedGrpc(GrpcAnswer),
    /// The chunks of a local server; an error breaks the response off.
    Pieces(Piecewise),
}

/// A body that arrives in chunks.
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
                // The chunks before the error must be written first, and that happens only when there is nothing new to
                // write.
                self.broken = true;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// Responses shorter than this are not counted, in bytes. The stream that carries one costs more, and streams have a
/// limit. A refusal must fit when nothing else does.
const COUNTED_BYTES_MIN: usize = 1 << 10;

/// The budget of all responses that are built and not written yet.
#[derive(Debug, Clone)]
pub(crate) struct OutgoingBudget(Capacity);

impl OutgoingBudget {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self(Capacity::new(bytes_max))
    }

    /// Counts a response until its last byte is written; `None` if it does not fit.
    pub(crate) fn hold<B>(&self, answer: B) -> Option<Bytes>
    where
        B: AsRef<[u8]> + Into<Bytes> + Send + 'static,
    {
        let length = answer.as_ref().len();
        if length < COUNTED_BYTES_MIN {
            return Some(answer.into());
        }
        let mut share = self.0.share();
        share.add(length).then(|| Bytes::from_owner(HeldAnswer { answer, _share: share }))
    }
}

/// A response and its share of the budget; HTTP implementations hold it until all of it is written.
struct HeldAnswer<B> {
    answer: B,
    _share: Share,
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for HeldAnswer<B> {
    fn as_ref(&self) -> &[u8] {
        self.answer.as_ref()
    }
}

/// The fault for a response that does not fit into the budget.
pub(crate) fn no_room() -> Fault {
    Fault::Unavailable(
        "too many answers are on their way out at present (outgoing_bytes_max); ask again. A message that was sent has \
         been taken: send it again with the same messageId, or get its task"
            .into(),
    )
}

/// The messages of a gRPC answer, each counted in the budget.
#[derive(Debug)]
pub(crate) struct GrpcAnswer {
    body: tonic::body::Body,
    budget: OutgoingBudget,
    is_over: bool,
}

impl GrpcAnswer {
    pub(crate) const fn new(body: tonic::body::Body, budget: OutgoingBudget) -> Self {
        Self { body, budget, is_over: false }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let polled = http_body::Body::poll_frame(Pin::new(&mut self.body), cx);
        let Poll::Ready(Some(Ok(frame))) = polled else { return polled };
        let data = match frame.into_data() {
            Ok(data) => data,
            Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
        };
        Poll::Ready(Some(match self.budget.hold(data) {
            Some(data) => Ok(Frame::data(data)),
            None => {
                self.is_over = true;
                refuse_in_trailers()
            }
        }))
    }
}

/// The end of a gRPC response whose next message does not fit.
fn refuse_in_trailers() -> Result<Frame<Bytes>, BodyError> {
    let mut status = sabir_wire::v1::grpc::status(&no_room());
    status.metadata_mut().insert("retry-after", CROWDED_SECONDS.into());
    let mut trailers = HeaderMap::new();
    status.add_header(&mut trailers)?;
    Ok(Frame::trailers(trailers))
}

/// Why a body broke off. Only gRPC bodies and those of a local server can.
pub(crate) type BodyError = tonic::Status;

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Self::Whole(bytes) | Self::Counted(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            Self::Events(stream) => stream.poll_bytes(cx).map(|bytes| bytes.map(|b| Ok(Frame::data(b)))),
            Self::Grpc(body) => Pin::new(body).poll_frame(cx),
            Self::CountedGrpc(answer) => answer.poll(cx),
            Self::Pieces(pieces) => pieces.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) | Self::Counted(bytes) => bytes.is_none(),
            Self::Events(stream) => stream.is_done(),
            Self::Grpc(body) => body.is_end_stream(),
            Self::CountedGrpc(answer) => answer.is_over || answer.body.is_end_stream(),
            Self::Pieces(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) | Self::Counted(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64))
            }
            Self::Events(_) | Self::Pieces(_) => SizeHint::default(),
            Self::Grpc(body) => body.size_hint(),
            Self::CountedGrpc(answer) => answer.body.size_hint(),
        }
    }
}

/// A response with a body of this type.
pub(crate) fn answer(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let bytes: Bytes = body.into();
    let mut response = Response::new(Body::Whole(Some(bytes).filter(|b| !b.is_empty())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// The media type of event streams.
pub(crate) const EVENT_STREAM: &str = "text/event-stream";

/// The media type of JSON for JSON-RPC and operators.
pub(crate) const JSON: &str = "application/json";
/// The media type of HTTP+JSON since 1.0.1.
pub(crate) const A2A_JSON: &str = "application/a2a+json";
/// The media type of plain text.
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";

/// A response whose bytes are counted already.
pub(crate) fn counted(status: StatusCode, content_type: &'static str, bytes: Bytes) -> Response<Body> {
    let mut response = answer(status, content_type, bytes);
    if let Body::Whole(bytes) = response.body_mut() {
        let bytes = bytes.take();
        *response.body_mut() = Body::Counted(bytes);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_until_the_last_of_it_is_gone() {
        let budget = OutgoingBudget::new(1 << 20);
        let hold = || budget.hold(vec![0; 600 << 10]);
        let mut first = hold().unwrap();
        assert!(hold().is_none(), "there is no room for two");
        let piece = first.split_to(10);
        drop(first);
        assert!(hold().is_none(), "a piece keeps all of it in memory");
        drop(piece);
        assert!(hold().is_some());
        // Small responses are counted too, from `COUNTED_BYTES_MIN` on.
        let all: Vec<Option<Bytes>> = (0..40).map(|_| budget.hold(vec![0; 60 << 10])).collect();
        assert!(all.last().unwrap().is_none());
        assert!(budget.hold(Bytes::from_static(b"a refusal")).is_some());
    }
}
