//! The dialects of A2A: pure translation between bytes and the canonical types of `sabir_proto`.
//!
//! | Module or item | What is there |
//! |---|---|
//! | [`codes`] | the table of errors, with their numbers in every binding |
//! | [`jsonrpc`] | the JSON-RPC 2.0 envelope |
//! | [`sse`] | frames of event streams, written and read |
//! | [`version`] | `A2A-Version`, and which versions the server accepts |
//! | [`Dialect`] | the dialects, and the table of their features |
//! | [`decode_request`] | decodes a JSON-RPC request of any dialect |
//! | [`Responder`], [`StreamEncoder`] | write answers, errors and streams in the dialect of the request |
//! | [`write_call`], [`read_answer`] | JSON-RPC for clients |
//! | [`write_http_call`], [`read_http_answer`] | HTTP+JSON for clients; [`v1`] and [`v03`] have gRPC |
//! | [`write_push_event`], [`write_push_task`], [`read_push_payload`] | the bodies of webhooks |
//! | [`convert()`] | converts a text of one dialect into another, offline |
//! | [`HandoffSupport`] | how a reader sees a task that was handed over |
//! | [`Losses`] | the members that a translation could not carry |
//! | [`card`] | agent cards in every form |
//! | [`v1`] | A2A 1.0 as JSON-RPC, HTTP+JSON and gRPC |
//! | [`v03`] | A2A 0.3 over its three bindings; 0.2 too |
//! | [`wire_format`] | counts the members of a gRPC request before it is decoded |
//! | [`pb`] | generated protobuf; nothing outside this crate and the gRPC binding should need it |
//!
//! Absent on purpose: sockets, state, and the identity of the caller.

pub mod agnt;
pub mod card;
pub mod codes;
pub mod jsonrpc;
pub mod pb;
pub mod sse;
pub mod v03;
pub mod v1;
pub mod version;
pub mod wire_format;

mod client_codec;
mod convert;
mod decoded_request;
mod detect;
mod dialect;
mod losses;
mod native;
mod path;
mod push;
mod responder;
mod stream_encoder;
mod tagged_json;
mod transfer;
mod url;
mod v01;
mod xpr;

pub use convert::{TextKind, convert};
pub use detect::{EndpointPath, Facts, XPR_HEADERS};

pub use client_codec::{
    HttpRequest, JsonRpcRequest, grpc_method, read_answer, read_error, read_event, read_http_answer, read_http_error,
    read_http_event, write_call, write_http_call,
};
pub use decoded_request::{AnswerKind, DecodeError, DecodedRequest, decode_request, refusal_responder};
pub use dialect::{Dialect, DialectFeatures, GrpcPackage, UnknownDialect};
pub use losses::{LOSSES_MAX, Loss, LossKind, Losses};
pub use push::{PushBody, read_push_payload, write_push_event, write_push_payload, write_push_task};
pub use responder::{ErrorResponse, Responder};
pub use stream_encoder::StreamEncoder;
pub use transfer::HandoffSupport;
