//! What the network promises to whoever asks, over a ledger in memory and the engine itself.

#![expect(clippy::unwrap_used, reason = "in a test, a value that is not there is the failure")]

mod asking;
mod billing;
mod booking;
mod payments;
mod processors;
mod world;
