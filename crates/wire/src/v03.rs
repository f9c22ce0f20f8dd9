//! A2A 0.3 and 0.2 on the wire.
//!
//! 0.3 is really two dialects: its JSON-RPC follows a JSON Schema (`json`), while its REST and gRPC follow a proto of
//! another shape. 0.2 has a part of the payloads of 0.3's JSON-RPC.
//!
//! Peers do not agree on how the proto holds the bytes of a file; [`files`] tells them apart.

pub mod files;
pub mod grpc;
pub(crate) mod json;
pub mod rest;
pub(crate) mod transcode;
