//! A2A 0.3 on the wire.

pub mod grpc;
pub mod rest;
