//! Secrets are defined where both doors can reach them; see [`Secret`].

pub use sabir_proto::Secret;
