//! Tests of the client against scripted servers.
#![expect(clippy::unwrap_used, reason = "a test stops where its world is not as it should be")]

mod capacity;
mod cards;
mod credentials;
mod delegation;
mod envelopes;
mod polling;
mod profiles;
mod rebinding;
mod retries;
mod signed_cards;
mod signing;
mod streams;
mod stub;
