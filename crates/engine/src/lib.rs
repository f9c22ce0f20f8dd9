//! The life of a task, from the first message to the last event.
//!
//! | Room | What is decided there |
//! |---|---|
//! | [`machine`] | what a task may do next, and what an event does to it |
//! | [`agent`] | what an author implements, and what an agent may count on |
//! | `begin` | accepting a message: a new task, the next turn of one, or a repeat |
//! | `conversation` | what was said in the earlier tasks of a conversation |
//! | `alias` | names that callers give their tasks |
//! | `runner` | one owner per live task: agent → step → log → watchers |
//! | `owed` | tasks that cannot end while the store takes no writes |
//! | `live`, [`watch`] | following a task without a gap, however slowly |
//! | `retry`, `repeat` | which sends are the same send, and what a repeat waits for |
//! | `cancel` | work elsewhere that is called off, and who is yet to be told |
//! | `recover` | after a crash: who goes on, who is told that it failed |
//! | `inbox` | what waits for somebody, for operators |
//! | `hold` | tasks that were handed to us, until their sender has let go of them |
//! | `kin` | tasks that agents open with other agents, and what bounds them |
//! | [`Courier`] | who carries an event to the receiver of a push configuration |
//! | `note` | what a translation could not carry, beside the task |
//! | [`limits`] | every bound, named |
//!
//! The engine opens no sockets, reads no clock and draws no random numbers: those come through [`Host`], storage
//! through [`TaskLog`]. The simulator stands behind both. And nobody (watcher, reply, get, list, push) sees an event
//! before its commit has returned.

pub mod agent;
pub mod limits;
pub mod machine;
pub mod watch;

mod alias;
mod begin;
mod cancel;
mod conversation;
mod courier;
mod engine;
mod hold;
mod host;
mod inbox;
mod kin;
mod live;
mod metrics;
mod moment;
mod note;
mod owed;
mod push;
mod query;
mod record;
mod recover;
mod repeat;
mod retry;
mod runner;
mod turn;

pub use agent::{Agent, AnyAgent, CalledOff, Canceled, Context, Ending, Failure, HandedOver, Nature, Recovery};
pub use conversation::{ConversationLimits, PastTask};
pub use courier::{Courier, Delivered, NoCourier, Outcome, Parcel, delivery_id};
pub use engine::{Engine, Presence, Resident};
pub use host::{BoxFuture, Host};
pub use inbox::{ANSWERED_BY, Inbox, Question};
pub use kin::{Child, KnownAs, LINEAGE, Lineage, Residents};
pub use limits::Limits;
pub use metrics::Metrics;
pub use repeat::STILL_ACCEPTING;
pub use sabir_store::{Asking, Continuation, Note, Relative, TaskLog};
pub use watch::Watch;
