//! The envelope of AGNT's booking network: the request is one JSON object, and so is the answer, of the same shape.
//!
//! It shares only its name with A2A, so a server recognises it by its path and never by its content. It is read
//! strictly: an unknown member, a member that is given twice or one of another type is refused. A sender that mistypes
//! `ttl_ms` is better served by an error than by a default, and two readers must not see two payloads behind one
//! signature.
//!
//! | Module | What is there |
//! |---|---|
//! | `intent`, `problem` | the vocabulary: what a sender can ask, and why it is refused |
//! | `envelope` | requests, read and written |
//! | `answer` | answers, written and read |
//! | `nano_timestamp` | the timestamp, to the nanosecond: it is half of a retry key |
//! | `message` | requests and answers as A2A messages and tasks |
//! | `via` | the networks that passed an envelope on |

mod answer;
mod envelope;
mod intent;
pub mod message;
mod nano_timestamp;
mod problem;
mod via;

pub use answer::{NetworkAnswer, NetworkAnswerError, read_answer, write_answer, write_refusal};
pub use envelope::{
    CONTEXT_BYTES_MAX, DEPTH_MAX, Envelope, EnvelopeError, EnvelopeHead, ID_CHARS_MAX, INTENT_CHARS_MAX, TTL_DEFAULT,
    TTL_MAX,
};
pub use intent::Intent;
pub use nano_timestamp::NanoTimestamp;
pub use problem::{Problem, ProblemCode};
pub use via::{EnvelopeHop, VIA_MAX};

/// The only version of the envelope that the network defines.
pub const PROTOCOL: &str = "openclaw/a2a/v1";
/// The path that envelopes are posted to.
pub const PATH: &str = "/a2a/v1";
/// The recipient of an envelope that names none.
pub const NETWORK: &str = "network:agnt";
