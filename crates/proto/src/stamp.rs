//! Time: the wire form ([`Timestamp`]) and the ordering key of the store ([`Stamp`]).

use crate::lenient::from_text;
use jiff::SignedDuration;
use jiff::civil::DateTime;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// Milliseconds since 1970, UTC. On the wire it is ISO 8601 with milliseconds and `Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// The last instant with a year of four digits.
const LAST_MS: i64 = 253_402_300_799_999;
const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

impl Timestamp {
    /// Converts milliseconds since 1970, clamped to the years 1970 to 9999, which the wire form can express.
    pub fn from_millis(ms: i64) -> Self {
        Self(ms.clamp(0, LAST_MS))
    }

    /// The time in milliseconds since 1970.
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Parses what servers of older dialects write as well: an offset (Python's `isoformat()` writes `+00:00` for `Z`),
    /// or no zone at all, which means UTC.
    pub fn parse_loose(text: &str) -> Option<Self> {
        if let Some(time) = Self::parse(text) {
            return Some(time);
        }
        let date = text.get(..10)?;
        let time = text.get(10..)?;
        let (time, offset) = match time.rfind(['+', '-']) {
            Some(at) => time.split_at(at),
            None => (time, "+00:00"),
        };
        let (sign, clock) = offset.split_at(1);
        let (hours, minutes) = clock.split_once(':')?;
        let two_digits = |t: &str| (t.len() == 2).then(|| t.parse::<i64>().ok()).flatten();
        let (hours, minutes) = (two_digits(hours)?, two_digits(minutes)?);
        let shift = (hours * 60 + minutes) * 60_000 * if sign == "-" { -1 } else { 1 };
        let local = Self::parse(&format!("{date}{time}Z"))?;
        (hours < 24 && minutes < 60).then(|| Self::from_millis(local.millis() - shift))
    }

    /// Parses `YYYY-MM-DDTHH:MM:SS[.fraction]Z`. The specification allows no offset but `Z`; peers send 0 to 9 digits
    /// of fraction (the Python SDK six, Go nine), of which three are kept.
    pub fn parse(text: &str) -> Option<Self> {
        let b = text.as_bytes();
        let digits = |from: usize, to: usize| -> Option<i16> {
            b.get(from..to)?.iter().try_fold(0, |n, c| c.is_ascii_digit().then(|| n * 10 + i16::from(c - b'0')))
        };
        let two_digits = |from: usize| i8::try_from(digits(from, from + 2)?).ok();
        let mark = |at: usize, c: u8| (b.get(at)? == &c).then_some(());
        let (year, month, day) = (digits(0, 4)?, two_digits(5)?, two_digits(8)?);
        let (hour, minute, second) = (two_digits(11)?, two_digits(14)?, two_digits(17)?);
        [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')].iter().try_for_each(|&(at, c)| mark(at, c))?;
        let rest = &b[19..];
        let millis = match rest.strip_suffix(b"Z")? {
            [] => 0,
            [b'.', fraction @ ..] if (1..=9).contains(&fraction.len()) && fraction.iter().all(u8::is_ascii_digit) => {
                fraction.iter().chain(b"00").take(3).fold(0, |n, c| n * 10 + i32::from(c - b'0'))
            }
            _ => return None,
        };
        let time = DateTime::new(year, month, day, hour, minute, second, millis * 1_000_000).ok()?;
        let ms = i64::try_from(time.duration_since(EPOCH).as_millis()).ok()?;
        (year >= 1970).then_some(Self(ms))
    }

    fn write(self, out: &mut [u8; 24]) {
        out.copy_from_slice(b"0000-00-00T00:00:00.000Z");
        let time = EPOCH.saturating_add(SignedDuration::from_millis(self.0));
        let fields = [
            (0, 4, time.year()),
            (5, 2, time.month().into()),
            (8, 2, time.day().into()),
            (11, 2, time.hour().into()),
            (14, 2, time.minute().into()),
            (17, 2, time.second().into()),
            (20, 3, time.millisecond()),
        ];
        for (at, len, mut value) in fields {
            for slot in out[at..at + len].iter_mut().rev() {
                *slot = b'0' + u8::try_from(value % 10).unwrap_or(0);
                value /= 10;
            }
        }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 24];
        self.write(&mut text);
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        from_text(d, |text| {
            Self::parse(text)
                .ok_or_else(|| "not a timestamp; write it like 2026-01-31T09:30:00.000Z, in UTC".to_owned())
        })
    }
}

/// A number that is unique in one store and rises with time: 48 bits of milliseconds, 15 bits of count.
///
/// Task ids, the order of lists and the order of commits use stamps, so that the store appends every key of the send
/// path at the right edge of its tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Stamp(u64);

impl Stamp {
    const COUNT_BITS: u32 = 15;

    /// The first stamp of a millisecond.
    pub fn first_of(time: Timestamp) -> Self {
        Self(u64::try_from(time.0).unwrap_or(0) << Self::COUNT_BITS)
    }

    /// The stamp after this one, or the first of `now` if that is later. A clock that goes back never repeats a stamp.
    #[must_use]
    pub fn next(self, now: Timestamp) -> Self {
        Self::first_of(now).max(Self(self.0 + 1))
    }

    /// The millisecond that the stamp belongs to.
    pub fn time(self) -> Timestamp {
        Timestamp(i64::try_from(self.0 >> Self::COUNT_BITS).unwrap_or(i64::MAX).min(LAST_MS))
    }

    /// The stamp as a number, for the key of a store.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The stamp of a number from a store.
    pub const fn from_u64(raw: u64) -> Self {
        Self(raw & (u64::MAX >> 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_servers_write_offsets_or_no_zone_at_all() {
        for text in [
            "2025-08-01T10:00:00Z",
            "2025-08-01T10:00:00.000000+00:00",
            "2025-08-01T12:30:00+02:30",
            "2025-08-01T06:00:00.000-04:00",
            "2025-08-01T10:00:00.000",
        ] {
            assert_eq!(Timestamp::parse_loose(text), Timestamp::parse("2025-08-01T10:00:00Z"), "{text}");
        }
        for bad in
            ["", "now", "2025-08-01", "2025-08-01T10:00:00+25:00", "2025-08-01T10:00:00+1:00", "2025-08-0\u{e9}T"]
        {
            assert_eq!(Timestamp::parse_loose(bad), None, "{bad}");
        }
    }

    const DAY_MS: i64 = 86_400_000;

    #[test]
    fn timestamps_read_back_what_they_write() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_826_154_321, "2000-02-29T12:09:14.321Z"),
            (1_780_308_000_000, "2026-06-01T10:00:00.000Z"),
            (LAST_MS, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Timestamp(ms).to_string(), text);
            assert_eq!(Timestamp::parse(text), Some(Timestamp(ms)));
        }
        for day in 0..40_000 {
            let t = Timestamp(day * DAY_MS + day);
            assert_eq!(Timestamp::parse(&t.to_string()), Some(t));
        }
    }

    #[test]
    fn fractions_of_other_lengths_are_read_and_nonsense_is_not() {
        let read = |s| Timestamp::parse(s).map(Timestamp::millis);
        assert_eq!(read("1970-01-01T00:00:01Z"), Some(1000));
        assert_eq!(read("1970-01-01T00:00:01.5Z"), Some(1500));
        assert_eq!(read("1970-01-01T00:00:01.123456789Z"), Some(1123));
        for bad in [
            "",
            "1970",
            "1970-01-01",
            "1970-01-01T00:00:00",
            "1970-01-01T00:00:00+01:00",
            "1970-02-29T00:00:00Z",
            "1970-13-01T00:00:00Z",
            "1970-01-01T24:00:00Z",
            "1970-01-01T00:00:60Z",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:00:00.Z",
            "1970-01-01T00:00:00.1234567890Z",
            "+970-01-01T00:00:00Z",
            "1970-01-01 00:00:00Z",
            "１970-01-01T00:00:00Z",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn stamps_rise_even_when_time_does_not() {
        let now = Timestamp(5000);
        let mut last = Stamp::default();
        for _ in 0..100_000 {
            let next = last.next(now);
            assert!(next > last);
            last = next;
        }
        assert!(last.next(Timestamp(10)) > last);
        assert_eq!(Stamp::first_of(now).time(), now);
    }
}
