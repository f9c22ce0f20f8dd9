//! The signature mode: what a client requires of the signatures of a card.

use super::{FetchKeys, TrustPolicy, UntrustedReason, verified_card};
use crate::discover::DiscoveredCard;
use std::fmt;
use std::str::FromStr;

/// The requirement on the signatures of a card before its agent is called. Later variants require more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum SignatureMode {
    /// Signatures are not checked.
    #[default]
    Off,
    /// A card may be unsigned; a signed card must be verified.
    IfPresent,
    /// A card must be signed and verified.
    Require,
}

impl SignatureMode {
    /// Every mode, from the weakest to the strongest.
    pub const ALL: [Self; 3] = [Self::Off, Self::IfPresent, Self::Require];

    /// The name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::IfPresent => "if-present",
            Self::Require => "require",
        }
    }

    /// Returns the usable part of a card: with mode [`SignatureMode::Off`] or an accepted unsigned card all of it, otherwise
    /// only what is signed ([`verified_card`]).
    pub async fn check_card(
        self,
        found: DiscoveredCard,
        trust: &TrustPolicy,
        fetch: &impl FetchKeys,
    ) -> Result<DiscoveredCard, UntrustedReason> {
        if self == Self::Off {
            return Ok(found);
        }
        match (self, verified_card(&found, trust, fetch).await) {
            (_, Ok(vouched)) => Ok(vouched.discovered_card),
            (Self::IfPresent, Err(UntrustedReason::Unsigned)) => Ok(found),
            (_, Err(distrust)) => Err(distrust),
        }
    }
}

impl fmt::Display for SignatureMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// There is no mode of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no mode; there are off, if-present and require")]
pub struct UnknownSignatureMode(pub String);

impl FromStr for SignatureMode {
    type Err = UnknownSignatureMode;

    fn from_str(text: &str) -> Result<Self, UnknownSignatureMode> {
        Self::ALL.into_iter().find(|mode| mode.name() == text).ok_or_else(|| UnknownSignatureMode(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_written_as_it_is_read() {
        assert!(SignatureMode::ALL.iter().all(|mode| mode.to_string().parse() == Ok(*mode)));
        assert!("Require".parse::<SignatureMode>().is_err());
    }
}
