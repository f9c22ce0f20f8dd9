//! Authenticates callers, authorizes their calls, and signs our own cards and deliveries.
//!
//! | Module | Contents |
//! |---|---|
//! | [`Guard`] | the three steps of a request: admit, clear, permit |
//! | [`authn`] | one verifier for each kind of credential |
//! | [`certificate`] | the names and dates in a certificate |
//! | [`authenticator`] | which credentials an agent takes, built from [`config`] |
//! | [`policy`] | rate limits, scopes, tiers and trust |
//! | [`permit`] | the types that prove that a request passed each step; only the guard can make them |
//! | [`explain`] | which rule decides, and why |
//! | [`fetch`] | the HTTP client interface: the server fetches key sets, metadata and chain tables for the guard |
//! | [`sign`] | signing cards and deliveries, and the signing keys |
//!
//! A verifier is a function of the request, the configuration and the time that it is given. It returns the principal,
//! or a reason for our log; [`Refusal`] decides what the peer is told. This crate opens no socket and reads no clock,
//! and no secret appears in any `Debug` or `Display` output.

pub mod authenticator;
pub mod authn;
pub mod certificate;
pub mod config;
pub mod explain;
pub mod fetch;
pub mod permit;
pub mod policy;
pub mod sign;

mod guard;
mod identity;
mod metrics;
mod password_guesses;
mod refreshing_cache;
mod refusal;

pub use guard::{CredentialWatch, EnvelopeKeys, Guard, RecalledCaller, ReceivedEnvelope, VerifiedEnvelope};
pub use identity::{API_KEY, Identity, RequestEvidence};
pub use metrics::Metrics;
pub use password_guesses::address_prefix;
pub use permit::{Admitted, Cleared, Permit};
pub use refusal::Refusal;

use sabir_proto::Timestamp;

/// Whole seconds since 1970, the unit that most peers use.
fn unix_seconds(time: Timestamp) -> i64 {
    time.millis().div_euclid(1000)
}
