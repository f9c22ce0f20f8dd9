//! How clients reach the process that happens to be alive.
//!
//! A call runs inside the process: when that dies, the call dies with it and the client is left without an answer. The
//! other way round, a client that leaves takes its call with it, as a server does when the connection is closed.

use super::executor::{Executor, Group, Job};
use sabir_engine::watch::Item;
use sabir_engine::{BoxFuture, Engine, Watch};
use sabir_proto::Fault;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// The address at which a process may be listening. Clones are the same address.
#[derive(Clone)]
pub(super) struct Door {
    executor: Executor,
    process: Arc<Mutex<Option<(Engine, Group)>>>,
}

/// No answer, for whatever reason: nobody listens, the process died, or the client did not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lost;

/// What becomes of a call on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Luck {
    /// The answer arrives.
    Good,
    /// The answer is given and gets lost.
    Deaf,
    /// The client leaves after so long, and the server notices.
    Leaves(Duration),
    /// The client leaves after so long, and the server goes on as if nothing had happened.
    Forgets(Duration),
}

/// What a stream brings.
#[derive(Debug)]
pub(super) enum Frame {
    /// It was accepted.
    Open,
    /// Something to see.
    Item(Item),
    /// It was refused, or broke off with a reason.
    Refused(Fault),
    /// It came to its end.
    End,
}

/// A stream, as a client holds it. Dropping it hangs up.
pub(super) struct Stream {
    frames: mpsc::Receiver<Frame>,
    executor: Executor,
    job: Job,
}

impl Door {
    pub(super) fn new(executor: Executor) -> Self {
        Self { executor, process: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Engine, Group)>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process begins to listen.
    pub(super) fn open(&self, engine: Engine, group: Group) {
        *self.lock() = Some((engine, group));
    }

    /// Nobody listens any more.
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
        luck: Luck,
        work: impl FnOnce(Engine) -> BoxFuture<'static, T>,
    ) -> Result<T, Lost> {
        let Some((engine, group)) = self.lock().clone() else { return Err(Lost) };
        let (sender, answer) = oneshot::channel();
        let work = work(engine);
        // The client may have left; then nobody hears the answer.
        let job = self.executor.spawn(group, Box::pin(async move { drop(sender.send(work.await)) }));
        match luck {
            Luck::Good => answer.await.map_err(|_| Lost),
            Luck::Deaf => {
                drop(answer.await);
                Err(Lost)
            }
            Luck::Leaves(after) => {
                let outcome = first(answer, self.executor.sleep(after)).await;
                self.executor.abort(job);
                outcome.and_then(Result::ok).ok_or(Lost)
            }
            Luck::Forgets(after) => first(answer, self.executor.sleep(after)).await.and_then(Result::ok).ok_or(Lost),
        }
    }

    /// Opens a stream inside the process. It is read no faster than the client takes it.
    pub(super) fn stream(
        &self,
        work: impl FnOnce(Engine) -> BoxFuture<'static, Result<Watch, Fault>>,
    ) -> Result<Stream, Lost> {
        let Some((engine, group)) = self.lock().clone() else { return Err(Lost) };
        let (sender, frames) = mpsc::channel(1);
        let work = work(engine);
        let job = self.executor.spawn(
            group,
            Box::pin(async move {
                // A client that has hung up takes nothing; this job is dropped then anyway.
                drop(pump(work, &sender).await);
            }),
        );
        Ok(Stream { frames, executor: self.executor.clone(), job })
    }
}

async fn pump(
    work: BoxFuture<'static, Result<Watch, Fault>>,
    client: &mpsc::Sender<Frame>,
) -> Result<(), mpsc::error::SendError<Frame>> {
    let mut watch = match work.await {
        Ok(watch) => watch,
        Err(fault) => return client.send(Frame::Refused(fault)).await,
    };
    client.send(Frame::Open).await?;
    while let Some(item) = watch.next().await {
        match item {
            Ok(item) => client.send(Frame::Item(item)).await?,
            Err(fault) => return client.send(Frame::Refused(fault)).await,
        }
    }
    client.send(Frame::End).await
}

impl Stream {
    /// The next frame; `Lost` when the process is gone.
    pub(super) async fn next(&mut self) -> Result<Frame, Lost> {
        self.frames.recv().await.ok_or(Lost)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.executor.abort(self.job);
    }
}

/// The first future's value if it comes in time.
pub(super) async fn first<T>(value: impl Future<Output = T>, limit: impl Future<Output = ()>) -> Option<T> {
    let (mut value, mut limit) = (pin!(value), pin!(limit));
    poll_fn(|cx| {
        if let Poll::Ready(value) = value.as_mut().poll(cx) {
            return Poll::Ready(Some(value));
        }
        limit.as_mut().poll(cx).map(|()| None)
    })
    .await
}

/// Both values, of futures that go on side by side.
pub(super) async fn both<A, B>(one: impl Future<Output = A>, other: impl Future<Output = B>) -> (A, B) {
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
