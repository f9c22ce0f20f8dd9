//! Counting what answers over gRPC hold before they are whole.
//!
//! tonic reads on only when it has no whole message left, so what it holds is the message that is still on its way: the
//! frames of gRPC say how long each one is.

use crate::Share;
use crate::door::Door;
use bytes::{Buf as _, Bytes};
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use tonic::transport::Channel;
use tower::Service;

/// A flag and the length of what follows.
const PREFIX_BYTES: usize = 5;

/// A connection whose answers are counted.
#[derive(Clone)]
pub(super) struct Counted {
    channel: Channel,
    door: Door,
}

impl Counted {
    pub(super) fn new(channel: Channel, door: &Door) -> Self {
        Self { channel, door: door.clone() }
    }
}

impl Service<Request<tonic::body::Body>> for Counted {
    type Response = Response<Counting>;
    type Error = tonic::transport::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::<Request<tonic::body::Body>>::poll_ready(&mut self.channel, cx)
    }

    fn call(&mut self, request: Request<tonic::body::Body>) -> Self::Future {
        let (answer, share) = (self.channel.call(request), self.door.share());
        Box::pin(async move { Ok(answer.await?.map(|body| Counting { body, pending: Pending::default(), share })) })
    }
}

/// There was no room for an answer beside the others.
#[derive(Debug, thiserror::Error)]
#[error("{}", crate::Error::Crowded)]
pub(super) struct Crowded;

/// The body of an answer.
pub(super) struct Counting {
    body: tonic::body::Body,
    pending: Pending,
    share: Share,
}

impl Body for Counting {
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
            if this.share.hold(this.pending.held) { Ok(frame) } else { Err(Crowded.into()) }
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The message that is on its way.
#[derive(Debug, Default)]
struct Pending {
    /// As much of its prefix as has come.
    prefix: [u8; PREFIX_BYTES],
    /// How much of it has come, prefix included.
    held: usize,
}

impl Pending {
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
            let mut pending = Pending::default();
            let mut ends = [0, 8, 13, 218, 232].iter().rev();
            pending.read(Bytes::copy_from_slice(&stream[..cut]));
            let begun = ends.find(|end| **end <= cut).unwrap();
            assert_eq!(pending.held, cut - begun, "cut at {cut}");
            pending.read(Bytes::copy_from_slice(&stream[cut..]));
            assert_eq!(pending.held, 0, "cut at {cut}");
        }
    }
}
