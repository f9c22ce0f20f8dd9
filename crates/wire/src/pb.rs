//! Protobuf messages and gRPC services, generated from the files in `proto/` by `cargo xtask protogen`.
//!
//! The modules carry the version or the full package, because the packages mislead: A2A 0.3 lives in `a2a.v1`, A2A 1.0
//! in `lf.a2a.v1`.
#![expect(missing_docs, reason = "the specification names the fields; only what is surprising is commented")]

#[rustfmt::skip]
pub mod a2a_v03;
#[rustfmt::skip]
pub mod google_rpc;
#[rustfmt::skip]
pub mod lf_a2a_v1;
