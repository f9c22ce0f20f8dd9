//! The life of a task, from the first message to the last event.
//!
//! | Module | What it decides |
//! |---|---|
//! | [`machine`] | what a task may do next, and what an event does to it |
//! | [`agent`] | what an author implements, and what an agent may count on |
//! | `incoming` | accepting a message: a new task, the next turn of one, or a repeat |
//! | `inline_turn` | a first turn that ends at once, stored together with its task |
//! | `turn`, `recorder` | what a turn may do, and the steps it writes |
//! | `conversation` | the messages of earlier tasks of a conversation, for agents |
//! | `alias` | names that callers give their tasks |
//! | `runner` | one owner per live task: agent → step → log → watchers |
//! | `unstored_endings` | endings of tasks that wait until the store takes writes |
//! | `live`, [`watch`] | following a task without a gap, however slowly |
//! | `query` | reading tasks, canceling them, and their push configurations |
//! | `retry`, `repeat` | which sends are the same send, and what a repeat waits for |
//! | `remote_cancel` | canceling work on other servers, and repeating a cancel until it is acknowledged |
//! | `recovery` | after a crash: which turns resume and which tasks fail |
//! | `inbox` | tasks that wait for input or credentials, for operators |
//! | `held_tasks` | tasks handed over to us, held until the sender confirms |
//! | `subtasks` | subtasks that agents open with other agents, and their limits |
//! | `push` | which webhook delivery is due, and which receivers wait |
//! | [`PushTransport`] | the interface that delivers an event to the receiver of a push configuration |
//! | `note` | what a translation could not carry, recorded beside the task |
//! | [`limits`] | every bound, named |
//!
//! The engine opens no sockets, reads no clock and draws no random numbers: those come through [`Host`], storage
//! through [`TaskLog`]. The simulator implements both. No reader (watcher, reply, get, list, push) sees an event before
//! its commit has returned.

pub mod agent;
pub mod limits;
pub mod machine;
pub mod watch;

mod alias;
mod conversation;
mod engine;
mod held_tasks;
mod host;
mod inbox;
mod incoming;
mod inline_turn;
mod live;
mod metrics;
mod note;
mod push;
mod push_transport;
mod query;
mod recorder;
mod recovery;
mod remote_cancel;
mod repeat;
mod retry;
mod runner;
mod subtasks;
mod turn;
mod unstored_endings;

pub use agent::{
    Agent, AnyAgent, CancelOutcome, CanceledTask, Context, Ending, Execution, Failure, Recovery, TransferredTask,
};
pub use conversation::{ConversationLimits, PastTask};
pub use engine::{AgentStatus, Engine, HostedAgent};
pub use host::{BoxFuture, Host};
pub use inbox::{ANSWERED_BY, Inbox, Question};
pub use limits::Limits;
pub use metrics::Metrics;
pub use push_transport::{
    DeliveryOutcome, DeliveryRequest, DeliveryResult, NoPushTransport, PushTransport, delivery_id,
};
pub use repeat::STILL_ACCEPTING;
pub use sabir_store::{Continuation, InterruptedTask, LossNote, TaskLog, TaskTreeNode};
pub use subtasks::{AgentDirectory, Child, LINEAGE, Lineage, OutboundIdGuard};
pub use watch::Watch;
