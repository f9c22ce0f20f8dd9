//! What the gateway promises, with servers on this machine.
#![expect(clippy::unwrap_used, reason = "a test stops where its world is not as it should be")]

#[path = "../../../client/tests/it/stub.rs"]
#[allow(dead_code, reason = "the agents on a bare socket that the client is tested with")]
mod agent;
mod bench;
mod breakers;
mod cancels;
mod courier;
mod credentials;
mod delegate;
mod direct;
mod egress;
mod envoy;
mod first_version;
mod handoff;
mod onward;
mod outbound;
mod parcel;
mod places;
mod rogues;
mod stub;
mod ways;
