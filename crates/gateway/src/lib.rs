//! What this server calls: agents elsewhere, webhooks and services, all under one address policy.
//!
//! | Module | Contents |
//! |---|---|
//! | `outbound` | documents for the guard: key sets, metadata of issuers, tables of a chain |
//! | `courier` | deliveries for the engine: webhooks, signed |
//! | `remote` | agents elsewhere, behind our log |
//! | `delegate` | another agent's task, mirrored into ours |
//! | `balance`, `budget`, `health` | which replica of an upstream, how many retries, and its health |
//! | `grant` | tokens of our own, from an authorization server |
//! | `behalf` | calls on behalf of our caller, between apps that know the same users |
//! | `keeper` | which card of an agent elsewhere counts |
//! | `scout` | probing an agent before it is called |
//! | `breaker`, `circuit` | circuit breakers: one for each upstream, one for all of them |
//! | `envoy` | envelopes to venues' own agents and to other booking networks |
//! | [`handoff`] | tasks that leave for another server |
//! | `failure_words` | what callers are told about a failed call |
//! | `errand` | requests to services that are no agents: payment processors, billers, chains |
//! | `destination` | which URLs are called at all |
//!
//! Connections are the client crate's: its HTTP client, its address policy, its TLS. Nothing here opens a socket by
//! itself.

mod balance;
mod behalf;
mod breaker;
mod budget;
mod circuit;
mod courier;
mod delegate;
mod destination;
mod envoy;
mod errand;
mod failure_words;
mod grant;
pub mod handoff;
mod health;
mod keeper;
mod metrics;
mod outbound;
mod remote;
mod scout;
mod uuid;
pub mod wire;

pub use balance::{Candidate, choose};
pub use behalf::OnBehalf;
pub use breaker::{Blame, Breaker, Counted, Pass, Refused, Rules, State, Verdict};
pub use budget::Budget;
pub use circuit::{Circuit, Hub, Passage, Standing};
pub use courier::{ATTEMPT_TIME, Bodies, OwnSecrets, Seal, SealKey, Webhooks, Written};
pub use delegate::{Artifacts, Mirror, Mirrored, delegate, outgoing};
pub use destination::{URL_BYTES_MAX, UrlFault, destination, host_of};
pub use envoy::{CIRCUITS_MAX, Envoy, MARGIN, Mailing, Peer};
pub use errand::{ANSWER_BYTES_MAX, Brought, Errand, Errands};
pub use failure_words::{SILENCE_TOLD_AFTER, address, duration_words, failure_reason};
pub use grant::{Grant, Terms};
pub use health::{Checks, Condition, Health};
pub use keeper::{Keeper, May, by_way, way};
pub use metrics::Metrics;
pub use outbound::{Outbound, PATIENCE};
pub use remote::{Acquaintances, CARD_FRESH, Onward, Patience, Place, RemoteAgent, Upstream};
/// The types of the booking network's envelopes.
pub use sabir_client::envelope::{Derivation, Envelope, Hop, Moment, NETWORK, SealKey as EnvelopeKey, VIA_MAX};
pub use sabir_client::native_token::{Issuer, Organisation};
pub use sabir_client::redact;
pub use sabir_client::xpr::Account;
/// The types of the client that configure outgoing calls.
pub use sabir_client::{
    Arriving, Asking, Authorise, Capacity, Credentials, Egress, Endpoint, Error, Found, Profile, Share, Timeouts, Tls,
    egress::Lookup, send_message,
};
pub use scout::{Scout, Tried, Unfit, Voucher, Way, is_ours, leads_to};
