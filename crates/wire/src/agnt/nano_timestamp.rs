//! The timestamp of an envelope, to the nanosecond.

use sabir_proto::Timestamp;
use std::fmt;

/// Nanoseconds since 1970, UTC. Two envelopes of one sender may be a microsecond apart, so milliseconds do not suffice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NanoTimestamp(i64);

const PER_MILLI: i64 = 1_000_000;

impl NanoTimestamp {
    /// A timestamp of so many nanoseconds since 1970.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// The number of nanoseconds since 1970.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// The timestamp cut to the millisecond.
    pub fn timestamp(self) -> Timestamp {
        Timestamp::from_millis(self.0.div_euclid(PER_MILLI))
    }

    /// Reads RFC 3339 in UTC: `Z` or `+00:00`, and up to nine digits of fraction. Other offsets are refused: each
    /// timestamp has one spelling per resolution, so that people recognise retries by eye.
    pub fn parse(text: &str) -> Option<Self> {
        let local = text.strip_suffix('Z').or_else(|| text.strip_suffix("+00:00"))?;
        let mut whole = [b'Z'; 20];
        whole[..19].copy_from_slice(local.get(..19)?.as_bytes());
        let seconds = Timestamp::parse(std::str::from_utf8(&whole).ok()?)?.millis() / 1000;
        let fraction = match local.get(19..)? {
            "" => 0,
            rest => {
                let digits = rest.strip_prefix('.')?;
                if digits.is_empty() || digits.len() > 9 || !digits.bytes().all(|b| b.is_ascii_digit()) {
                    return None;
                }
                let padded = digits.bytes().chain(std::iter::repeat(b'0')).take(9);
                padded.fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'))
            }
        };
        seconds.checked_mul(1_000_000_000)?.checked_add(fraction).map(Self)
    }
}

impl From<Timestamp> for NanoTimestamp {
    fn from(time: Timestamp) -> Self {
        Self(time.millis().saturating_mul(PER_MILLI))
    }
}

/// Writes microseconds, as the network does, and nanoseconds only where they are not zero.
impl fmt::Display for NanoTimestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, fraction) = (self.timestamp().to_string(), self.0.rem_euclid(1_000_000_000));
        let (mut digits, mut rest) = ([b'0'; 9], fraction);
        for digit in digits.iter_mut().rev() {
            *digit += u8::try_from(rest % 10).unwrap_or(0);
            rest /= 10;
        }
        let shown = if fraction % 1000 == 0 { 6 } else { 9 };
        let digits = std::str::from_utf8(&digits[..shown]).map_err(|_| fmt::Error)?;
        [seconds.get(..19).unwrap_or_default(), ".", digits, "Z"].into_iter().try_for_each(|part| f.write_str(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_instant_in_several_spellings_is_one_moment() {
        let moment = NanoTimestamp::parse("2026-04-02T10:22:03Z").unwrap();
        for text in ["2026-04-02T10:22:03.000Z", "2026-04-02T10:22:03+00:00", "2026-04-02T10:22:03.000000000Z"] {
            assert_eq!(NanoTimestamp::parse(text), Some(moment), "{text}");
        }
        assert_eq!(moment.to_string(), "2026-04-02T10:22:03.000000Z");
        let finer = NanoTimestamp::parse("2026-04-02T10:22:03.000001Z").unwrap();
        assert_eq!(finer.nanos() - moment.nanos(), 1000);
        assert_eq!(
            NanoTimestamp::parse("2026-04-02T10:22:03.123456789Z").unwrap().to_string(),
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
            assert_eq!(NanoTimestamp::parse(text), None, "{text:?}");
        }
    }
}
