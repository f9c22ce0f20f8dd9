//! Event streams: numbered frames, comments while there is no event, and one write for all events that are ready.

use crate::app::App;
use crate::authorized_stream::AuthorizedStream;
use crate::body::{Body, ClientBudget, EVENT_STREAM, EventBytes, over_budget};
use crate::losses::LossReport;
use crate::metrics::GaugeGuard;
use crate::peer::Peer;
use bytes::Bytes;
use http::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use sabir_engine::watch::WatchItem;
use sabir_wire::{StreamEncoder, sse};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::Sleep;

/// The size up to which frames are collected before they are written.
const WRITE_BYTES: usize = 32 << 10;

/// The events of a task as an SSE body.
#[derive(Debug)]
pub(crate) struct EventStream {
    watch: AuthorizedStream,
    encoder: StreamEncoder,
    loss_report: LossReport,
    app: Arc<App>,
    outgoing: ClientBudget,
    timer: Option<Pin<Box<Sleep>>>,
    done: bool,
    _open_streams: GaugeGuard,
}

impl EventStream {
    pub(crate) fn new(
        watch: AuthorizedStream,
        encoder: StreamEncoder,
        loss_report: LossReport,
        app: &Arc<App>,
        peer: &Peer,
    ) -> Self {
        let outgoing = app.outgoing_to(peer);
        let open_streams = app.metrics.stream();
        Self {
            watch,
            encoder,
            loss_report,
            app: app.clone(),
            outgoing,
            timer: None,
            done: false,
            _open_streams: open_streams,
        }
    }

    /// The response with this stream as its body.
    pub(crate) fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::Events(Box::new(self)));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-store"));
        // nginx and others buffer responses without this header.
        headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
        response
    }

    /// Counts events until they are written. A stream whose events do not fit into the budget ends, and can be resumed.
    fn reserve(&mut self, events: Vec<u8>) -> Bytes {
        self.outgoing.reserve(events).unwrap_or_else(|| {
            self.app.metrics.shed();
            self.done = true;
            let mut end = Vec::new();
            self.encoder.encode_fault(&over_budget(), &mut end);
            end.into()
        })
    }

    fn write(&mut self, item: &WatchItem, out: &mut Vec<u8>) {
        match item {
            WatchItem::Event(event) => {
                let last = self.watch.is_finished();
                self.encoder.encode(event, last, self.loss_report.losses(), out);
                self.loss_report.about_event(event);
            }
            WatchItem::Reply(message) => self.encoder.encode_direct_reply(message, self.loss_report.losses(), out),
        }
        self.loss_report.report(&self.app);
    }
}

impl EventBytes for EventStream {
    fn is_done(&self) -> bool {
        self.done
    }

    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.done {
            return Poll::Ready(None);
        }
        let mut out = Vec::new();
        while out.len() < WRITE_BYTES {
            match self.watch.poll_next(&self.app.guard, cx) {
                Poll::Ready(Some(Ok(item))) => self.write(&item, &mut out),
                Poll::Ready(Some(Err(fault))) => {
                    self.encoder.encode_fault(&fault, &mut out);
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
            return Poll::Ready(Some(self.reserve(out)));
        }
        if self.done {
            return Poll::Ready(None);
        }
        let quiet = self.app.keep_alive;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(quiet)));
        if timer.as_mut().poll(cx).is_ready() {
            // The next poll sets a new timer.
            self.timer = None;
            return Poll::Ready(Some(Bytes::from_static(sse::KEEP_ALIVE)));
        }
        Poll::Pending
    }
}
