//! 1.0 as gRPC: protobuf messages to the vocabulary and back.
//!
//! | Room | What is there |
//! |---|---|
//! | [`request`] | what the eleven methods are sent: to a [`Call`](sabir_proto::Call), and from one for whoever calls |
//! | [`reply`] | what they are answered with, events and cards included: written by servers, `read_…` by clients |
//! | [`status`], [`read_status`] | a fault as a gRPC status with its details, and back |
//!
//! Both bindings of 1.0 accept and refuse the same things under the same names: a fault says `message.messageId` where
//! the field is called `message_id`, because that is what the specification and the JSON binding call it. proto3 knows
//! no "missing" for strings, numbers and lists, so what JSON may tell apart is one here: an empty text is an unset one.
//!
//! Three things protobuf cannot carry. Numbers inside metadata and data parts are doubles, so integers past 2^53 are
//! rounded. Their objects have no order, so members arrive sorted. And most protobuf readers, prost among them, give up
//! at a hundred nested messages, which is about thirty nested objects, so a data part may be readable as JSON only.
//!
//! Absent on purpose: the services themselves. They are generated, and the server gives them their methods.

pub mod reply;
pub mod request;

mod card;
mod error;
mod mend;
mod message;
mod push;
mod security;
mod task;
pub(crate) mod value;

pub use error::{read_status, status};

pub(crate) use error::{read_status_as, status_as};

/// The metadata key of the version a caller speaks; see [`crate::version`].
pub const VERSION_KEY: &str = crate::version::HEADER;

/// The metadata key of the extensions a caller wants active: URIs, separated by commas.
pub const EXTENSIONS_KEY: &str = "a2a-extensions";
