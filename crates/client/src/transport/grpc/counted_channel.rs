//! Counts the bytes of incomplete gRPC messages against the capacity.
//!
//! tonic reads more only when it has no complete message left, so it holds only the incomplete message. The gRPC frames
//! contain the length of each message.

use crate::CapacityShare;
use crate::http_client::HttpClient;
use bytes::{Buf as _, Bytes};
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use tonic::transport::Channel;
use tower::Service;

/// The length of a frame prefix: a flag byte and a 32-bit message length.
const PREFIX_BYTES: usize = 5;

/// A channel that counts the bytes of its answers.
#[derive(Clone)]
pub(super) struct CountedChannel {
    channel: Channel,
    http_client: HttpClient,
}

impl CountedChannel {
    pub(super) fn new(channel: Channel, http_client: &HttpClient) -> Self {
        Self { channel, http_client: http_client.clone() }
    }
}

impl Service<Request<tonic::body::Body>> for CountedChannel {
    type Response = Response<CountedBody>;
    type Error = tonic::transport::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::<Request<tonic::body::Body>>::poll_ready(&mut self.channel, cx)
    }

    fn call(&mut self, request: Request<tonic::body::Body>) -> Self::Future {
        let (answer, share) = (self.channel.call(request), self.http_client.share());
        Box::pin(async move {
            Ok(answer.await?.map(|body| CountedBody { body, pending: PartialMessage::default(), share }))
        })
    }
}

/// The capacity is used up by other answers.
#[derive(Debug, thiserror::Error)]
#[error("{}", crate::Error::CapacityExceeded)]
pub(super) struct CapacityExceeded;

/// The body of an answer, with its bytes counted.
pub(super) struct CountedBody {
    body: tonic::body::Body,
    pending: PartialMessage,
    share: CapacityShare,
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = tonic::codegen::StdError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        let frame = std::task::ready!(Pin::new(&mut this.body).poll_frame(cx));
        Poll::Ready(frame.map(|frame| {
            let frame = frame?;
            if let Some(data) = frame.data_ref() {
                this.pending.read(data.clone());
            }
            if this.share.hold(this.pending.held) { Ok(frame) } else { Err(CapacityExceeded.into()) }
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The message that is incomplete.
#[derive(Debug, Default)]
struct PartialMessage {
    /// The received bytes of the prefix.
    prefix: [u8; PREFIX_BYTES],
    /// The number of received bytes, including the prefix.
    held: usize,
}

impl PartialMessage {
    fn read(&mut self, mut data: Bytes) {
        while data.has_remaining() {
            if self.held < PREFIX_BYTES {
                self.prefix[self.held] = data.get_u8();
                self.held += 1;
                if self.held < PREFIX_BYTES {
                    continue;
                }
            }
            let [_, length @ ..] = self.prefix;
            let whole = PREFIX_BYTES.saturating_add(u32::from_be_bytes(length) as usize);
            let more = (whole - self.held).min(data.remaining());
            data.advance(more);
            self.held += more;
            if self.held == whole {
                self.held = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_messages_count_for_nothing_wherever_they_are_cut() {
        let message = |length: u8| [&[0, 0, 0, 0, length][..], &vec![7; length.into()]].concat();
        let stream = [message(3), message(0), message(200), message(9)].concat();
        for cut in 1..stream.len() {
            let mut pending = PartialMessage::default();
            let mut ends = [0, 8, 13, 218, 232].iter().rev();
            pending.read(Bytes::copy_from_slice(&stream[..cut]));
            let begun = ends.find(|end| **end <= cut).unwrap();
            assert_eq!(pending.held, cut - begun, "cut at {cut}");
            pending.read(Bytes::copy_from_slice(&stream[cut..]));
            assert_eq!(pending.held, 0, "cut at {cut}");
        }
    }
}
