//! Event streams: numbered frames, comments while nothing happens, everything that is ready in one write.

use crate::body::Body;
use crate::metrics::Gauged;
use bytes::Bytes;
use http::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use sabir_engine::Watch;
use sabir_engine::watch::Item;
use sabir_proto::Fault;
use sabir_wire::{jsonrpc, sse, v1};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Sleep;

/// Frames are gathered up to this size before they are handed on.
const WRITE_BYTES: usize = 32 << 10;

/// How a binding wraps the events of a stream.
#[derive(Debug)]
pub(crate) enum Framing {
    /// Each event is the result of the request with this id.
    JsonRpc(jsonrpc::Id),
    /// Each event stands for itself.
    Bare,
}

/// A task's events on their way to a client.
#[derive(Debug)]
pub(crate) struct EventStream {
    watch: Watch,
    framing: Framing,
    open: Vec<u8>,
    quiet: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    done: bool,
    _open_streams: Gauged,
}

impl EventStream {
    pub(crate) fn new(watch: Watch, framing: Framing, quiet: Duration, open_streams: Gauged) -> Self {
        let mut open = Vec::new();
        if let Framing::JsonRpc(id) = &framing {
            jsonrpc::open_result(id, &mut open);
        }
        Self { watch, framing, open, quiet, timer: None, done: false, _open_streams: open_streams }
    }

    /// The answer that carries this stream.
    pub(crate) fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::Events(Box::new(self)));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        // nginx and others hold answers back unless told not to.
        headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
        response
    }

    pub(crate) const fn is_done(&self) -> bool {
        self.done
    }

    pub(crate) fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.done {
            return Poll::Ready(None);
        }
        let mut out = Vec::new();
        while out.len() < WRITE_BYTES {
            match self.watch.poll_next(cx) {
                Poll::Ready(Some(Ok(item))) => self.write(&item, &mut out),
                Poll::Ready(Some(Err(fault))) => {
                    self.write_fault(&fault, &mut out);
                    self.done = true;
                    break;
                }
                Poll::Ready(None) => {
                    self.done = true;
                    break;
                }
                Poll::Pending => break,
            }
        }
        if !out.is_empty() {
            self.timer = None;
            return Poll::Ready(Some(out.into()));
        }
        if self.done {
            return Poll::Ready(None);
        }
        let quiet = self.quiet;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(quiet)));
        if timer.as_mut().poll(cx).is_ready() {
            // The next poll sets a new one.
            self.timer = None;
            return Poll::Ready(Some(Bytes::from_static(sse::KEEP_ALIVE)));
        }
        Poll::Pending
    }

    fn close(&self) -> &'static [u8] {
        match self.framing {
            Framing::JsonRpc(_) => b"}",
            Framing::Bare => b"",
        }
    }

    fn write(&self, item: &Item, out: &mut Vec<u8>) {
        match item {
            Item::Event(event) => {
                sse::frame(Some(event.seq), &self.open, &v1::json::event_bytes(event), self.close(), out);
            }
            Item::Reply(message) => {
                let mut payload = Vec::new();
                v1::json::write_message(message, &mut payload);
                sse::frame(None, &self.open, &payload, self.close(), out);
            }
        }
    }

    fn write_fault(&self, fault: &Fault, out: &mut Vec<u8>) {
        let mut payload = Vec::new();
        match &self.framing {
            Framing::JsonRpc(id) => jsonrpc::write_error(id, fault, &mut payload),
            Framing::Bare => {
                // The status has left already; what tells an error from an event here is its name. The Python SDK
                // needs it.
                v1::http::write_error(fault, &mut payload);
                out.extend_from_slice(b"event: error\n");
            }
        }
        sse::frame(None, b"", &payload, b"", out);
    }
}
