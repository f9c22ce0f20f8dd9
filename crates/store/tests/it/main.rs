//! Promises of the stores.
//!
//! | Promise | File |
//! |---|---|
//! | every backend keeps the same contract and gives the same answers | `contract` |
//! | our file survives, another program's is not changed, a full disk is not fatal | `files` |
//! | deliveries that were made leave nothing behind, and the others stay quick to find | `outbox` |
#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod contract;
mod files;
mod outbox;
