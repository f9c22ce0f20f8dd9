//! [`Secret`] is defined in `sabir_proto`, where client and server both can use it.

pub use sabir_proto::Secret;
