//! What a server of ours does as a client of others, under one policy for going out.
//!
//! | Room | What is there |
//! |---|---|
//! | `outbound` | documents for the guard: key sets, metadata of issuers, tables of a chain |
//!
//! Connections are the client's: its door, its address policy, its TLS. Nothing here opens a socket by itself.

mod outbound;

pub use outbound::{Outbound, PATIENCE};
/// The words of the client that are needed to say how to go out.
pub use sabir_client::{Egress, Error, Tls};
