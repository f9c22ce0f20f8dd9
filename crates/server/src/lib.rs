//! Composition: the listeners, and the order of the checks that a request passes.
//!
//! | Module | What is decided there |
//! |---|---|
//! | [`config`] | every option, its default, and what is refused at start |
//! | `server` | which concrete types make up a server: its start, its run and its stop |
//! | `start_error` | why a server did not start |
//! | `app` | the parts of the server that every request uses |
//! | `public_address` | the addresses of a server, and the names under which it may be called |
//! | `listen` | sockets, connection limits, shutdown |
//! | `process` | the limit of open files, the signals that stop the process, and the log |
//! | `tls` | the server's certificate, and which client certificates it accepts |
//! | `peer` | what the sockets know about the other end of a connection |
//! | `summary` | what a started server serves, for the person who started it |
//! | `stack` | the order of HTTP checks, and the way of each request to its binding |
//! | `routes` | which agent, which binding and which version a path names |
//! | `interceptor` | what may run before everything that is served; `serve` has none |
//! | `origin_check` | the checks of `Host`, `Origin` and content type that keep web pages out |
//! | `cors` | which web pages may call |
//! | `proxies` | which proxies are trusted, and which client they name |
//! | `accept_header` | media types, by the client's `Accept` header |
//! | `incoming_body` | the limits of request bodies: size, time, and all of them together |
//! | `body` | response bodies, and the budget of those that are not written yet |
//! | `bind` | JSON-RPC, HTTP+JSON, gRPC: decode, call, encode |
//! | `auth_setup` | the guard's store, secrets and HTTP client, and the rules of each agent |
//! | `call` | the order of policies on a call |
//! | `guessable_names` | which names callers without a credential may choose |
//! | `handoff_check` | whether a caller may hand a task over to an agent here |
//! | `engine_access` | the only way from a permit to the engine |
//! | `authorized_stream` | a task's events, for as long as the reader's credential is valid |
//! | `tokio_host` | the clock, randomness and task spawning that the engine uses |
//! | [`explain`] | why a caller may or may not make a call |
//! | `card` | well-known documents |
//! | `catalog` | the list of the agents served here, as JSON and as a page |
//! | `directory` | which agents are served now; agents come and go |
//! | `agent_factory` | makes a served agent from its configuration |
//! | `registry_sync` | agents added at run time: which ones commands have added, removed or changed |
//! | [`rank`] | which agent a message would be passed on to |
//! | `webhook_delivery` | webhooks: the transport, its policy, and the bodies it sends |
//! | `booking` | the agent of the booking network, its venues and subscriptions |
//! | `network` | the booking network: its name, keys and records |
//! | `federation` | the networks next to this one, and this network's own record |
//! | `registry` | the HTTP interface of the registry of networks |
//! | `billing_jobs` | payments, expired holds, and the nightly billing |
//! | `xpr_registry` | what the chain of XPR Network stores about an agent |
//! | [`admin`] | the service of operators, with its operations and its API |
//! | `operator_socket` | the socket through which commands ask a running server |
//! | `retention` | when old tasks are deleted |
//! | `sse` | event streams |
//! | `metrics` | the counters and gauges of the server |
//! | `losses` | what a dialect could not carry: the log, a counter, and a note at the task |
//! | `exchange_log` | which requests and responses of callers are recorded |
//! | [`lattice`] | workflows in files, and what they can come to |
//! | [`local_server`] | plain HTTP on this machine for programs that are no A2A server: recorders and mocks |
//! | [`agents`] | built-in agents: echo, script, exec, http, openai, dispatch and remote agents |
//! | [`demo`] | the demo server: an agent to practise on, and an interceptor that injects faults |
//!
//! Absent on purpose: business rules. Each of them is in the crate that owns its subject.

pub mod admin;
pub mod agents;
pub mod config;
pub mod demo;
pub mod explain;
pub mod lattice;
pub mod local_server;
pub mod rank;

mod accept_header;
mod agent_factory;
mod app;
mod auth_setup;
mod authorized_stream;
mod billing_jobs;
mod bind;
mod body;
mod booking;
mod call;
mod card;
mod catalog;
mod cors;
mod directory;
mod engine_access;
mod exchange_log;
mod federation;
mod guessable_names;
mod handoff_check;
mod incoming_body;
mod interceptor;
mod listen;
mod losses;
mod metrics;
mod network;
mod operator_socket;
mod origin_check;
mod peer;
mod process;
mod proxies;
mod public_address;
mod registry;
mod registry_sync;
mod retention;
mod routes;
mod server;
mod sse;
mod stack;
mod start_error;
mod summary;
mod tls;
mod tokio_host;
mod webhook_delivery;
mod xpr_registry;

pub use config::Config;
#[cfg(feature = "logging")]
pub use process::init_logging;
pub use process::{is_json_log, raise_file_limit, stop_signal, survive_file_size_limit};
/// The part that the crate `sabir` re-exports for authors of agents: delegation, and the store that their tests use.
pub use sabir_gateway::{ArtifactMirroring, DelegationOutcome, MirrorSettings, delegate};
pub use sabir_store::{Effect, Scope, StoreUrl, TaskLog, TaskStore};
pub use server::Server;
pub use start_error::StartError;
pub use summary::{AgentSummary, Summary};
pub use xpr_registry::{XprRegistration, XprRegistry};
