//! Composition: everything that listens, and the order in which a request meets what guards it.
//!
//! | Room | What is decided there |
//! |---|---|
//! | [`config`] | every option, its default, and what is refused at start |
//! | `app` | which concrete types make up a server |
//! | `listen` | sockets, connection limits, shutdown |
//! | `files` | how many connections the system lets us have |
//! | `tls` | the certificate of this server, and whose certificates it takes |
//! | `peer` | who is at the other end of a connection, as far as sockets can tell |
//! | `summary` | what a server that has started serves, for people |
//! | `stack` | the order of HTTP checks, and which binding a path belongs to |
//! | `front` | what may stand before everything that is served; nothing, in `serve` |
//! | `door` | who may speak to a listener that asks for no credentials |
//! | `cors` | which web pages may call |
//! | `proxies` | whom proxies speak for, and which of them are believed |
//! | `accept` | media types, by what a client says that it reads |
//! | `bind` | JSON-RPC, HTTP+JSON, gRPC: decode, ask, encode |
//! | `gate` | what the guard stands on: its store, secrets, way out, and the rules of each agent |
//! | `call` | the order of policies on a call |
//! | `handed` | tasks that others hand to us: whether they may |
//! | `route` | the way from a permit to the engine, and the only one |
//! | [`explain`] | why a caller may or may not |
//! | `card` | well-known documents |
//! | `catalog` | who is served here, for programs and for people |
//! | `directory` | who is served, now; agents come and go |
//! | `deliver` | webhooks: who delivers, where to, and what is written |
//! | [`admin`] | keys, organisations and the audit, for commands |
//! | `operator` | the socket through which commands ask a running server |
//! | `sse` | event streams |
//! | [`lattice`] | workflows in files, and what they can come to |
//! | [`stage`] | plain HTTP for those who are no server of agents: recorders and mocks |
//! | [`agents`] | built-in agents: echo, script, exec, http, openai, dispatch, those elsewhere, and the demo |
//!
//! Absent on purpose: business rules. Every one of them lives in the crate that owns its subject.

pub mod admin;
pub mod agents;
pub mod config;
pub mod explain;
pub mod lattice;
pub mod rank;
pub mod stage;

mod accept;
mod app;
mod arriving;
mod bind;
mod body;
mod booking;
mod call;
mod card;
mod cash;
mod catalog;
mod cors;
mod deliver;
mod directory;
mod door;
mod federation;
mod front;
mod gate;
mod guessable_names;
mod handed;
mod host;
mod listen;
mod losses;
mod metrics;
mod network;
mod operator;
mod peer;
mod process;
mod proxies;
mod registry;
mod retention;
mod route;
mod sse;
mod stack;
mod summary;
mod tls;
mod watched;
mod wire;
mod xpr_registry;

pub use app::{Server, StartError};
pub use config::Config;
#[cfg(feature = "logging")]
pub use process::init_logging;
pub use process::{is_json_log, raise_file_limit, stop_signal, survive_file_size_limit};
/// What the crate `sabir` offers to authors of agents: passing work on, and the store that their tests run on.
pub use sabir_gateway::{Artifacts, Mirror, Mirrored, delegate};
pub use sabir_store::memory::MemoryLog;
pub use sabir_store::{Effect, Scope};
pub use summary::{AgentSummary, Summary};
pub use xpr_registry::{XprRegistration, XprRegistry};
