//! The envelope of AGNT's booking network: one JSON object there, one of the same shape back.
//!
//! It has nothing of A2A but the name, so it is told by its path and never by its looks. It is read strictly: a member
//! that nobody knows, one that is given twice or one of another type is refused, because a sender that mistypes `ttl_ms`
//! is better told than served with a default, and because two readers must not see two payloads behind one signature.
//!
//! | Room | What is there |
//! |---|---|
//! | `envelope` | what is asked, read and written |
//! | `answer` | what is answered, written and read |
//! | `moment` | when, to the nanosecond: the timestamp is half of a retry key |
//! | `message` | the same in the words of A2A |
//! | `via` | who passed it on |

mod answer;
mod envelope;
pub mod message;
mod moment;
mod via;

pub use answer::{Answered, Unanswered, answer, read_answer, refuse};
pub use envelope::{
    CONTEXT_BYTES_MAX, DEPTH_MAX, Envelope, ID_CHARS_MAX, INTENT_CHARS_MAX, Misread, Sketch, TTL_DEFAULT,
};
pub use moment::Moment;
pub use via::{Hop, VIA_MAX};

/// The path it is posted to.
pub const PATH: &str = "/a2a/v1";
/// The recipient where none is named.
pub const NETWORK: &str = "network:agnt";
