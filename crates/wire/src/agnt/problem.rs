//! Why a booking network refuses an envelope.

use sabir_proto::{NamedRefusal, Object};
use std::time::Duration;

/// The kind of a problem: a name for programs, with an HTTP status for proxies. A name with two statuses has two
/// entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProblemCode {
    MalformedEnvelope,
    InvalidEnvelope,
    UnsupportedProtocol,
    UnsupportedMediaType,
    UnknownIntent,
    InvalidPayload,
    Unauthorized,
    InvalidSignature,
    StaleTimestamp,
    TierRequired,
    ScopeRequired,
    AgentMismatch,
    VenueNotFound,
    BookingNotFound,
    IdempotencyConflict,
    InProgress,
    SlotUnavailable,
    RateLimited,
    PayloadTooLarge,
    CircuitOpen,
    VenueUnreachable,
    TtlExceeded,
    Internal,
    PaymentRequired,
    PaymentDeclined,
    PaymentLimitExceeded,
    LoopDetected,
    HopLimitExceeded,
    TlsRequired,
}

impl ProblemCode {
    /// Every code, in the order of the table.
    pub const ALL: [Self; 29] = [
        Self::MalformedEnvelope,
        Self::InvalidEnvelope,
        Self::UnsupportedProtocol,
        Self::UnsupportedMediaType,
        Self::UnknownIntent,
        Self::InvalidPayload,
        Self::Unauthorized,
        Self::InvalidSignature,
        Self::StaleTimestamp,
        Self::TierRequired,
        Self::ScopeRequired,
        Self::AgentMismatch,
        Self::VenueNotFound,
        Self::BookingNotFound,
        Self::IdempotencyConflict,
        Self::InProgress,
        Self::SlotUnavailable,
        Self::RateLimited,
        Self::PayloadTooLarge,
        Self::CircuitOpen,
        Self::VenueUnreachable,
        Self::TtlExceeded,
        Self::Internal,
        Self::PaymentRequired,
        Self::PaymentDeclined,
        Self::PaymentLimitExceeded,
        Self::LoopDetected,
        Self::HopLimitExceeded,
        Self::TlsRequired,
    ];

    /// Name, HTTP status, and whether the same envelope may succeed later. This is the only table of codes.
    const fn row(self) -> (&'static str, u16, bool) {
        match self {
            Self::MalformedEnvelope => ("invalid_envelope", 400, false),
            Self::InvalidEnvelope => ("invalid_envelope", 422, false),
            Self::UnsupportedProtocol => ("unsupported_protocol", 400, false),
            Self::UnsupportedMediaType => ("invalid_envelope", 415, false),
            Self::UnknownIntent => ("unknown_intent", 400, false),
            Self::InvalidPayload => ("invalid_payload", 422, false),
            Self::Unauthorized => ("unauthorized", 401, false),
            Self::InvalidSignature => ("invalid_signature", 401, false),
            Self::StaleTimestamp => ("stale_timestamp", 400, false),
            Self::TierRequired => ("tier_required", 403, false),
            Self::ScopeRequired => ("scope_required", 403, false),
            Self::AgentMismatch => ("agent_mismatch", 403, false),
            Self::VenueNotFound => ("venue_not_found", 404, false),
            Self::BookingNotFound => ("booking_not_found", 404, false),
            Self::IdempotencyConflict => ("idempotency_conflict", 409, false),
            Self::InProgress => ("in_progress", 409, true),
            Self::SlotUnavailable => ("slot_unavailable", 409, false),
            Self::RateLimited => ("rate_limited", 429, true),
            Self::PayloadTooLarge => ("payload_too_large", 413, false),
            Self::CircuitOpen => ("circuit_open", 503, true),
            Self::VenueUnreachable => ("venue_unreachable", 502, true),
            Self::TtlExceeded => ("ttl_exceeded", 504, true),
            Self::Internal => ("internal", 500, true),
            Self::PaymentRequired => ("payment_required", 402, false),
            Self::PaymentDeclined => ("payment_declined", 402, false),
            Self::PaymentLimitExceeded => ("payment_limit_exceeded", 402, false),
            Self::LoopDetected => ("loop_detected", 508, false),
            Self::HopLimitExceeded => ("hop_limit_exceeded", 400, false),
            Self::TlsRequired => ("tls_required", 403, false),
        }
    }

    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        self.row().0
    }

    /// The HTTP status of the answer that carries this code.
    pub const fn http(self) -> u16 {
        self.row().1
    }

    /// Whether the same envelope, with the same timestamp, may succeed later.
    pub const fn is_retryable(self) -> bool {
        self.row().2
    }

    /// Finds the code of a name; the HTTP status decides between two codes of one name.
    pub fn parse(name: &str, http: u16) -> Option<Self> {
        let mut named = Self::ALL.into_iter().filter(|code| code.name() == name);
        let first = named.next()?;
        Some(if first.http() == http { first } else { named.find(|code| code.http() == http).unwrap_or(first) })
    }
}

/// Why the network refuses an envelope, in words that the sender may read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// The code that programs branch on.
    pub code: ProblemCode,
    /// What happened, and what to do about it.
    pub message: String,
    /// How long to wait before the next attempt.
    pub retry_after: Option<Duration>,
    /// Further details for programs, if there are any.
    pub details: Option<Object>,
}

impl Problem {
    /// A problem with a code and a message only.
    pub fn new(code: ProblemCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retry_after: None, details: None }
    }

    /// The same problem with a delay before the next attempt.
    #[must_use]
    pub const fn with_retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// The same problem with details for programs.
    #[must_use]
    pub fn with_details(mut self, details: Object) -> Self {
        self.details = Some(details);
        self
    }
}

/// The problem as a refusal that code without knowledge of the network passes on.
impl From<Problem> for NamedRefusal {
    fn from(Problem { code, message, retry_after, details }: Problem) -> Self {
        Self { reason: code.name().into(), message, retry_after, details }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_back_from_name_and_status() {
        for code in ProblemCode::ALL {
            assert_eq!(ProblemCode::parse(code.name(), code.http()), Some(code));
        }
        // An unexpected status does not hide the name.
        assert_eq!(ProblemCode::parse("slot_unavailable", 400), Some(ProblemCode::SlotUnavailable));
        assert_eq!(ProblemCode::parse("nonsense", 400), None);
    }
}
