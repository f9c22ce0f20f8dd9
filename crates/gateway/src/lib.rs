//! What a server of ours does as a client of others, under one policy for going out.
//!
//! | Room | What is there |
//! |---|---|
//! | `outbound` | documents for the guard: key sets, metadata of issuers, tables of a chain |
//! | `courier` | deliveries for the engine: webhooks, signed |
//! | `remote` | agents elsewhere, behind our log |
//! | `destination` | which URLs of webhooks are called at all |
//!
//! Connections are the client's: its door, its address policy, its TLS. Nothing here opens a socket by itself.

mod courier;
mod destination;
mod outbound;
mod remote;

pub use courier::{ATTEMPT_TIME, Bodies, Seal, SealKey, Webhooks, Written};
pub use destination::{URL_BYTES_MAX, UrlFault, destination, host_of};
pub use outbound::{Outbound, PATIENCE};
pub use remote::{CARD_FRESH, Patience, RemoteAgent, Upstream};
/// The words of the client that are needed to say how to go out.
pub use sabir_client::{Credentials, Egress, Error, Tls, egress::Lookup};
