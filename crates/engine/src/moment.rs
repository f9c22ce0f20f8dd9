//! Inline turns: a short first turn that the sender's request polls itself, so that its task is stored together with
//! its end.
//!
//! A turn that takes longer, reports something, or has lost its sender goes to a runner like any other task: a caller
//! that disconnects never cancels an agent.

use crate::agent::Ending;
use crate::begin::{Begun, Incoming, Opened, Unopened};
use crate::host::BoxFuture;
use crate::retry::Pending;
use sabir_proto::Fault;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// How long a sender waits for the end of a brief turn before the task is stored. Longer than a local agent takes, and
/// short enough that a caller that loses the answer loses little.
const MOMENT: Duration = Duration::from_millis(100);

/// The first turn of a task that is not stored yet, polled by the sender's request.
pub(crate) struct Moment<'i, 'a> {
    incoming: &'i mut Incoming<'a>,
    unopened: Option<Unopened>,
    /// The retry key of the send; a runner takes it over once there is one.
    pending: &'i mut Option<Pending<'a>>,
    over: BoxFuture<'static, ()>,
}

impl<'i, 'a> Moment<'i, 'a> {
    pub(crate) fn of(incoming: &'i mut Incoming<'a>, unopened: Unopened, pending: &'i mut Option<Pending<'a>>) -> Self {
        let over = incoming.core.host.sleep(MOMENT);
        Self { incoming, unopened: Some(unopened), pending, over }
    }

    fn poll_ending(&mut self, cx: &mut Context<'_>) -> Poll<Option<Ending>> {
        let Some(Unopened { turn, .. }) = &mut self.unopened else { return Poll::Ready(None) };
        if let Poll::Ready(ending) = turn.poll(cx) {
            return Poll::Ready(Some(ending));
        }
        if turn.outlet.is_due() {
            return Poll::Ready(None);
        }
        self.over.as_mut().poll(cx).map(|()| None)
    }
}

impl Future for Moment<'_, '_> {
    type Output = Result<Opened, Fault>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.poll_ending(cx).map(|ending| {
            let unopened = this.unopened.take().expect("a moment is polled to its end only once");
            this.incoming.settle(unopened, ending)
        })
    }
}

impl Drop for Moment<'_, '_> {
    fn drop(&mut self) {
        let Some(unopened) = self.unopened.take() else { return };
        if let Ok(Opened::Begun(Begun::Running { .. })) = self.incoming.settle(unopened, None)
            && let Some(pending) = self.pending.take()
        {
            pending.hand_on();
        }
    }
}
