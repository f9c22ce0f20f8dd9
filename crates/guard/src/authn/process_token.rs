//! The token with which an agent-native server calls itself back to work on a task: a time in milliseconds and an HMAC
//! over the task's id and that time, under the shared secret.
//!
//! Unlike for [`super::native_jwt`], the secret is used as it is configured, blanks and all; the peer does the same.

use aws_lc_rs::hmac;
use sabir_proto::{Secret, Timestamp, digest};

/// The maximum age of a token, in milliseconds; exactly this age is still accepted.
pub const AGE_MAX_MS: i64 = 300_000;
/// How far its time may be ahead of our clock, in milliseconds; exactly this is still accepted.
pub const AHEAD_MAX_MS: i64 = 60_000;

/// Why a token is refused. The peer learns only that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProcessTokenFault {
    /// No secret is configured.
    #[error("there is no secret to verify with")]
    NoSecret,
    /// Not a time, a dot, and a signature.
    #[error("malformed token")]
    Malformed,
    /// Too old, or too far ahead.
    #[error("expired")]
    Expired,
    /// For another task, at another time, or with another secret.
    #[error("the signature is wrong")]
    Signature,
}

/// Makes a token for a task.
pub fn make(secret: &Secret, task: &str, now: Timestamp) -> Secret {
    let tag = hmac::sign(&key(secret), &message(task, now.millis()));
    Secret::new(format!("{}.{}", now.millis(), digest::hex(tag.as_ref())))
}

/// Verifies that a token is for a task, and valid now.
pub fn verify(token: &str, secret: Option<&Secret>, task: &str, now: Timestamp) -> Result<(), ProcessTokenFault> {
    let secret = secret.filter(|secret| !secret.is_empty()).ok_or(ProcessTokenFault::NoSecret)?;
    let (stamp, signature) = token.split_once('.').ok_or(ProcessTokenFault::Malformed)?;
    let stamp = number(stamp).ok_or(ProcessTokenFault::Malformed)?;
    let age = now.millis().saturating_sub(stamp);
    if !(-AHEAD_MAX_MS..=AGE_MAX_MS).contains(&age) {
        return Err(ProcessTokenFault::Expired);
    }
    // The peer compares the text, so upper-case hex is invalid.
    let signature = super::decode_hex(signature).ok_or(ProcessTokenFault::Signature)?;
    hmac::verify(&key(secret), &message(task, stamp), &signature).map_err(|_| ProcessTokenFault::Signature)
}

fn key(secret: &Secret) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, secret.expose().as_bytes())
}

fn message(task: &str, millis: i64) -> Vec<u8> {
    format!("{task}:{millis}").into_bytes()
}

/// The peer reads the time as JavaScript's `Number` does and signs what it has read. Of the forms that `Number` takes,
/// these make a whole number of milliseconds: decimal, exponents, and 0x, 0o, 0b; blanks around them.
fn number(text: &str) -> Option<i64> {
    let text = text.trim();
    let lower = text.to_ascii_lowercase();
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = lower.strip_prefix(prefix) {
            let plain = digits.bytes().all(|b| b.is_ascii_alphanumeric());
            return i64::from_str_radix(digits, radix).ok().filter(|_| plain);
        }
    }
    if !lower.bytes().all(|b| matches!(b, b'0'..=b'9' | b'+' | b'-' | b'e')) {
        return None;
    }
    let number: f64 = lower.parse().ok()?;
    // Beyond this, neither side can tell neighbouring milliseconds apart; and no window reaches that far.
    let whole = number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "whole, and within 53 bits")]
    whole.then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct ProcessTokenVectors {
        cases: Vec<ProcessTokenCase>,
    }

    #[derive(Deserialize)]
    struct ProcessTokenCase {
        name: String,
        secret: Option<String>,
        task_id: String,
        token: String,
        now_ms: i64,
        accepted: bool,
    }

    #[test]
    fn every_token_of_the_vectors_gets_its_verdict() {
        let vectors = include_str!("../../tests/vectors/agent-native-process-token.json");
        let vectors: ProcessTokenVectors = serde_json::from_str(vectors).unwrap();
        assert_eq!(vectors.cases.len(), 28);
        for case in vectors.cases {
            let secret = case.secret.map(Secret::new);
            let now = Timestamp::from_millis(case.now_ms);
            let ours = verify(&case.token, secret.as_ref(), &case.task_id, now);
            assert_eq!(ours.is_ok(), case.accepted, "{}: {ours:?}", case.name);
            // Every accepted token in plain form is the one that we would make.
            let plain = case.token.split_once('.').and_then(|(stamp, _)| stamp.parse::<i64>().ok());
            if let (true, Some(stamp), Some(secret)) = (case.accepted, plain, &secret)
                && case.token.starts_with(&stamp.to_string())
            {
                assert_eq!(make(secret, &case.task_id, Timestamp::from_millis(stamp)).expose(), case.token);
            }
        }
    }

    #[test]
    fn an_empty_secret_opens_nothing() {
        let (empty, now) = (Secret::new(""), Timestamp::from_millis(1_700_000_000_123));
        let token = make(&empty, "t", now);
        assert_eq!(verify(token.expose(), Some(&empty), "t", now), Err(ProcessTokenFault::NoSecret));
        assert_eq!(verify(token.expose(), None, "t", now), Err(ProcessTokenFault::NoSecret));
    }

    #[test]
    fn numbers_are_read_as_javascript_reads_them() {
        for (text, expected) in [
            ("17e11", Some(1_700_000_000_000)),
            (" 12 ", Some(12)),
            ("0X1F", Some(31)),
            ("0b101", Some(5)),
            ("-5", Some(-5)),
            ("15e-1", None),
            ("0x-1", None),
            ("0x", None),
            ("1e400", None),
            ("inf", None),
            ("nan", None),
            ("1_0", None),
            ("", None),
        ] {
            assert_eq!(number(text), expected, "{text}");
        }
    }
}
