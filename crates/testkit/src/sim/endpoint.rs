//! The endpoint at which clients reach the process that is alive.
//!
//! A call runs inside the process: when the process dies, the call dies with it and the client gets no answer.
//! Conversely, a client that disconnects aborts its call, as a server does when the connection is closed.

use super::executor::{Executor, Job, JobGroup};
use sabir_engine::watch::WatchItem;
use sabir_engine::{BoxFuture, Engine, Watch};
use sabir_proto::Fault;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// The address at which a process may listen. Clones are the same address.
#[derive(Clone)]
pub(super) struct ProcessEndpoint {
    executor: Executor,
    process: Arc<Mutex<Option<(Engine, JobGroup)>>>,
}

/// No answer: no process listens, the process died, or the client did not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoAnswer;

/// The fault that a call meets on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallOutcome {
    /// The client gets the answer.
    Good,
    /// The answer is sent and gets lost.
    Deaf,
    /// The client disconnects after this time, and the server aborts the call.
    Leaves(Duration),
    /// The client stops waiting after this time, and the server does not notice.
    Forgets(Duration),
}

/// A frame of a stream.
#[derive(Debug)]
pub(super) enum StreamFrame {
    /// The server accepted the request.
    Open,
    /// An item of the stream.
    Item(WatchItem),
    /// The stream was refused, or ended with a fault.
    Refused(Fault),
    /// The stream ended normally.
    End,
}

/// The client's end of a stream. Dropping it disconnects.
pub(super) struct ClientStream {
    frames: mpsc::Receiver<StreamFrame>,
    executor: Executor,
    job: Job,
}

impl ProcessEndpoint {
    pub(super) fn new(executor: Executor) -> Self {
        Self { executor, process: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Engine, JobGroup)>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process begins to listen.
    pub(super) fn open(&self, engine: Engine, group: JobGroup) {
        *self.lock() = Some((engine, group));
    }

    /// The process stops listening.
    pub(super) fn close(&self) {
        let process = self.lock().take();
        drop(process);
    }

    pub(super) fn engine(&self) -> Option<Engine> {
        self.lock().as_ref().map(|(engine, _)| engine.clone())
    }

    /// Runs a call inside the process.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        luck: CallOutcome,
        work: impl FnOnce(Engine) -> BoxFuture<'static, T>,
    ) -> Result<T, NoAnswer> {
        let Some((engine, group)) = self.lock().clone() else { return Err(NoAnswer) };
        let (sender, answer) = oneshot::channel();
        let work = work(engine);
        // The client may have disconnected; then the answer is dropped.
        let job = self.executor.spawn(group, Box::pin(async move { drop(sender.send(work.await)) }));
        match luck {
            CallOutcome::Good => answer.await.map_err(|_| NoAnswer),
            CallOutcome::Deaf => {
                drop(answer.await);
                Err(NoAnswer)
            }
            CallOutcome::Leaves(after) => {
                let outcome = within(answer, self.executor.sleep(after)).await;
                self.executor.abort(job);
                outcome.and_then(Result::ok).ok_or(NoAnswer)
            }
            CallOutcome::Forgets(after) => {
                within(answer, self.executor.sleep(after)).await.and_then(Result::ok).ok_or(NoAnswer)
            }
        }
    }

    /// Opens a stream inside the process. It is read no faster than the client takes it.
    pub(super) fn stream(
        &self,
        work: impl FnOnce(Engine) -> BoxFuture<'static, Result<Watch, Fault>>,
    ) -> Result<ClientStream, NoAnswer> {
        let Some((engine, group)) = self.lock().clone() else { return Err(NoAnswer) };
        let (sender, frames) = mpsc::channel(1);
        let work = work(engine);
        let job = self.executor.spawn(
            group,
            Box::pin(async move {
                // After a disconnect this job is dropped anyway.
                drop(forward_events(work, &sender).await);
            }),
        );
        Ok(ClientStream { frames, executor: self.executor.clone(), job })
    }
}

async fn forward_events(
    work: BoxFuture<'static, Result<Watch, Fault>>,
    client: &mpsc::Sender<StreamFrame>,
) -> Result<(), mpsc::error::SendError<StreamFrame>> {
    let mut watch = match work.await {
        Ok(watch) => watch,
        Err(fault) => return client.send(StreamFrame::Refused(fault)).await,
    };
    client.send(StreamFrame::Open).await?;
    while let Some(item) = watch.next().await {
        match item {
            Ok(item) => client.send(StreamFrame::Item(item)).await?,
            Err(fault) => return client.send(StreamFrame::Refused(fault)).await,
        }
    }
    client.send(StreamFrame::End).await
}

impl ClientStream {
    /// The next frame; `NoAnswer` when the process is gone.
    pub(super) async fn next(&mut self) -> Result<StreamFrame, NoAnswer> {
        self.frames.recv().await.ok_or(NoAnswer)
    }
}

impl Drop for ClientStream {
    fn drop(&mut self) {
        self.executor.abort(self.job);
    }
}

/// Awaits a value until a limit completes.
pub(super) async fn within<T>(value: impl Future<Output = T>, limit: impl Future<Output = ()>) -> Option<T> {
    let (mut value, mut limit) = (pin!(value), pin!(limit));
    poll_fn(|cx| {
        if let Poll::Ready(value) = value.as_mut().poll(cx) {
            return Poll::Ready(Some(value));
        }
        limit.as_mut().poll(cx).map(|()| None)
    })
    .await
}

/// Awaits two futures concurrently.
pub(super) async fn join_both<A, B>(one: impl Future<Output = A>, other: impl Future<Output = B>) -> (A, B) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut a, mut b) = (None, None);
    poll_fn(|cx| {
        if a.is_none()
            && let Poll::Ready(value) = one.as_mut().poll(cx)
        {
            a = Some(value);
        }
        if b.is_none()
            && let Poll::Ready(value) = other.as_mut().poll(cx)
        {
            b = Some(value);
        }
        match (a.take(), b.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (still, waiting) => {
                (a, b) = (still, waiting);
                Poll::Pending
            }
        }
    })
    .await
}
