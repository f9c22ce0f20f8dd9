//! A2A 1.0 as gRPC: converts between protobuf messages and the canonical types.
//!
//! | Module or item | What is there |
//! |---|---|
//! | [`request`] | the requests: read as a [`Call`](sabir_proto::Call) by servers, written by clients |
//! | [`reply`] | their replies, events and cards included: written by servers, `read_…` by clients |
//! | [`status`], [`read_status`] | a fault as a gRPC status with its details, and back |
//!
//! The JSON and gRPC bindings of 1.0 accept and refuse the same values under the same names: a fault says
//! `message.messageId` where the field is called `message_id`, because the specification and the JSON binding call it
//! so. proto3 cannot tell a missing string, number or list from an empty one, so an empty text counts as unset here.
//!
//! Protobuf cannot carry three things. Numbers inside metadata and data parts are doubles, so integers past 2^53 are
//! rounded. Their objects have no order, so members arrive sorted. And most protobuf readers, prost among them, refuse
//! more than a hundred nested messages, which is about thirty nested objects, so some data parts are readable as JSON
//! only.
//!
//! Absent on purpose: the services themselves. They are generated, and the server implements their methods.

pub mod reply;
pub mod request;

mod card;
mod error;
mod message;
mod push;
mod repair;
mod security;
mod task;
pub(crate) mod value;

pub use error::{read_status, status};

pub(crate) use error::{read_status_as, status_as};

/// The metadata key of the extensions that the caller activates: URIs, separated by commas.
pub const EXTENSIONS_KEY: &str = "a2a-extensions";
