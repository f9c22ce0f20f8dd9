//! Commands that talk to an agent, and commands that support them.
//!
//! | Module | What it contains |
//! |---|---|
//! | `session`, `observer`, `curl` | one run against one agent: client, timeout, Ctrl-C, wire log |
//! | `signer`, `job` | an account of XPR Network that signs, and its jobs |
//! | `target` | the agent as an argument |
//! | `trust` | checks a card before its agent is called |
//! | `explain`, `resume` | the report of a failure, and the command that continues |
//! | `parts`, `report`, `follow` | the parts to send, the printed result, following a task to its end |
//! | the rest | one file per command |

pub(crate) mod auth;
pub(crate) mod card;
pub(crate) mod chat;
pub(crate) mod config;
mod curl;
pub(crate) mod envelope;
mod explain;
mod follow;
mod handoff;
mod job;
pub(crate) mod network;
mod observer;
mod parts;
pub(crate) mod push;
mod report;
mod resume;
pub(crate) mod send;
mod session;
mod signer;
pub(crate) mod target;
pub(crate) mod task;
mod trust;

pub(crate) use explain::problem_of;
pub(crate) use session::{InterruptHandling, Session, run_session, tls};
pub(crate) use trust::TrustedCard;
