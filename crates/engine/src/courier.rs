//! Who carries an event to a receiver. The engine decides what is owed, when it is tried and when it is given up; how a
//! delivery looks on the wire, how it is signed and where it may go is the courier's.

use crate::host::BoxFuture;
use sabir_proto::{FieldViolation, FrozenEvent, PushConfig, Seq, TaskId, Timestamp};
use sabir_store::Scope;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;

/// Carries parcels. A server gives the engine one with sockets, the simulator one of its own.
///
/// `deliver` makes exactly one attempt and bounds its time itself; trying again is the engine's business. A future that
/// is dropped gives the attempt up; whether it arrived is then unknown, so it is repeated with the same id.
pub trait Courier: Send + Sync + 'static {
    /// Whom a URL names, in one spelling for all that lead there: shares and pauses are kept by it. Else why it is never
    /// called, in words for whoever registers it.
    fn host_of(&self, url: &str) -> Result<Arc<str>, String> {
        let (scheme, rest) = url.split_once("://").ok_or("the URL cannot be read")?;
        let host = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        Ok(format!("{scheme}://{host}").to_ascii_lowercase().into())
    }

    /// Finds what no request to a receiver could carry, such as a line break in a token: the member of the configuration, and
    /// what is wrong with it, in words for whoever registers it. Found now, because nobody reads a dead letter.
    fn check(&self, _: &PushConfig) -> Result<(), FieldViolation> {
        Ok(())
    }

    /// Makes one attempt.
    fn deliver(&self, parcel: Parcel) -> BoxFuture<'static, Delivered>;
}

/// One event for one receiver.
#[derive(Debug, Clone)]
pub struct Parcel {
    /// Where to, and how to authenticate there. With its secrets.
    pub config: PushConfig,
    /// The dialect the configuration was registered in; the receiver expects its payload in it.
    pub dialect: Arc<str>,
    /// The task.
    pub task: TaskId,
    /// Whose task it is, at which agent.
    pub scope: Arc<Scope>,
    /// What happened; its number is the event's number in the task's log.
    pub event: FrozenEvent,
    /// When it happened: the same at every attempt.
    pub at: Timestamp,
    /// Names this event to this configuration: the same at every attempt, so that a receiver knows a repetition. Letters,
    /// digits and hyphens.
    pub id: String,
    /// 1 for the first attempt.
    pub attempt: u32,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// What the receiver made of it.
    pub outcome: Outcome,
    /// How long it took.
    pub took: Duration,
}

/// What became of an attempt, told apart by what the engine does next. Reasons are for operators and hold no secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver has it.
    Accepted {
        /// A status of 2xx.
        status: u16,
    },
    /// The receiver answered, and may answer otherwise another time.
    Refused {
        /// Its status.
        status: u16,
        /// How long it asked to be left alone.
        retry_after: Option<Duration>,
    },
    /// The receiver is there and wants no more of this, ever.
    Gone {
        /// Its status, such as 410.
        status: u16,
    },
    /// We must not deliver there: an address that egress rules forbid, a URL nobody can call.
    Forbidden {
        /// Why.
        reason: String,
    },
    /// Nobody is there: no name, no connection. True of the host, whatever is asked of it.
    Unreachable {
        /// Why.
        reason: String,
    },
    /// Somebody is there, and no answer came.
    Unanswered {
        /// Why.
        reason: String,
    },
    /// Nobody was called, for a reason of our own that may pass: what is to be told cannot be read.
    Withheld {
        /// Why.
        reason: String,
    },
}

/// The name of an event's delivery to a configuration of its task.
pub fn delivery_id(task: TaskId, config: &str, seq: Seq) -> String {
    let hash = Sha256::digest(config.as_bytes());
    let short = u64::from_be_bytes(hash[..8].try_into().unwrap_or_default());
    format!("{task}-{}-{short:016x}", seq.0)
}

/// For servers that deliver nothing.
#[derive(Debug, Clone, Copy)]
pub struct NoCourier;

impl Courier for NoCourier {
    fn deliver(&self, _: Parcel) -> BoxFuture<'static, Delivered> {
        let reason = "this server makes no deliveries".into();
        Box::pin(async { Delivered { outcome: Outcome::Unreachable { reason }, took: Duration::ZERO } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sabir_proto::Stamp;

    #[test]
    fn a_delivery_is_named_by_task_configuration_and_event() {
        let (task, other) = (TaskId::new(Stamp::from_u64(9), 1), TaskId::new(Stamp::from_u64(9), 2));
        let id = delivery_id(task, "a", Seq(7));
        assert_eq!(id, delivery_id(task, "a", Seq(7)));
        assert!(id.starts_with(&format!("{task}-7-")), "{id}");
        for different in
            [delivery_id(other, "a", Seq(7)), delivery_id(task, "b", Seq(7)), delivery_id(task, "a", Seq(8))]
        {
            assert_ne!(id, different);
        }
        let wild = delivery_id(task, "a.b\r\nc", Seq(1));
        assert!(wild.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{wild}");
    }
}
