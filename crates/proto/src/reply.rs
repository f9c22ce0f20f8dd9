//! The waist, outward: what a [`crate::Call`] is answered with.

use crate::{AgentCard, FrozenTask, Message, PushConfig, TaskId, View};
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
#[derive(Debug, Clone, Default)]
pub struct PushPage {
    /// The configurations, oldest first.
    pub configs: Vec<PushConfig>,
    /// Where to go on; empty at the end.
    pub next_page_token: String,
}
