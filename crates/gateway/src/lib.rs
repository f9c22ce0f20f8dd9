//! What a server of ours does as a client of others, under one policy for going out.
//!
//! | Room | What is there |
//! |---|---|
//! | `outbound` | documents for the guard: key sets, metadata of issuers, tables of a chain |
//! | `courier` | deliveries for the engine: webhooks, signed |
//! | `remote` | agents elsewhere, behind our log |
//! | `delegate` | another agent's task, mirrored into ours |
//! | `balance`, `budget`, `health` | which place of an upstream, how often again, and how it is doing |
//! | `grant` | tokens of our own, from an authorization server |
//! | `behalf` | calling on behalf of our caller, among those who know each other's users |
//! | `keeper` | which card of an agent elsewhere counts |
//! | `scout` | looking at an agent before anybody calls it |
//! | `breaker`, `circuit` | who fails is left alone: one breaker for each upstream, one for all of them |
//! | `envoy` | envelopes to venues' own agents and to other booking networks |
//! | [`handoff`] | tasks that leave for another server |
//! | `failure_words` | what callers are told about a call that failed |
//! | `errand` | questions to services that are no agents: processors of payments, billers, chains |
//! | `destination` | which URLs of webhooks are called at all |
//!
//! Connections are the client's: its door, its address policy, its TLS. Nothing here opens a socket by itself.

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
/// The words of the booking network's envelopes.
pub use sabir_client::envelope::{Derivation, Envelope, Hop, Moment, NETWORK, SealKey as EnvelopeKey, VIA_MAX};
pub use sabir_client::native_token::{Issuer, Organisation};
pub use sabir_client::redact;
pub use sabir_client::xpr::Account;
/// The words of the client that are needed to say how to go out.
pub use sabir_client::{
    Arriving, Asking, Authorise, Capacity, Credentials, Egress, Endpoint, Error, Found, Profile, Share, Timeouts, Tls,
    egress::Lookup, send_message,
};
pub use scout::{Scout, Tried, Unfit, Voucher, Way, is_ours, leads_to};
