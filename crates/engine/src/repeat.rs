//! Repeated sends: recognising them, and waiting for the result of the first copy.
//!
//! A send is remembered before its step is in the log; otherwise two copies that arrive together would both be the
//! first. So a repeat may be early, and waits. A send that fails must be forgotten, or its repeat would wait for
//! nothing.

use crate::engine::{Core, Engine};
use crate::incoming::{IncomingMessage, SendOutcome, server_stopping};
use crate::live::{LiveRef, is_at_rest};
use crate::retry::{PendingRetryKey, RetryKey, SendFate, SendStage};
use sabir_proto::{Fault, FrozenTask, Stamp, TaskId, Timestamp};
use sabir_store::{AppendError, Effect, RetryMark, Scope, Step, StoreFuture, StoredTask};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// The fault text for a repeat whose first copy is not committed yet.
pub const STILL_ACCEPTING: &str = "the same message is still being accepted; try again";

/// Whether a send with a key is a repeat.
pub(crate) enum RepeatCheck<'a> {
    Repeat(SendOutcome),
    First(PendingRetryKey<'a>),
}

impl Engine {
    /// Waits until a task rests that was at work in `stored`. If its owner has gone meanwhile, the log has the result.
    pub(crate) async fn wait_for_rest(
        &self,
        mut live: LiveRef,
        scope: &Scope,
        stored: &StoredTask,
    ) -> Result<FrozenTask, Fault> {
        if let Some(rest) = live.wait_rested_or_released(stored.head).await? {
            return Ok(rest);
        }
        let stored = self.load_owned(scope, stored.id).await?;
        // Only a stop removes the owner of a task that does not rest. Returning the task now would look like an answer.
        if is_at_rest(stored.state) { self.fold(&stored) } else { Err(server_stopping()) }
    }

    /// Loads the task of a repeated send, which may not be in the log yet. In an existing task the message may not be
    /// in the log yet: an earlier answer would show the task without it.
    pub(crate) async fn load_repeated(
        &self,
        scope: &Scope,
        id: TaskId,
        heard: Option<RetryMark>,
    ) -> Result<StoredTask, Fault> {
        self.core.metrics.sends_repeated.inc();
        for _ in 0..100 {
            match heard.map_or(SendFate::Stored, |mark| self.core.retries.fate_of(mark, id)) {
                SendFate::Stored => match self.load_owned(scope, id).await {
                    Err(Fault::TaskNotFound(_)) if !self.core.is_old(id) => {}
                    outcome => return outcome,
                },
                SendFate::Pending => {}
                SendFate::Gone => {
                    return Err(Fault::Unavailable("the same message was refused a moment ago; try again".into()));
                }
            }
            self.core.host.sleep(Duration::from_millis(20)).await;
        }
        Err(Fault::Unavailable(STILL_ACCEPTING.into()))
    }
}

impl<'a> IncomingMessage<'a> {
    /// Finds the task of a stream that is resumed. A missing one is an error, never a second run.
    pub(crate) async fn find_repeated(&self, key: Option<RetryKey>) -> Result<SendOutcome, Fault> {
        let header = "Last-Event-ID";
        let Some(key) = key else {
            let problem = "a send can only be taken up again with an Idempotency-Key, or a UUID or ULID as messageId";
            return Err(Fault::invalid(header, problem));
        };
        let gone =
            || Fault::invalid(header, "the message it belongs to is not known here any more; get the task instead");
        let stamp = self.core.stamp();
        if key.explicit {
            let row = self.core.log.explicit_retry(key.mark.key, stamp).await;
            let row = row.map_err(|e| self.core.store_fault("looking up a retry key", &e))?;
            let id = row.filter(|kept| kept.mark.digest == key.mark.digest).map(|kept| kept.task);
            return id.map(|id| SendOutcome::Repeat { id, awaited_mark: None }).ok_or_else(gone);
        }
        let id = self.core.retries.find(key.mark, stamp).map(|known| known.task).ok_or_else(gone)?;
        Ok(SendOutcome::Repeat { id, awaited_mark: Some(key.mark) })
    }

    /// Recognises a repeat, or remembers this send as `id`'s.
    pub(crate) async fn check_repeat(
        &self,
        key: RetryKey,
        id: TaskId,
        stage: SendStage,
    ) -> Result<RepeatCheck<'a>, Fault> {
        let core = self.core;
        let (retries, at) = (&core.retries, core.stamp());
        let (known, digest) = match retries.insert_if_new(key.mark, id, at, stage) {
            Err(known) => (known.task, known.digest),
            Ok(pending) if key.explicit && !retries.is_complete_for(key.mark.key) => {
                let row = core.log.explicit_retry(key.mark.key, at).await;
                let row = row.map_err(|e| core.store_fault("looking up a retry key", &e))?;
                let Some(kept) = row else { return Ok(RepeatCheck::First(pending)) };
                // The log's entry replaces the one just assumed; otherwise the message that owns the key would be
                // refused from now on.
                retries.insert_stored(&kept, at);
                (kept.task, kept.mark.digest)
            }
            Ok(pending) => return Ok(RepeatCheck::First(pending)),
        };
        if digest == key.mark.digest {
            if self.is_pruned(known).await? {
                return Ok(RepeatCheck::First(retries.replace(key.mark, id, at, stage)));
            }
            retries.touch(key.mark, at);
            return Ok(RepeatCheck::Repeat(SendOutcome::Repeat { id: known, awaited_mark: Some(key.mark) }));
        }
        if key.explicit {
            return Err(Fault::RetryConflict);
        }
        // A message id with other content: the client did not mean a retry.
        Ok(RepeatCheck::First(retries.replace(key.mark, id, at, stage)))
    }
}

impl IncomingMessage<'_> {
    /// Whether the task of the same send is no longer in the log. A very recent one may still be on its way into it.
    async fn is_pruned(&self, task: TaskId) -> Result<bool, Fault> {
        if !self.core.is_old(task) {
            return Ok(false);
        }
        let owner = self.core.log.owner(task).await;
        Ok(owner.map_err(|e| self.core.store_fault("looking up a retry key", &e))?.is_none())
    }
}

impl Core {
    /// Whether a task is so old that it is in the log, or never will be.
    fn is_old(&self, task: TaskId) -> bool {
        let age = self.host.now().millis().saturating_sub(task.stamp().time().millis());
        u128::try_from(age).is_ok_and(|age| age > 2 * self.limits.store_patience.as_millis())
    }
}

/// An opening whose commit is awaited. If the caller disconnects, a background job takes the result: if the step is
/// refused, the send must be free to come again.
pub(crate) struct OpeningCommit<'a> {
    pub(crate) core: &'a Arc<Core>,
    pub(crate) answer: Option<StoreFuture<(), AppendError>>,
    pub(crate) pending: Option<PendingRetryKey<'a>>,
}

impl Future for OpeningCommit<'_> {
    type Output = Result<(), AppendError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = self.answer.as_mut().expect("an outcome is polled to its end only once");
        let outcome = ready!(Pin::new(answer).poll(cx));
        self.answer = None;
        if let (Ok(()), Some(pending)) = (&outcome, self.pending.take()) {
            pending.release();
        }
        Poll::Ready(outcome)
    }
}

impl Drop for OpeningCommit<'_> {
    fn drop(&mut self) {
        if let (Some(answer), Some(pending)) = (self.answer.take(), self.pending.take()) {
            let (core, (mark, task)) = (self.core.clone(), pending.release());
            let forget = async move {
                if answer.await.is_err() {
                    core.retries.forget(mark, task);
                }
            };
            self.core.host.spawn(Box::pin(forget));
        }
    }
}

/// Writes the retry key into a step: an implicit key is a column of the step, an explicit one a row of its own.
pub(crate) fn set_retry_key(step: &mut Step, key: Option<RetryKey>, at: Stamp, time: Duration) {
    let Some(RetryKey { mark, explicit }) = key else { return };
    if explicit {
        step.effects.push(Effect::Key { mark, at, until: later(at, time) });
    } else {
        let mark: RetryMark = mark;
        step.retry = Some(mark);
    }
}

fn later(at: Stamp, time: Duration) -> Stamp {
    let time = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    Stamp::first_of(Timestamp::from_millis(at.time().millis().saturating_add(time)))
}
