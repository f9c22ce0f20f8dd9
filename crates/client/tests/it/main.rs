//! Tests of the client against scripted servers.
#![expect(clippy::unwrap_used, reason = "a test stops where its world is not as it should be")]

mod cards;
mod credentials;
mod delegation;
mod envelopes;
mod profiles;
mod repeats;
mod room;
mod signing;
mod streams;
mod stub;
mod vouched;
mod waits;
