//! A2A 1.0 on the wire.

pub mod grpc;
pub mod http;
pub mod json;

mod repair;
