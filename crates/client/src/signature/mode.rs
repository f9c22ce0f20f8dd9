//! How much a card's signatures matter to somebody.

use super::{FetchKeys, Reason, Trust, vouched};
use crate::discover::Found;
use std::fmt;
use std::str::FromStr;

/// What is asked of a card before its agent is called. The later ones ask for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Mode {
    /// Nothing: signatures are not looked at.
    #[default]
    Off,
    /// A card need not be signed; one that is must be verified.
    IfPresent,
    /// A card must be signed, and verified.
    Require,
}

/// Why a card is not believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    /// Nobody signed it.
    #[error("it is not signed")]
    Unsigned,
    /// It is signed, and that tells us nothing.
    #[error("its signature does not verify: {0}")]
    Unverifiable(Reason),
    /// It is signed, and what matters most is not under the signature.
    #[error("its signature holds, but does not cover {0}")]
    Uncovered(&'static str),
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 3] = [Self::Off, Self::IfPresent, Self::Require];

    /// As it is written in a configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::IfPresent => "if-present",
            Self::Require => "require",
        }
    }

    /// As much of a card as may be used: everything where nothing was asked, and where it is signed only what was
    /// signed ([`vouched`]).
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

/// No mode of that name.
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
