//! An instant as envelopes write it.

use sabir_proto::Timestamp;
use std::fmt;

/// Nanoseconds since 1970, UTC. Two envelopes of one sender may be a microsecond apart, so milliseconds would not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(i64);

const PER_MILLI: i64 = 1_000_000;

impl Moment {
    /// From nanoseconds since 1970.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since 1970.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// The millisecond it lies in.
    pub fn timestamp(self) -> Timestamp {
        Timestamp::from_millis(self.0.div_euclid(PER_MILLI))
    }

    /// Reads RFC 3339 in UTC: `Z` or `+00:00`, and up to nine digits of fraction. Other offsets are refused: an instant
    /// has one spelling per resolution, or retries would not be recognised by eye.
    pub fn parse(text: &str) -> Option<Self> {
        let local = text.strip_suffix('Z').or_else(|| text.strip_suffix("+00:00"))?;
        let seconds = Timestamp::parse(&format!("{}Z", local.get(..19)?))?.millis() / 1000;
        let fraction = match local.get(19..)? {
            "" => 0,
            rest => {
                let digits = rest.strip_prefix('.')?;
                if digits.is_empty() || digits.len() > 9 || !digits.bytes().all(|b| b.is_ascii_digit()) {
                    return None;
                }
                format!("{digits:0<9}").parse().ok()?
            }
        };
        seconds.checked_mul(1_000_000_000)?.checked_add(fraction).map(Self)
    }
}

impl From<Timestamp> for Moment {
    fn from(time: Timestamp) -> Self {
        Self(time.millis().saturating_mul(PER_MILLI))
    }
}

/// With microseconds, as the network writes it; with nanoseconds only where there are any.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.timestamp().to_string();
        let fraction = self.0.rem_euclid(1_000_000_000);
        write!(f, "{}.{:06}", &seconds[..19], fraction / 1000)?;
        match fraction % 1000 {
            0 => f.write_str("Z"),
            rest => write!(f, "{rest:03}Z"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_instant_in_several_spellings_is_one_moment() {
        let moment = Moment::parse("2026-04-02T10:22:03Z").unwrap();
        for text in ["2026-04-02T10:22:03.000Z", "2026-04-02T10:22:03+00:00", "2026-04-02T10:22:03.000000000Z"] {
            assert_eq!(Moment::parse(text), Some(moment), "{text}");
        }
        assert_eq!(moment.to_string(), "2026-04-02T10:22:03.000000Z");
        let finer = Moment::parse("2026-04-02T10:22:03.000001Z").unwrap();
        assert_eq!(finer.nanos() - moment.nanos(), 1000);
        assert_eq!(
            Moment::parse("2026-04-02T10:22:03.123456789Z").unwrap().to_string(),
            "2026-04-02T10:22:03.123456789Z"
        );
    }

    #[test]
    fn what_is_not_utc_or_not_a_time_is_refused() {
        for text in [
            "",
            "2026-04-02T10:22:03",
            "2026-04-02T10:22:03+01:00",
            "2026-04-02T10:22:03-00:00",
            "2026-04-02T10:22:03.Z",
            "2026-04-02T10:22:03.1234567890Z",
            "2026-02-30T10:22:03Z",
            "2026-04-02 10:22:03Z",
            "9999-04-02T10:22:03Z",
            "1775125323",
            "2026-04-02T10:22:0é3Z",
        ] {
            assert_eq!(Moment::parse(text), None, "{text:?}");
        }
    }
}
