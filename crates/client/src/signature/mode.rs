//! The signature mode: what a client requires of the signatures of a card.

use super::{FetchKeys, Reason, Trust, vouched};
use crate::discover::Found;
use std::fmt;
use std::str::FromStr;

/// The requirement on the signatures of a card before its agent is called. Later variants require more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Mode {
    /// Signatures are not checked.
    #[default]
    Off,
    /// A card may be unsigned; a signed card must be verified.
    IfPresent,
    /// A card must be signed and verified.
    Require,
}

/// Why a card is not trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    /// The card has no signature.
    #[error("it is not signed")]
    Unsigned,
    /// The card is signed, and the signature proves nothing.
    #[error("its signature does not verify: {0}")]
    Unverifiable(Reason),
    /// The signature is valid, but does not cover addresses or security requirements.
    #[error("its signature holds, but does not cover {0}")]
    Uncovered(&'static str),
}

impl Mode {
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

    /// Returns the usable part of a card: with mode [`Mode::Off`] or an accepted unsigned card all of it, otherwise
    /// only what is signed ([`vouched`]).
    pub async fn admit(self, found: Found, trust: &Trust, fetch: &impl FetchKeys) -> Result<Found, Distrust> {
        if self == Self::Off {
            return Ok(found);
        }
        match (self, vouched(&found, trust, fetch).await) {
            (_, Ok(vouched)) => Ok(vouched.found),
            (Self::IfPresent, Err(Distrust::Unsigned)) => Ok(found),
            (_, Err(distrust)) => Err(distrust),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// There is no mode of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no mode; there are off, if-present and require")]
pub struct UnknownMode(pub String);

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        Self::ALL.into_iter().find(|mode| mode.name() == text).ok_or_else(|| UnknownMode(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_written_as_it_is_read() {
        assert!(Mode::ALL.iter().all(|mode| mode.to_string().parse() == Ok(*mode)));
        assert!("Require".parse::<Mode>().is_err());
    }
}
