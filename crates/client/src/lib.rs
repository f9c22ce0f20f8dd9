//! Calls any agent in any dialect of A2A, with an address policy, limits and checked credentials.
//!
//! ```no_run
//! # async fn example() -> Result<(), sabir_client::Error> {
//! use sabir_client::{Client, PollSchedule, SendOutcome, text_message};
//!
//! let client = Client::builder().build()?;
//! let agent = client.connect(&"https://ledger.example".parse()?).await?;
//! match agent.send_and_wait(text_message("Reconcile March"), PollSchedule::default()).await?.value {
//!     SendOutcome::Completed(task) => println!("{}", task.answer_text(sabir_proto::NonText::Skip)),
//!     SendOutcome::InputRequired(task) => println!("{} asks something", task.id),
//!     other => println!("it came to nothing: {}", other.text()),
//! }
//! # Ok(()) }
//! ```
//!
//! | Module | Content |
//! |---|---|
//! | [`egress`], `tls`, `http_client`, `capacity` | address policy, TLS, the HTTP client, the limit on answers in memory |
//! | `document_client`, `endpoint_client` | requests to servers that are not agents: small documents, HTTP interfaces |
//! | `agent_reference`, `discover`, `catalog`, `card_cache` | finds the card of an agent |
//! | `vendor_profile` | vendors that deviate from A2A: paths of cards, headers of API keys |
//! | `binding`, `interface_choice`, `credentials`, `request_credential` | chooses interface, dialect and credentials for a card |
//! | `transport` | JSON-RPC, HTTP+JSON, gRPC, in every dialect |
//! | `client`, `agent`, `retry` | the operations, and which of them may be retried |
//! | `events`, `polling` | follows a task to its end, by stream or by polling |
//! | `observer`, `redact` | what a log shows of requests and responses, without secrets |
//! | `probe` | single facts below a call, for diagnosis |
//! | `single_call`, `delegation` | one call for one answer; delegation to another agent |
//! | [`signature`] | verifies the signatures of cards |
//! | [`oauth`], [`tokens`], [`native_token`] | gets tokens, stores them, and makes those of agent-native |
//! | [`envelope`] | envelopes of AGNT's booking network: timestamps, signatures, retries |
//! | [`xpr`] | signs requests as an account of XPR Network |
//!
//! Absent on purpose: our stores, our engine, and all state that outlives the process.

#![warn(missing_docs)]

mod agent;
mod agent_reference;
mod agent_response;
mod binding;
mod capacity;
mod card_cache;
mod catalog;
mod client;
mod clock;
mod credential_origins;
mod credentials;
mod delegation;
mod discover;
mod document_client;
pub mod egress;
mod endpoint_client;
mod error;
mod events;
mod handoff_trail;
mod http_client;
mod interface_choice;
mod observer;
mod polling;
mod probe;
pub mod redact;
mod request_credential;
mod retry;
mod secret;
mod single_call;
mod tls;
mod transport;
mod vendor_profile;

pub use agent::{Agent, message_id, send_message, text_message};
pub use agent_reference::{AgentReference, is_loopback};
pub use agent_response::AgentResponse;
pub use binding::{Binding, UnknownBinding};
pub use capacity::{Capacity, CapacityShare};
pub use client::{Client, ClientBuilder, Download};
pub use credential_origins::CredentialOrigins;
pub use credentials::{Credentials, describe as describe_scheme};
pub use delegation::{Delegation, DelegationTurn};
pub use discover::DiscoveredCard;
pub use document_client::{DocumentClient, ResponseHead};
pub use egress::Egress;
pub use endpoint_client::{EndpointClient, EndpointRequest, EndpointResponse};
pub use error::{Error, FailureSide, TransportCode, UnreachableCause};
pub use events::{FollowOptions, FollowUntil, TaskEvents};
pub use handoff_trail::{HandoffTrail, is_confidential, with_only_target};
pub use http_client::{ANSWER_BYTES_MAX, REDIRECTS_MAX, Timeouts};
pub use interface_choice::{ChosenInterface, VersionPolicy, choose_interface};
pub use observer::{Observation, Observer};
pub use polling::{PollSchedule, SendOutcome};
pub use probe::{Handshake, Probe, ProbedPage, RawResponse};
pub use request_credential::{AuthHeadersFuture, RequestCredential, UnsentRequest};
pub use secret::Secret;
pub use single_call::{CallError, CallOptions, TEXT_CHARS_MAX, call_agent};
pub use tls::Tls;
pub use transport::RequestPreview;
pub use vendor_profile::{PROFILES, UnknownProfile, VendorProfile, WELL_KNOWN, url_below};

pub mod envelope;
pub mod native_token;
pub mod oauth;
pub mod signature;
pub mod tokens;
pub mod xpr;
