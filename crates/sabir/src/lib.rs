//! Write an agent, serve it durably in every version of A2A, and test it in memory.
//!
//! ```no_run
//! use sabir::{Agent, Context, Ending, Failure, Service};
//!
//! struct Echo;
//!
//! impl Agent for Echo {
//!     async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
//!         let parts = cx.message().parts.clone();
//!         cx.artifact("echo", parts).await?;
//!         Ok(Ending::complete())
//!     }
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     sabir::init_logging();
//!     Service::from_env()?.agent("echo", Echo).serve().await?;
//!     Ok(())
//! }
//! ```
//!
//! This program answers at `http://127.0.0.1:4000`: A2A 0.1 to 1.0, over JSON-RPC, HTTP+JSON and gRPC, with streams,
//! lists, cancels and an agent card. Each step of the agent is committed to SQLite before a caller sees it. On Ctrl-C
//! the server stops in order, and unfinished turns continue after the next start.
//!
//! # Where to find what
//!
//! | To | Look at |
//! |---|---|
//! | write an agent | [`Agent`], which also says what an agent may count on; [`Context`]; [`Ending`] |
//! | describe it in its card | [`CardConfig`], [`skill`], [`Service::agent_with_card`] |
//! | stream text, files and data | [`Context::chunk`], [`Artifact`], [`Part`], [`Content`] |
//! | ask a question | [`Ending::ask_input`], [`Context::before`] |
//! | remember the conversation | [`Context::conversation`], [`Context::keep`] |
//! | survive a crash | [`Execution::recovery`], [`Context::set_checkpoint`], [`Context::turn_id`] |
//! | clean up after a cancel | [`Agent::on_canceled`], [`Agent::cancel_elsewhere`] |
//! | let another agent of this server work | [`delegate`], [`MirrorSettings`], [`Context::delegate`] |
//! | call an agent elsewhere | [`client`], [`client::call_agent`] |
//! | serve | [`Service`]; [`Config`] for everything that `sabir.toml` can say |
//! | log and stop in order | [`init_logging`], [`Service::serve`], [`stop_signal`] |
//! | test an agent | [`testing`] |
//! | see all types of the protocol | [`proto`] |
//!
//! The guide "Write an agent in Rust" (`docs/guides/rust.md` in the repository) goes through all of this, and
//! `examples/` has small programs: `echo`, `booking`, `testing`, `delegate` and several clients.
//!
//! # Features
//!
//! - `logging` (on by default): [`init_logging`]. A program with a `tracing` subscriber of its own can do without it.
//!
//! The other crates (`sabir-engine`, `sabir-server` and so on) are internal. What an author needs of them is here.

#![warn(missing_docs)]

pub mod testing;

mod process;
mod service;

#[cfg(feature = "logging")]
pub use process::init_logging;
pub use process::stop_signal;
pub use service::{Service, skill};

// The trait of agents, and the types that an agent works with.
pub use bytes::Bytes;
pub use sabir_engine::agent::{Commit, Report, TaskEnded};
pub use sabir_engine::{
    Agent, AnyAgent, BoxFuture, CancelOutcome, CanceledTask, Child, Context, Continuation, ConversationLimits, Ending,
    Execution, Failure, Lineage, OutboundIdGuard, PastTask, Recovery, TransferredTask,
};
pub use sabir_server::{ArtifactMirroring as MirrorArtifacts, DelegationOutcome, Effect, MirrorSettings, delegate};

// The messages and tasks that agents and their callers exchange.
pub use sabir_proto::transfer::HandoffRequest;
pub use sabir_proto::{
    AgentName, Artifact, ArtifactId, ArtifactUpdate, Caller, Content, ContextId, Event, Fault, FrozenEvent, FrozenTask,
    Json, Message, MessageId, NonText, Object, Part, Role, Seq, StatusUpdate, Task, TaskId, TaskRef, TaskState,
    TaskStatus, Tenant, Timestamp, ToolMode, Transfer, TransferContext,
};

// The configuration and the server.
pub use sabir_proto::card::{Extension, Provider};
pub use sabir_server::config::ConfigError;
pub use sabir_server::config::agent::{CapabilitiesConfig, CardConfig, Requirements, SkillConfig};
pub use sabir_server::{Config, Server, StartError, config};

pub use sabir_client as client;
pub use sabir_proto as proto;

/// The guides, so that their code is compiled and run by the tests.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../../../docs/guides/rust.md")]
    mod rust {}
    #[doc = include_str!("../../../docs/guides/delegation.md")]
    mod delegation {}
    #[doc = include_str!("../../../docs/guides/client.md")]
    mod client {}
    #[doc = include_str!("../README.md")]
    mod readme {}
}
