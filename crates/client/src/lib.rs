//! Calls any agent in any dialect of A2A, with an address policy, limits and checked credentials.
//!
//! ```no_run
//! # async fn example() -> Result<(), sabir_client::Error> {
//! use sabir_client::{Client, Outcome, Pace, text_message};
//!
//! let client = Client::builder().build()?;
//! let agent = client.connect(&"https://ledger.example".parse()?).await?;
//! match agent.send_and_wait(text_message("Reconcile March"), Pace::default()).await?.value {
//!     Outcome::Completed(task) => println!("{}", task.answer_text(sabir_proto::NonText::Skip)),
//!     Outcome::InputRequired(task) => println!("{} asks something", task.id),
//!     other => println!("it came to nothing: {}", other.text()),
//! }
//! # Ok(()) }
//! ```
//!
//! | Module | Content |
//! |---|---|
//! | [`egress`], `tls`, `door`, `capacity` | address policy, TLS, the HTTP client, the limit on answers in memory |
//! | `documents`, `endpoint` | requests to servers that are not agents: small documents, HTTP interfaces |
//! | `reference`, `discover`, `catalog`, `cache` | finds the card of an agent |
//! | `profile` | vendors that deviate from A2A: paths of cards, headers of API keys |
//! | `choose`, `credentials`, `authorise` | chooses interface, dialect and credentials for a card |
//! | `transport` | JSON-RPC, HTTP+JSON, gRPC, in every dialect |
//! | `agent`, `retry` | the operations, and which of them may be retried |
//! | `events`, `wait` | follows a task to its end, by stream or by polling |
//! | `probe` | single facts below a call, for diagnosis |
//! | `one_call`, `delegate` | one call for one answer; delegation to another agent |
//! | [`signature`] | verifies the signatures of cards |
//! | [`oauth`], [`tokens`], [`native_token`] | gets tokens, stores them, and makes those of agent-native |
//! | [`envelope`] | envelopes of AGNT's booking network: timestamps, signatures, retries |
//! | [`xpr`] | signs requests as an account of XPR Network |
//!
//! Absent on purpose: our stores, our engine, and all state that outlives the process.

#![warn(missing_docs)]

mod agent;
mod audience;
mod authorise;
mod cache;
mod capacity;
mod catalog;
mod choose;
mod client;
mod credentials;
mod delegate;
mod discover;
mod documents;
mod door;
pub mod egress;
mod endpoint;
mod error;
mod events;
mod observe;
mod one_call;
mod probe;
mod profile;
pub mod redact;
mod reference;
mod retry;
mod said;
mod secret;
mod tls;
mod transfer;
mod transport;
mod wait;

pub use agent::{Agent, message_id, send_message, text_message};
pub use audience::Audience;
pub use authorise::{Authorise, Leaving, Proof};
pub use capacity::{Capacity, Share};
pub use choose::{Binding, Chosen, UnknownBinding, Version, choose};
pub use client::{Builder, Client, Download};
pub use credentials::{Credentials, describe as describe_scheme};
pub use delegate::{Delegation, Turn};
pub use discover::{Found, WELL_KNOWN, below};
pub use documents::{Documents, Receipt};
pub use door::{ANSWER_BYTES_MAX, REDIRECTS_MAX, Timeouts};
pub use egress::Egress;
pub use endpoint::{Arriving, Asking, Endpoint};
pub use error::{Error, TransportCode, UnreachableCause, Whose};
pub use events::{Events, Follow, Until};
pub use observe::{Note, Observer};
pub use one_call::{CallError, CallOptions, TEXT_CHARS_MAX, call_agent};
pub use probe::{Exchange, Handshake, Page, Probe};
pub use profile::{PROFILES, Profile, UnknownProfile};
pub use reference::{Reference, is_loopback};
pub use said::Said;
pub use secret::Secret;
pub use tls::Tls;
pub use transfer::{Trail, is_confidential, offering};
pub use transport::Written;
pub use wait::{Outcome, Pace};

pub mod envelope;
pub mod native_token;
pub mod oauth;
pub mod signature;
pub mod tokens;
pub mod xpr;
