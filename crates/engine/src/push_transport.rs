//! The transport for push notifications. The engine decides what is delivered, when it is retried and when it becomes a
//! dead letter. The transport decides the form on the wire, the signature and the allowed addresses.

use crate::host::BoxFuture;
use sabir_proto::{FieldViolation, FrozenEvent, PushConfig, Seq, TaskId, Timestamp};
use sabir_store::Scope;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;

/// Delivers events to receivers. A server implements it with sockets, the simulator without.
///
/// `deliver` makes exactly one attempt and limits its time itself; the engine retries. Dropping the future gives the
/// attempt up. Whether it arrived is then unknown, so the engine repeats it with the same id.
pub trait PushTransport: Send + Sync + 'static {
    /// The host of a URL in one canonical spelling, by which shares and pauses are counted. Otherwise why this URL is
    /// never called, in words for the caller that registers it.
    fn host_of(&self, url: &str) -> Result<Arc<str>, String> {
        let (scheme, rest) = url.split_once("://").ok_or("the URL cannot be read")?;
        let host = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        Ok(format!("{scheme}://{host}").to_ascii_lowercase().into())
    }

    /// Finds what no request could carry, such as a line break in a token: the member of the configuration and the
    /// problem, in words for the caller that registers it. Reported now, since a dead letter reaches only operators.
    fn check(&self, _: &PushConfig) -> Result<(), FieldViolation> {
        Ok(())
    }

    /// Makes one attempt at a delivery.
    fn deliver(&self, parcel: DeliveryRequest) -> BoxFuture<'static, DeliveryResult>;
}

/// One attempt to deliver an event to a receiver.
#[derive(Debug, Clone)]
pub struct DeliveryRequest {
    /// The receiver's URL and credentials, with secrets.
    pub config: PushConfig,
    /// The dialect of the registration; the payload is sent in it.
    pub dialect: Arc<str>,
    pub task: TaskId,
    /// The owner of the task, and its agent.
    pub scope: Arc<Scope>,
    /// The event; its number is that in the task's log.
    pub event: FrozenEvent,
    /// When the event happened: the same at every attempt.
    pub at: Timestamp,
    /// The id of this event for this configuration: the same at every attempt, so that a receiver can discard repeats.
    /// Letters, digits and hyphens.
    pub id: String,
    /// 1 for the first attempt.
    pub attempt: u32,
}

/// The result and the duration of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryResult {
    /// What the attempt led to.
    pub outcome: DeliveryOutcome,
    /// The duration of the attempt.
    pub took: Duration,
}

/// The result of an attempt; there is one variant per reaction of the engine. Reasons are for operators and hold no
/// secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// The receiver accepted the event.
    Accepted {
        /// The HTTP status, 2xx.
        status: u16,
    },
    /// The receiver refused the event; a retry may succeed.
    Refused {
        /// The HTTP status, if not 2xx.
        status: u16,
        /// The pause that the receiver asked for.
        retry_after: Option<Duration>,
    },
    /// The receiver wants no more events of this configuration.
    Gone {
        /// The HTTP status, such as 410.
        status: u16,
    },
    /// We must not deliver there: egress rules forbid the address, or the URL cannot be called.
    Forbidden { reason: String },
    /// The host cannot be reached: no name, no connection. True of the host, whatever the request.
    Unreachable { reason: String },
    /// The host accepted the connection, and no answer came.
    NoAnswer { reason: String },
    /// No request was sent, for a temporary reason of our own: the event or the task cannot be read.
    NotAttempted { reason: String },
}

/// The id of the delivery of an event to a configuration of its task.
pub fn delivery_id(task: TaskId, config: &str, seq: Seq) -> String {
    let hash = Sha256::digest(config.as_bytes());
    let short = u64::from_be_bytes(hash[..8].try_into().unwrap_or_default());
    format!("{task}-{}-{short:016x}", seq.0)
}

/// A transport for servers without push notifications.
#[derive(Debug, Clone, Copy)]
pub struct NoPushTransport;

impl PushTransport for NoPushTransport {
    fn deliver(&self, _: DeliveryRequest) -> BoxFuture<'static, DeliveryResult> {
        let reason = "this server makes no deliveries".into();
        Box::pin(async { DeliveryResult { outcome: DeliveryOutcome::Unreachable { reason }, took: Duration::ZERO } })
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
