//! Reads the members of a certificate that the TLS library does not expose: its dates, and whether it is self-signed.
//!
//! The DER is parsed by hand, only as far as needed. No decision depends on it: the TLS verifier decides about trust.

/// The dates and the issuer of a certificate.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Certificate {
    /// The start of validity, in Unix seconds.
    pub(super) not_before: i64,
    /// The end of validity, in Unix seconds.
    pub(super) not_after: i64,
    /// Whether issuer and subject are the same.
    pub(super) is_own_issuer: bool,
}

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
/// The tag `[0]` around the version.
const VERSION: u8 = 0xa0;

impl Certificate {
    /// Parses an X.509 certificate; `None` for anything else.
    pub(super) fn read(der: &[u8]) -> Option<Self> {
        let (certificate, _) = take(der, SEQUENCE)?;
        let (mut rest, _) = take(certificate, SEQUENCE)?;
        if rest.first() == Some(&VERSION) {
            (_, rest) = take(rest, VERSION)?;
        }
        (_, rest) = take(rest, INTEGER)?;
        (_, rest) = take(rest, SEQUENCE)?;
        let (issuer, rest) = take(rest, SEQUENCE)?;
        let (validity, rest) = take(rest, SEQUENCE)?;
        let (subject, _) = take(rest, SEQUENCE)?;
        let (not_before, validity) = time(validity)?;
        let (not_after, _) = time(validity)?;
        Some(Self { not_before, not_after, is_own_issuer: issuer == subject })
    }
}

/// The content of the first DER value, which must have this tag, and the rest.
fn take(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let [found, first, rest @ ..] = der else { return None };
    if *found != tag {
        return None;
    }
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            (bytes.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

/// A date in either of its two forms, as Unix seconds.
fn time(der: &[u8]) -> Option<(i64, &[u8])> {
    let utc = der.first() == Some(&UTC_TIME);
    let (text, rest) = take(der, if utc { UTC_TIME } else { GENERALIZED_TIME })?;
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let (year, at) = if utc {
        // RFC 5280: the years 50 to 99 are 1950 to 1999.
        let short = number(0, 2)?;
        (if short < 50 { 2000 + short } else { 1900 + short }, 2)
    } else {
        (number(0, 4)?, 4)
    };
    let days = days(year, number(at, at + 2)?, number(at + 2, at + 4)?);
    let (hours, minutes, seconds) = (number(at + 4, at + 6)?, number(at + 6, at + 8)?, number(at + 8, at + 10)?);
    Some((days * 86_400 + hours * 3600 + minutes * 60 + seconds, rest))
}

/// Days since 1970 in the Gregorian calendar. Years start in March, so that a leap day is the last of its year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (century, of_century) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    century * 146_097 + of_century * 365 + of_century / 4 - of_century / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;

    /// `openssl ca -selfsign -startdate 20240229000000Z -enddate 20500101000000Z`: each date in another form.
    const SELF_SIGNED: &str = "MIIBATCBqAIBATAKBggqhkjOPQQDAjAMMQowCAYDVQQDDAF4MCAXDTI0MDIyOTAwMDAwMFoYDzIwNTAwMTAxMDAwMDAwWjAMMQowCAYDVQQDDAF4MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEu9QOS6/TtEGG9a86BHbfvBttSV+1KEouxas/1XaP9HlWe9v6uka30bL0rndkteAufJ7zhrvkkpDUOA7QFYxrTAKBggqhkjOPQQDAgNIADBFAiA2PrcV5fAy5f733WGQ7F7NcsWHbI4IwtmJMTBRogf6vgIhAJNr3/kQkrll5vyPaVlAtEsKXP4uYr+pnMzNw4ISpDq0";

    #[test]
    fn dates_are_read_in_both_forms() {
        let der = base64::engine::general_purpose::STANDARD.decode(SELF_SIGNED).unwrap();
        let expected = Certificate { not_before: 1_709_164_800, not_after: 2_524_608_000, is_own_issuer: true };
        assert_eq!(Certificate::read(&der), Some(expected));
        for cut in 0..der.len().min(200) {
            // A truncated certificate is no certificate, and no panic.
            assert_eq!(Certificate::read(&der[..cut]), None);
        }
    }

    #[test]
    fn days_are_counted_over_leap_years() {
        assert_eq!((days(1970, 1, 1), days(2000, 3, 1), days(2024, 2, 29)), (0, 11_017, 19_782));
        assert_eq!(days(1969, 12, 31), -1);
    }
}
