//! What a sender can ask of a booking network.

use std::fmt;

/// What a sender can ask of the network. The protocol fixes the set, so it is a table here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
}
