//! Who is calling, and may they: credentials, signatures, trust, and the signatures under our own cards.
//!
//! | Room | What is there |
//! |---|---|
//! | [`Guard`] | the way of a request: admit, clear, permit |
//! | [`authn`] | one verifier for each way to say who one is |
//! | [`certificate`] | what a certificate says of itself |
//! | [`entrance`] | which of them an agent takes, made from [`config`] |
//! | [`policy`] | how often, with which scopes, how well trusted |
//! | [`permit`] | what only the guard can make, and nobody gets past without |
//! | [`explain`] | why a decision falls as it does |
//! | [`fetch`] | the way out: key sets, metadata and chain tables are documents that somebody else fetches for us |
//! | [`sign`] | signing cards and deliveries, and the keys for it |
//!
//! A verifier is a function of the request, of what is configured and of the time it is given. It answers with who is
//! calling, or with a reason, which is for our log: what a peer is told is decided elsewhere. No socket is opened here,
//! no clock is read, and no secret is in any `Debug` or `Display`.

pub mod authn;
pub mod certificate;
pub mod config;
pub mod entrance;
pub mod explain;
pub mod fetch;
pub mod permit;
pub mod policy;
pub mod sign;

mod guard;
mod guesses;
mod identity;
mod memo;
mod metrics;
mod refusal;

pub use guard::{Guard, Recalled, Sealed, Seals, Unsealed, Vigil};
pub use guesses::household;
pub use identity::{API_KEY, Identity, Knock};
pub use metrics::Metrics;
pub use permit::{Admitted, Cleared, Permit};
pub use refusal::Refusal;

use sabir_proto::Timestamp;

/// Whole seconds since 1970, which is how most of our peers count.
fn seconds(time: Timestamp) -> i64 {
    time.millis().div_euclid(1000)
}
