//! The dialects: pure translation between bytes and the vocabulary.
//!
//! | Room | What is there |
//! |---|---|
//! | [`codes`] | every error with its numbers in every binding: one table |
//! | [`jsonrpc`] | the envelope |
//! | [`sse`] | frames of event streams |
//! | [`version`] | `A2A-Version`, and which versions are spoken |
//! | [`v1`] | A2A 1.0 as JSON-RPC, HTTP+JSON and gRPC |
//! | [`pb`] | generated protobuf; nothing outside this crate and the gRPC binding should need it |
//!
//! Absent on purpose: sockets, state, and who the caller is.

pub mod card;
pub mod codes;
pub mod jsonrpc;
pub mod pb;
pub mod sse;
pub mod v1;
pub mod version;

mod dialect;
mod losses;
mod path;

pub use dialect::{Dialect, Reach, UnknownDialect};
pub use losses::{LOSSES_MAX, Loss, LossKind, Losses};
