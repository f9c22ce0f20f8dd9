//! Inline turns: a short first turn that the sender's request polls itself, so that its task is stored together with
//! its end.
//!
//! A turn that takes longer, reports something, or has lost its sender goes to a runner like any other task: a caller
//! that disconnects never cancels an agent.

use crate::agent::Ending;
use crate::host::BoxFuture;
use crate::incoming::{DraftTask, IncomingMessage, OpenOutcome, SendOutcome};
use crate::retry::PendingRetryKey;
use sabir_proto::Fault;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// How long a sender waits for the end of a brief turn before the task is stored. Longer than a local agent takes, and
/// short enough that a caller that loses the answer loses little.
const INLINE_TIME_MAX: Duration = Duration::from_millis(100);

/// The first turn of a task that is not stored yet, polled by the sender's request.
pub(crate) struct InlineTurn<'i, 'a> {
    incoming: &'i mut IncomingMessage<'a>,
    draft: Option<DraftTask>,
    /// The retry key of the send; a runner takes it over once there is one.
    pending: &'i mut Option<PendingRetryKey<'a>>,
    time_out: BoxFuture<'static, ()>,
}

impl<'i, 'a> InlineTurn<'i, 'a> {
    pub(crate) fn of(
        incoming: &'i mut IncomingMessage<'a>,
        unopened: DraftTask,
        pending: &'i mut Option<PendingRetryKey<'a>>,
    ) -> Self {
        let time_out = incoming.core.host.sleep(INLINE_TIME_MAX);
        Self { incoming, draft: Some(unopened), pending, time_out }
    }

    fn poll_ending(&mut self, cx: &mut Context<'_>) -> Poll<Option<Ending>> {
        let Some(DraftTask { turn, .. }) = &mut self.draft else { return Poll::Ready(None) };
        if let Poll::Ready(ending) = turn.poll(cx) {
            return Poll::Ready(Some(ending));
        }
        if turn.reports.is_due() {
            return Poll::Ready(None);
        }
        self.time_out.as_mut().poll(cx).map(|()| None)
    }
}

impl Future for InlineTurn<'_, '_> {
    type Output = Result<OpenOutcome, Fault>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.poll_ending(cx).map(|ending| {
            let unopened = this.draft.take().expect("a moment is polled to its end only once");
            this.incoming.commit_opening(unopened, ending)
        })
    }
}

impl Drop for InlineTurn<'_, '_> {
    fn drop(&mut self) {
        let Some(unopened) = self.draft.take() else { return };
        if let Ok(OpenOutcome::Begun(SendOutcome::AtWork { .. })) = self.incoming.commit_opening(unopened, None)
            && let Some(pending) = self.pending.take()
        {
            pending.release();
        }
    }
}
