//! Subscriptions: following a task from any point of its log.
//!
//! A watcher reads what is committed after its cursor, from the live ring if that reaches back far enough and from the
//! log if not, and then waits. Both sources number events the same way, so there is neither a gap nor a repeat; and a
//! slow watcher is never cut off, it just reads the log.
//!
//! Nothing here knows SSE, gRPC or dialects; callers receive numbered events and frame them as they like.

use crate::engine::Core;
use crate::live::{LiveRef, PolledEvents};
use sabir_proto::{Fault, FrozenEvent, Message, Seq, TaskId, TaskState};
use sabir_store::StoreFuture;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The states that end a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    /// When the task settles: subscriptions.
    Settled,
    /// When the task settles or asks a question: the answer of a streaming send. It stays open while the task waits
    /// for credentials, which arrive by another way (A2A 1.0 §7.6.1).
    Question,
    /// When the task settles or asks for anything: the stream of a parent that follows its child.
    Rest,
}

/// A stream of numbered events.
pub struct Watch {
    queue: VecDeque<FrozenEvent>,
    cursor: Seq,
    until: StreamEnd,
    source: WatchSource,
    reply: Option<Box<Message>>,
}

enum WatchSource {
    /// All events are in the queue already.
    Done,
    /// Follows a task, from its live entry or from the log.
    Task { core: Arc<Core>, id: TaskId, live: LiveRef, reading: Option<StoreFuture<Vec<FrozenEvent>>> },
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("cursor", &self.cursor).field("until", &self.until).finish_non_exhaustive()
    }
}

/// An item of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchItem {
    /// A numbered event of a task.
    Event(FrozenEvent),
    /// A direct reply: the stream's only item.
    Reply(Box<Message>),
}

impl Watch {
    /// A stream of these events.
    pub(crate) fn replay(events: Vec<FrozenEvent>) -> Self {
        Self { queue: events.into(), cursor: Seq(0), until: StreamEnd::Settled, source: WatchSource::Done, reply: None }
    }

    /// A stream of one direct reply.
    pub(crate) fn reply(message: Message) -> Self {
        let reply = Some(Box::new(message));
        Self { queue: VecDeque::new(), cursor: Seq(0), until: StreamEnd::Settled, source: WatchSource::Done, reply }
    }

    /// Follows a task from after the cursor.
    pub(crate) fn follow(core: Arc<Core>, id: TaskId, live: LiveRef, cursor: Seq, until: StreamEnd) -> Self {
        let source = WatchSource::Task { core, id, live, reading: None };
        Self { queue: VecDeque::new(), cursor, until, source, reply: None }
    }

    /// Begins the stream with a snapshot, which replaces all events up to its number.
    pub(crate) fn starting_with(mut self, snapshot: FrozenEvent) -> Self {
        self.cursor = snapshot.seq;
        self.queue.push_back(snapshot);
        self
    }

    /// Whether the stream is known to have no further item.
    pub fn is_over(&self) -> bool {
        matches!(self.source, WatchSource::Done) && self.queue.is_empty() && self.reply.is_none()
    }

    /// The next item; `None` at the end. A fault is the last item.
    pub async fn next(&mut self) -> Option<Result<WatchItem, Fault>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Polls for the next item; see [`Watch::next`].
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<WatchItem, Fault>>> {
        if let Some(reply) = self.reply.take() {
            return Poll::Ready(Some(Ok(WatchItem::Reply(reply))));
        }
        loop {
            if let Some(event) = self.queue.pop_front() {
                if self.ends_with(&event) {
                    self.source = WatchSource::Done;
                    self.queue.clear();
                }
                return Poll::Ready(Some(Ok(WatchItem::Event(event))));
            }
            let WatchSource::Task { core, id, live, reading } = &mut self.source else {
                return Poll::Ready(None);
            };
            if let Some(answer) = reading {
                let Poll::Ready(read) = Pin::new(answer).poll(cx) else { return Poll::Pending };
                *reading = None;
                match read {
                    Ok(events) if !events.is_empty() => self.enqueue(events),
                    outcome => {
                        // The live head says there is more, the log says there is not, or cannot be read.
                        let fault = core
                            .store_fault("replaying a task", &outcome.err().unwrap_or(sabir_store::StoreError::Closed));
                        self.source = WatchSource::Done;
                        return Poll::Ready(Some(Err(fault)));
                    }
                }
                continue;
            }
            match live.poll_events(self.cursor, cx) {
                PolledEvents::Events(events) => self.enqueue(events),
                PolledEvents::InLog => {
                    *reading = Some(core.log.events(*id, self.cursor, core.limits.replay_events_max))
                }
                PolledEvents::Nothing => {
                    // Thousands of streams wait, so an idle one frees its buffer.
                    self.queue = VecDeque::new();
                    return Poll::Pending;
                }
                PolledEvents::Failed(fault) => {
                    self.source = WatchSource::Done;
                    return Poll::Ready(Some(Err(fault)));
                }
            }
        }
    }

    fn enqueue(&mut self, events: Vec<FrozenEvent>) {
        if let Some(last) = events.last() {
            self.cursor = last.seq;
        }
        self.queue.extend(events);
    }

    fn ends_with(&self, event: &FrozenEvent) -> bool {
        let Some(state) = event.state else { return false };
        let question = match self.until {
            StreamEnd::Settled => false,
            StreamEnd::Question => state == TaskState::InputRequired,
            StreamEnd::Rest => state.is_interrupted(),
        };
        // A question that has been answered since does not end the stream.
        let latest = self.queue.is_empty()
            && match &self.source {
                WatchSource::Done => true,
                WatchSource::Task { live, .. } => live.head() <= event.seq,
            };
        state.is_settled() || (question && latest)
    }
}
