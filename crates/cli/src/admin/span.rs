//! Parses spans of time and moments as people type them.

use sabir_proto::Timestamp;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Parses a span such as `30d`, `2w`, `12h` or `1d12h`. `0` is no time at all.
pub(super) fn span(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no span of time; it looks like 30d, 2w, 12h or 90m");
    if text == "0" { Ok(Duration::ZERO) } else { crate::settings::span(text).ok_or_else(wrong) }
}

/// Parses a span from now on, a date (its first moment, in UTC), or a date with a time.
pub(super) fn moment(text: &str) -> Result<Timestamp, String> {
    moment_from(text, now_ms())
}

fn moment_from(text: &str, now_ms: i64) -> Result<Timestamp, String> {
    let wrong = || format!("{text:?} is no moment; it looks like 30d, 12h, 2027-01-31 or 2027-01-31T12:00:00Z");
    let date = Timestamp::parse(&format!("{text}T00:00:00Z")).or_else(|| Timestamp::parse_loose(text));
    let moment = match date {
        Some(date) => date,
        None => {
            let span_ms = span(text).ok().and_then(|span| i64::try_from(span.as_millis()).ok()).ok_or_else(wrong)?;
            Timestamp::from_millis(now_ms.checked_add(span_ms).ok_or_else(wrong)?)
        }
    };
    if moment.millis() <= now_ms { Err(format!("{text} has passed already")) } else { Ok(moment) }
}

/// Parses a span before now, a date (its first moment, in UTC), or a date with a time.
pub(super) fn moment_past(text: &str) -> Result<Timestamp, String> {
    let wrong = || format!("{text:?} is no moment; it looks like 24h, 30d, 2026-11-16 or 2026-11-16T12:00:00Z");
    let date = Timestamp::parse(&format!("{text}T00:00:00Z")).or_else(|| Timestamp::parse_loose(text));
    if let Some(date) = date {
        return Ok(date);
    }
    let span_ms = span(text).ok().and_then(|span| i64::try_from(span.as_millis()).ok()).ok_or_else(wrong)?;
    Ok(Timestamp::from_millis(now_ms().saturating_sub(span_ms)))
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 24 * 60 * 60;

    #[test]
    fn spans_are_read_as_people_write_them() {
        for (text, seconds) in
            [("30d", 30 * DAY), ("2w", 14 * DAY), ("1d12h", 36 * 3600), ("90m", 5400), ("1.5d", 36 * 3600), ("0", 0)]
        {
            assert_eq!(span(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "d", "30", "30 d", "-1d", "1.5.0d", "1x", "99999999999999999999d", "9999999999999999w"] {
            assert!(span(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_moment_is_a_span_from_now_or_a_date() {
        let now = Timestamp::parse("2026-11-15T12:00:00Z").unwrap().millis();
        for (text, moment) in [
            ("30d", "2026-12-15T12:00:00.000Z"),
            ("2027-01-31", "2027-01-31T00:00:00.000Z"),
            ("2027-01-31T10:00:00Z", "2027-01-31T10:00:00.000Z"),
            ("2027-01-31T10:00:00+02:00", "2027-01-31T08:00:00.000Z"),
        ] {
            assert_eq!(moment_from(text, now).unwrap().to_string(), moment);
        }
        for text in ["2026-11-15", "0", "2027-02-30", "soon", ""] {
            assert!(moment_from(text, now).is_err(), "{text}");
        }
    }
}
