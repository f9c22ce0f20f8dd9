//! Response bodies: whole, an event stream, gRPC, or chunks of a local server.
//!
//! A response is a copy of stored data, and stays in memory until the client has read it. So all responses that are
//! built and not written yet share one budget ([`OutgoingBudget`]). A response that does not fit is refused, and the
//! client may ask again.
//! The answers to one address may use half of it: a client that asks for much and reads nothing leaves room for all others.

use bytes::Bytes;
use futures_util::Stream;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use http_body::{Frame, SizeHint};
use sabir_gateway::{Capacity, CapacityShare};
use sabir_guard::address_prefix;
use sabir_proto::Fault;
use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

/// After how many seconds a retry is worthwhile if a budget was full.
pub(crate) const RETRY_AFTER_SECONDS: u64 = 1;

/// The bytes of an event stream.
pub(crate) trait EventBytes: std::fmt::Debug + Send {
    /// Whether the last byte was returned.
    fn is_done(&self) -> bool;

    /// The next bytes; `None` after the last ones.
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>>;
}

/// The body of a local server breaks off here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyBroken;

/// A body of a local server that arrives in chunks.
pub type ChunkStream = Pin<Box<dyn Stream<Item = Result<Bytes, BodyBroken>> + Send>>;

/// The body of every response.
#[derive(Debug)]
pub(crate) enum Body {
    Whole(Option<Bytes>),
    /// Like `Whole`, counted in the budget until it is written.
    Counted(Option<Bytes>),
    Events(Box<dyn EventBytes>),
    Grpc(tonic::body::Body),
    /// A gRPC body of agents, counted in the budget.
    CountedGrpc(GrpcAnswer),
    /// The chunks of a local server; an error breaks the response off.
    Chunks(ChunkedBody),
}

/// A body that arrives in chunks.
pub(crate) struct ChunkedBody {
    chunks: ChunkStream,
    broken: bool,
}

impl std::fmt::Debug for ChunkedBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Piecewise").field("broken", &self.broken).finish_non_exhaustive()
    }
}

impl ChunkedBody {
    pub(crate) fn new(chunks: ChunkStream) -> Self {
        Self { chunks, broken: false }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.broken {
            return Poll::Ready(Some(Err(BodyError::aborted("broken off"))));
        }
        match self.chunks.as_mut().poll_next(cx) {
            Poll::Ready(Some(Ok(bytes))) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            Poll::Ready(Some(Err(BodyBroken))) => {
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

/// The answers to one address may use one part in this many of the budget.
const ADDRESS_PART: usize = 2;

/// The budget of all responses that are built and not written yet.
#[derive(Debug, Clone)]
pub(crate) struct OutgoingBudget(Arc<OutgoingBytes>);

#[derive(Debug)]
struct OutgoingBytes {
    all: Capacity,
    address_bytes_max: usize,
    /// The addresses that have counted answers on their way; an address leaves with the last of them.
    by_address: Mutex<HashMap<IpAddr, AddressPart>>,
}

/// The part of the budget that the answers to one address use.
#[derive(Debug)]
struct AddressPart {
    capacity: Capacity,
    answers: usize,
}

impl OutgoingBudget {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self(Arc::new(OutgoingBytes {
            all: Capacity::new(bytes_max),
            address_bytes_max: Self::for_address(bytes_max),
            by_address: Mutex::default(),
        }))
    }

    /// The bytes that all answers to one address may have.
    const fn for_address(bytes_max: usize) -> usize {
        bytes_max / ADDRESS_PART
    }

    /// The bytes that one answer may have when no other is on its way.
    pub(crate) const fn for_one_answer(bytes_max: usize) -> usize {
        Capacity::for_large(Self::for_address(bytes_max))
    }

    /// The budget as a client at an address has it. `None` stands for a proxy, which may use all of it: its answers go to many
    /// clients.
    pub(crate) fn of_client(&self, address: Option<IpAddr>) -> ClientBudget {
        ClientBudget { budget: self.clone(), address: address.map(address_prefix) }
    }
}

/// The budget as the answers to one client share in it. Cheap to make: nothing is looked up before an answer is counted.
#[derive(Debug, Clone)]
pub(crate) struct ClientBudget {
    budget: OutgoingBudget,
    address: Option<IpAddr>,
}

impl ClientBudget {
    /// Counts a response until its last byte is written; `None` if it does not fit.
    pub(crate) fn reserve<B>(&self, answer: B) -> Option<Bytes>
    where
        B: AsRef<[u8]> + Into<Bytes> + Send + 'static,
    {
        let length = answer.as_ref().len();
        if length < COUNTED_BYTES_MIN {
            return Some(answer.into());
        }
        let entry = self.address.map(|address| AddressEntry::enter(&self.budget.0, address));
        let mut share = entry.as_ref().map_or_else(|| self.budget.0.all.share(), |entry| entry.capacity.share());
        share.add(length).then(|| Bytes::from_owner(CountedAnswer { answer, _share: share, _entry: entry }))
    }
}

/// One counted answer among those of its address; taken back when dropped.
struct AddressEntry {
    bytes: Arc<OutgoingBytes>,
    address: IpAddr,
    capacity: Capacity,
}

impl AddressEntry {
    fn enter(bytes: &Arc<OutgoingBytes>, address: IpAddr) -> Self {
        let mut by_address = bytes.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        let part = by_address
            .entry(address)
            .or_insert_with(|| AddressPart { capacity: bytes.all.part_of(bytes.address_bytes_max), answers: 0 });
        part.answers += 1;
        Self { bytes: bytes.clone(), address, capacity: part.capacity.clone() }
    }
}

impl Drop for AddressEntry {
    fn drop(&mut self) {
        let mut by_address = self.bytes.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(part) = by_address.get_mut(&self.address) {
            part.answers -= 1;
            if part.answers == 0 {
                by_address.remove(&self.address);
            }
        }
    }
}

/// A response and its share of the budget; HTTP implementations hold it until all of it is written.
struct CountedAnswer<B> {
    answer: B,
    // In this order: the bytes are given back before the address may be forgotten.
    _share: CapacityShare,
    _entry: Option<AddressEntry>,
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for CountedAnswer<B> {
    fn as_ref(&self) -> &[u8] {
        self.answer.as_ref()
    }
}

/// The fault for a response that does not fit into the budget.
pub(crate) fn over_budget() -> Fault {
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
    budget: ClientBudget,
    is_over: bool,
}

impl GrpcAnswer {
    pub(crate) const fn new(body: tonic::body::Body, budget: ClientBudget) -> Self {
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
        Poll::Ready(Some(match self.budget.reserve(data) {
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
    let mut status = sabir_wire::v1::grpc::status(&over_budget());
    status.metadata_mut().insert("retry-after", RETRY_AFTER_SECONDS.into());
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
            Self::Chunks(pieces) => pieces.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) | Self::Counted(bytes) => bytes.is_none(),
            Self::Events(stream) => stream.is_done(),
            Self::Grpc(body) => body.is_end_stream(),
            Self::CountedGrpc(answer) => answer.is_over || answer.body.is_end_stream(),
            Self::Chunks(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) | Self::Counted(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64))
            }
            Self::Events(_) | Self::Chunks(_) => SizeHint::default(),
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
        let budget = OutgoingBudget::new(1 << 20).of_client(None);
        let hold = || budget.reserve(vec![0; 600 << 10]);
        let mut first = hold().unwrap();
        assert!(hold().is_none(), "there is no room for two");
        let piece = first.split_to(10);
        drop(first);
        assert!(hold().is_none(), "a piece keeps all of it in memory");
        drop(piece);
        assert!(hold().is_some());
        // Small responses are counted too, from `COUNTED_BYTES_MIN` on.
        let all: Vec<Option<Bytes>> = (0..40).map(|_| budget.reserve(vec![0; 60 << 10])).collect();
        assert!(all.last().unwrap().is_none());
        assert!(budget.reserve(Bytes::from_static(b"a refusal")).is_some());
    }

    #[test]
    fn one_address_uses_half_and_leaves_nothing_behind() {
        let budget = OutgoingBudget::new(1 << 20);
        let client = |text: &str| budget.of_client(Some(text.parse().unwrap()));
        let (greedy, neighbour, other) = (client("2001:db8::1"), client("2001:db8::2"), client("192.0.2.1"));
        let hold = |client: &ClientBudget| client.reserve(vec![0; 200 << 10]);
        let held: Vec<Bytes> = (0..10).map_while(|_| hold(&greedy)).collect();
        assert_eq!(held.len(), 2);
        assert!(hold(&neighbour).is_none(), "the same network");
        assert!(greedy.reserve(vec![0; 10 << 10]).is_some(), "small answers have a reserve in each part");
        let others: Vec<Bytes> = (0..10).map_while(|_| hold(&other)).collect();
        assert_eq!(others.len(), 2);
        drop((held, others));
        assert!(hold(&greedy).is_some());
        assert!(budget.0.by_address.lock().unwrap().is_empty());
    }
}
