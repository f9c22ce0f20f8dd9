//! The events of a task for one reader, for as long as the reader's credential is valid.

use crate::host::TokioHost;
use sabir_engine::watch::Item;
use sabir_engine::{Host as _, Watch};
use sabir_guard::{Guard, Identity, Vigil};
use sabir_proto::Fault;
use sabir_wire::Handoffs;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::time::{Instant, Sleep};

/// A stream of events that ends when its reader's credential becomes invalid.
#[derive(Debug)]
pub(crate) struct Watched {
    watch: Watch,
    /// Boxed, and `None` for readers whose credential cannot expire, because idle streams must be small.
    vigil: Option<Box<Asked>>,
    /// How tasks that were handed over appear to the reader.
    handoffs: Handoffs,
}

#[derive(Debug)]
struct Asked {
    vigil: Vigil,
    next: Pin<Box<Sleep>>,
}

impl Watched {
    pub(crate) fn by(reader: &Identity, watch: Watch) -> Self {
        let asked = |vigil: Vigil| {
            let next = Box::pin(tokio::time::sleep(vigil.rest(TokioHost.now())));
            Box::new(Asked { vigil, next })
        };
        Self { watch, vigil: reader.vigil().map(asked), handoffs: Handoffs::Unaware }
    }

    /// Sets whether the reader follows handoffs.
    pub(crate) fn showing(self, handoffs: Handoffs) -> Self {
        Self { handoffs, ..self }
    }

    /// Whether the last item was returned, as far as is known.
    pub(crate) fn is_over(&self) -> bool {
        self.watch.is_over()
    }

    /// The next item; `None` at the end. A fault is the last item, also if the credential became invalid.
    pub(crate) fn poll_next(&mut self, guard: &Guard, cx: &mut Context<'_>) -> Poll<Option<Result<Item, Fault>>> {
        let next = self.watch.poll_next(cx).map(|next| next.map(|item| item.map(|item| self.shown(item))));
        let Some(asked) = &mut self.vigil else { return next };
        match next {
            Poll::Ready(Some(Ok(item))) => {
                let holds = guard.still_holds(&asked.vigil, TokioHost.now());
                Poll::Ready(Some(holds.map(|()| item).map_err(Fault::from)))
            }
            Poll::Ready(end) => Poll::Ready(end),
            Poll::Pending => asked.poll(guard, cx).map(|refused| Some(Err(refused))),
        }
    }
}

impl Watched {
    fn shown(&self, item: Item) -> Item {
        match item {
            Item::Event(event) => Item::Event(self.handoffs.event(event)),
            reply @ Item::Reply(_) => reply,
        }
    }
}

impl Asked {
    /// Ready when the credential is no longer valid.
    fn poll(&mut self, guard: &Guard, cx: &mut Context<'_>) -> Poll<Fault> {
        while self.next.as_mut().poll(cx).is_ready() {
            let now = TokioHost.now();
            if let Err(refusal) = guard.still_holds(&self.vigil, now) {
                return Poll::Ready(refusal.into());
            }
            self.next.as_mut().reset(Instant::now() + self.vigil.rest(now));
        }
        Poll::Pending
    }
}
