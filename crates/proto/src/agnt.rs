//! The vocabulary of AGNT's booking network: its intents and its problem codes. `wire` encodes and decodes the
//! envelope; `network` carries out the intents.

mod envelope_meta;
mod hop;

pub use envelope_meta::{ENVELOPE_META, EnvelopeMeta, data_object};
pub use hop::EnvelopeHop;

use crate::Object;
use std::fmt;
use std::time::Duration;

/// The only version of the envelope that the network defines.
pub const PROTOCOL: &str = "openclaw/a2a/v1";

/// What a sender can ask of the network. The protocol fixes the set, so it is a table here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are the network's own")]
pub enum Intent {
    NetworkPing,
    VenueList,
    BookingSearch,
    BookingConfirm,
    BookingStatus,
    PaymentAuthorize,
}

impl Intent {
    /// Every intent. `booking.status` is an addition of ours: the network's description has a `booking_id` to track a
    /// booking by, and no intent to do it with.
    pub const ALL: [Self; 6] = [
        Self::NetworkPing,
        Self::VenueList,
        Self::BookingSearch,
        Self::BookingConfirm,
        Self::BookingStatus,
        Self::PaymentAuthorize,
    ];

    /// The name on the wire, which is also the id of the skill.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NetworkPing => "network.ping",
            Self::VenueList => "venue.list",
            Self::BookingSearch => "booking.search",
            Self::BookingConfirm => "booking.confirm",
            Self::BookingStatus => "booking.status",
            Self::PaymentAuthorize => "payment.authorize",
        }
    }

    /// Parses a name; the comparison is exact.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|intent| intent.name() == name)
    }

    /// Whether the intent changes anything. Such an envelope must carry a timestamp, runs once, and needs a paid tier.
    pub const fn has_effect(self) -> bool {
        match self {
            Self::NetworkPing | Self::VenueList | Self::BookingSearch | Self::BookingStatus => false,
            Self::BookingConfirm | Self::PaymentAuthorize => true,
        }
    }

    /// Whether the envelope must be signed, whatever the API key allows.
    pub const fn must_be_signed(self) -> bool {
        matches!(self, Self::PaymentAuthorize)
    }

    /// The least of the scopes `query`, `booking` and `full` that covers the intent.
    pub const fn scope(self) -> &'static str {
        match self {
            Self::NetworkPing | Self::VenueList | Self::BookingSearch | Self::BookingStatus => "query",
            Self::BookingConfirm => "booking",
            Self::PaymentAuthorize => "full",
        }
    }
}

impl fmt::Display for Intent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The kind of a problem: a name for programs, with an HTTP status for proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the network's own; where one has two statuses it has two entries")]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intents_are_known_by_their_exact_names() {
        for intent in Intent::ALL {
            assert_eq!(Intent::parse(intent.name()), Some(intent));
        }
        for name in ["Network.ping", "network.ping ", "network", "", "booking.cancel"] {
            assert_eq!(Intent::parse(name), None, "{name:?}");
        }
    }

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
