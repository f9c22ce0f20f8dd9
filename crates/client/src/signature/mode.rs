//! How much a card's signatures matter to somebody.

use super::{Reason, Verdict};
use std::fmt;
use std::str::FromStr;

/// What is asked of a card before its agent is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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

    /// Whether a card with this verdict may be used.
    pub fn admits(self, verdict: &Verdict) -> Result<(), Distrust> {
        match (self, verdict) {
            (Self::Off, _) | (_, Verdict::Verified { .. }) | (Self::IfPresent, Verdict::Absent) => Ok(()),
            (Self::Require, Verdict::Absent) => Err(Distrust::Unsigned),
            (Self::IfPresent | Self::Require, Verdict::Unverifiable { reason }) => {
                Err(Distrust::Unverifiable(reason.clone()))
            }
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
    fn a_mode_is_what_its_name_says() {
        let wrong = Verdict::Unverifiable { reason: Reason::Wrong };
        let admitted = |verdict: &Verdict| Mode::ALL.map(|mode| mode.admits(verdict).is_ok());
        assert_eq!(admitted(&Verdict::Absent), [true, true, false]);
        assert_eq!(admitted(&wrong), [true, false, false]);
        assert!(Mode::ALL.iter().all(|mode| mode.to_string().parse() == Ok(*mode)));
        assert!("Require".parse::<Mode>().is_err());
    }
}
