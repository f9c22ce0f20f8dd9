//! Tests of the network's promises to callers, with a ledger in memory and the real engine.

#![expect(clippy::unwrap_used, reason = "in a test, a value that is not there is the failure")]

mod asking;
mod billing;
mod booking;
mod payments;
mod processors;
mod world;
