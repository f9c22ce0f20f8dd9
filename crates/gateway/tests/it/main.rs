//! What the gateway promises, with servers on this machine.
#![expect(clippy::unwrap_used, reason = "a test stops where its world is not as it should be")]

#[path = "../../../client/tests/it/stub.rs"]
#[allow(dead_code, reason = "the agents on a bare socket that the client is tested with")]
mod agent;
mod bench;
mod cancels;
mod card_interfaces;
mod circuit_breakers;
mod credentials;
mod delegate;
mod direct;
mod document_fetcher;
mod egress;
mod envelope_sender;
mod first_version;
mod followed_transfers;
mod handoff;
mod misbehaving_agents;
mod replicas;
mod stub;
mod webhook_delivery;
mod webhook_fixtures;
