//! The networks that passed an envelope on, oldest first.

pub use sabir_proto::agnt::EnvelopeHop;

/// The number of hops that any envelope may have; a network may set fewer.
pub const VIA_MAX: usize = 8;
