//! Replies: the result of a [`crate::Call`].

use crate::{AgentCard, FrozenTask, Message, PushConfig, TaskId, TaskRef, View, WireTask};
use std::sync::Arc;

/// The reply to a call: one value, or a stream of numbered events. `S` is the stream, which only the engine makes.
#[derive(Debug)]
pub enum Reply<S> {
    /// The reply to *send*.
    Sent(SendReply),
    /// The reply to *get* and *cancel*.
    Task(FrozenTask, View),
    /// The reply to *list*.
    Tasks(TaskPage),
    /// The reply to creating and reading a push configuration.
    Push(TaskId, PushConfig),
    /// The reply to listing push configurations.
    Pushes(TaskId, PushPage),
    /// The reply to deleting a push configuration.
    Deleted,
    /// The reply to *get extended card*.
    Card(Arc<AgentCard>),
    /// The reply to *stream* and *subscribe*.
    Stream(S),
}

/// The result of a *send*.
#[derive(Debug, Clone)]
pub enum SendReply {
    /// A task in its current state.
    Task(FrozenTask, View),
    /// A direct reply; no task was made.
    Message(Box<Message>),
}

/// A page of tasks, stored as bytes.
#[derive(Debug, Clone)]
pub struct TaskPage {
    /// The tasks, latest status first.
    pub tasks: Vec<FrozenTask>,
    /// The members to include of each task.
    pub view: View,
    /// The token of the next page; empty on the last page.
    pub next_page_token: String,
    /// The page size that the store applied.
    pub page_size: u32,
    /// The number of matching tasks on all pages.
    pub total_size: u64,
}

/// A page of push configurations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PushPage {
    /// The configurations, oldest first.
    pub configs: Vec<PushConfig>,
    /// The token of the next page; empty on the last page.
    pub next_page_token: String,
}

/// A reply as a complete value: what a peer sent, or what we send where the committed bytes cannot be used as they are.
/// Every dialect encodes this form and decodes into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WireReply {
    /// The reply to *send*: a task in its current state.
    SentTask(Box<WireTask>),
    /// The reply to *send*: a direct reply.
    SentMessage(Box<Message>),
    /// The reply to *get* and *cancel*.
    Task(Box<WireTask>),
    /// The reply to *list*.
    Tasks {
        /// The tasks, latest status first.
        tasks: Vec<WireTask>,
        /// The token of the next page; empty on the last page.
        next_page_token: String,
        /// The page size that the server applied.
        page_size: u32,
        /// The number of matching tasks on all pages.
        total_size: u64,
    },
    /// The reply to creating and reading a push configuration.
    Push(TaskRef, PushConfig),
    /// The reply to listing push configurations.
    Pushes(TaskRef, PushPage),
    /// The reply to deleting a push configuration.
    Deleted,
    /// The reply to *get extended card*.
    Card(Box<AgentCard>),
}

impl WireReply {
    /// The complete form of a reply. `None` for a stream, which is not one value, and for bytes that are not a task: a
    /// damaged store.
    pub fn of<S>(reply: &Reply<S>) -> Option<Self> {
        Some(match reply {
            Reply::Sent(SendReply::Task(task, view)) => Self::SentTask(Box::new(task.to_wire(*view)?)),
            Reply::Sent(SendReply::Message(message)) => Self::SentMessage(message.clone()),
            Reply::Task(task, view) => Self::Task(Box::new(task.to_wire(*view)?)),
            Reply::Tasks(page) => Self::Tasks {
                tasks: page.tasks.iter().map(|t| t.to_wire(page.view)).collect::<Option<_>>()?,
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
