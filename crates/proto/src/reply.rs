//! The waist, outward: what a [`crate::Call`] is answered with.

use crate::{AgentCard, FrozenTask, Message, PushConfig, TaskId, TaskRef, TheirTask, View};
use std::sync::Arc;

/// One value, or a stream of numbered events. `S` is the stream, which only the engine can make.
#[derive(Debug)]
pub enum Reply<S> {
    /// To *send*.
    Sent(Sent),
    /// To *get* and *cancel*.
    Task(FrozenTask, View),
    /// To *list*.
    Tasks(TaskPage),
    /// To creating and reading a push configuration.
    Push(TaskId, PushConfig),
    /// To listing push configurations.
    Pushes(TaskId, PushPage),
    /// To deleting one.
    Deleted,
    /// To asking for the extended card.
    Card(Arc<AgentCard>),
    /// To *stream* and *subscribe*.
    Stream(S),
}

/// What a *send* ends in.
#[derive(Debug, Clone)]
pub enum Sent {
    /// A task, as far as it got.
    Task(FrozenTask, View),
    /// A direct reply; no task was made.
    Message(Box<Message>),
}

/// A page of tasks.
#[derive(Debug, Clone)]
pub struct TaskPage {
    /// The tasks, latest status first.
    pub tasks: Vec<FrozenTask>,
    /// What to show of each.
    pub view: View,
    /// Where to go on; empty at the end.
    pub next_page_token: String,
    /// The page size that was used.
    pub page_size: u32,
    /// How many tasks match in all.
    pub total_size: u64,
}

/// A page of push configurations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PushPage {
    /// The configurations, oldest first.
    pub configs: Vec<PushConfig>,
    /// Where to go on; empty at the end.
    pub next_page_token: String,
}

/// An answer in full: what a peer said, or what we say where the committed bytes cannot be shown as they are. Every
/// dialect is written from this form and read into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// To *send*: a task, as far as it got.
    SentTask(Box<TheirTask>),
    /// To *send*: a direct reply.
    SentMessage(Box<Message>),
    /// To *get* and *cancel*.
    Task(Box<TheirTask>),
    /// To *list*.
    Tasks {
        /// The tasks, latest status first.
        tasks: Vec<TheirTask>,
        /// Where to go on; empty at the end.
        next_page_token: String,
        /// The page size that was used.
        page_size: u32,
        /// How many tasks match in all.
        total_size: u64,
    },
    /// To creating and reading a push configuration.
    Push(TaskRef, PushConfig),
    /// To listing push configurations.
    Pushes(TaskRef, PushPage),
    /// To deleting one.
    Deleted,
    /// To asking for the extended card.
    Card(Box<AgentCard>),
}

impl Answer {
    /// A reply in full. `None` for a stream, which has no value, and for bytes that are not a task: a damaged store.
    pub fn of<S>(reply: &Reply<S>) -> Option<Self> {
        Some(match reply {
            Reply::Sent(Sent::Task(task, view)) => Self::SentTask(Box::new(task.show(*view)?)),
            Reply::Sent(Sent::Message(message)) => Self::SentMessage(message.clone()),
            Reply::Task(task, view) => Self::Task(Box::new(task.show(*view)?)),
            Reply::Tasks(page) => Self::Tasks {
                tasks: page.tasks.iter().map(|t| t.show(page.view)).collect::<Option<_>>()?,
                next_page_token: page.next_page_token.clone(),
                page_size: page.page_size,
                total_size: page.total_size,
            },
            Reply::Push(task, config) => Self::Push((*task).into(), config.clone()),
            Reply::Pushes(task, page) => Self::Pushes((*task).into(), page.clone()),
            Reply::Deleted => Self::Deleted,
            Reply::Card(card) => Self::Card(Box::new((**card).clone())),
            Reply::Stream(_) => return None,
        })
    }
}
