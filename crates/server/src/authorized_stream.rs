//! The events of a task for one reader, for as long as the reader's credential is valid.

use crate::tokio_host::TokioHost;
use sabir_engine::watch::WatchItem;
use sabir_engine::{Host as _, Watch};
use sabir_guard::{CredentialWatch, Guard, Identity};
use sabir_proto::Fault;
use sabir_wire::HandoffSupport;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::time::{Instant, Sleep};

/// A stream of events that ends when its reader's credential becomes invalid.
#[derive(Debug)]
pub(crate) struct AuthorizedStream {
    watch: Watch,
    /// Boxed, and `None` for readers whose credential cannot expire, because idle streams must be small.
    check: Option<Box<CredentialCheck>>,
    /// How tasks that were handed over appear to the reader.
    handoffs: HandoffSupport,
}

#[derive(Debug)]
struct CredentialCheck {
    watch: CredentialWatch,
    next: Pin<Box<Sleep>>,
}

impl AuthorizedStream {
    pub(crate) fn new(reader: &Identity, watch: Watch) -> Self {
        let asked = |vigil: CredentialWatch| {
            let next = Box::pin(tokio::time::sleep(vigil.time_to_next_check(TokioHost.now())));
            Box::new(CredentialCheck { watch: vigil, next })
        };
        Self { watch, check: reader.credential_watch().map(asked), handoffs: HandoffSupport::Unaware }
    }

    /// Sets whether the reader follows handoffs.
    pub(crate) fn with_handoffs(self, handoffs: HandoffSupport) -> Self {
        Self { handoffs, ..self }
    }

    /// Whether the last item was returned, as far as is known.
    pub(crate) fn is_finished(&self) -> bool {
        self.watch.is_over()
    }

    /// The next item; `None` at the end. A fault is the last item, also if the credential became invalid.
    pub(crate) fn poll_next(&mut self, guard: &Guard, cx: &mut Context<'_>) -> Poll<Option<Result<WatchItem, Fault>>> {
        let next = self.watch.poll_next(cx).map(|next| next.map(|item| item.map(|item| self.convert(item))));
        let Some(asked) = &mut self.check else { return next };
        match next {
            Poll::Ready(Some(Ok(item))) => {
                let holds = guard.check_credential(&asked.watch, TokioHost.now());
                Poll::Ready(Some(holds.map(|()| item).map_err(Fault::from)))
            }
            Poll::Ready(end) => Poll::Ready(end),
            Poll::Pending => asked.poll(guard, cx).map(|refused| Some(Err(refused))),
        }
    }
}

impl AuthorizedStream {
    fn convert(&self, item: WatchItem) -> WatchItem {
        match item {
            WatchItem::Event(event) => WatchItem::Event(self.handoffs.event(event)),
            reply @ WatchItem::Reply(_) => reply,
        }
    }
}

impl CredentialCheck {
    /// Ready when the credential is no longer valid.
    fn poll(&mut self, guard: &Guard, cx: &mut Context<'_>) -> Poll<Fault> {
        while self.next.as_mut().poll(cx).is_ready() {
            let now = TokioHost.now();
            if let Err(refusal) = guard.check_credential(&self.watch, now) {
                return Poll::Ready(refusal.into());
            }
            self.next.as_mut().reset(Instant::now() + self.watch.time_to_next_check(now));
        }
        Poll::Pending
    }
}
