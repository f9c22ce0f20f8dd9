//! Counts wrong passwords by address, so that no client can try them all.
//!
//! Only secrets that people choose are worth guessing: passwords, and the static token of older peers. API keys and
//! signed tokens are not: a caller that shows one is neither counted nor turned away, so a wrong password does not lock
//! out the callers with a key that are at the same address or behind the same proxy.

use crate::authn::{self, api_key};
use crate::identity::{PresentedCredential, RequestEvidence};
use crate::refusal::Refusal;
use sabir_proto::Timestamp;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

/// The wrong passwords of an address within a minute that are too many.
const GUESSES_MAX: u32 = 30;
/// The maximum number of addresses. When there are more, every count begins anew.
const ADDRESSES_MAX: usize = 10_000;
const MINUTE_MS: i64 = 60_000;

/// The wrong passwords of the last minute.
#[derive(Debug, Default)]
pub(crate) struct PasswordGuesses {
    by_address: Mutex<HashMap<IpAddr, (Timestamp, u32)>>,
}

impl PasswordGuesses {
    /// Whether an address has guessed too often. A credential that cannot be guessed passes all the same.
    pub(crate) fn is_blocked(&self, evidence: &RequestEvidence<'_>) -> bool {
        let by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        // Usually no address has guessed, and then nothing is checked.
        if by_address.is_empty() || !is_guessable(evidence) {
            return false;
        }
        let Some(address) = evidence.address.map(address_prefix) else { return false };
        by_address.get(&address).is_some_and(|(since, count)| *count >= GUESSES_MAX && is_recent(*since, evidence.now))
    }

    /// Counts a refusal, if it was of a guess.
    pub(crate) fn record(&self, evidence: &RequestEvidence<'_>, refusal: &Refusal) {
        if !matches!(refusal.reason, "basic_wrong" | "legacy_wrong") || !is_guessable(evidence) {
            return;
        }
        let Some(address) = evidence.address.map(address_prefix) else { return };
        let mut by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        if by_address.len() >= ADDRESSES_MAX && !by_address.contains_key(&address) {
            by_address.retain(|_, (since, _)| is_recent(*since, evidence.now));
            if by_address.len() >= ADDRESSES_MAX {
                by_address.clear();
            }
        }
        let (since, count) = by_address.entry(address).or_insert((evidence.now, 0));
        if !is_recent(*since, evidence.now) {
            (*since, *count) = (evidence.now, 0);
        }
        *count += 1;
    }
}

/// Whether what a caller shows could be a guess at a secret that a person has chosen: a password, or a bearer that is
/// neither one of our API keys nor a signed token by its form.
fn is_guessable(evidence: &RequestEvidence<'_>) -> bool {
    match evidence.presented_credential() {
        Ok(PresentedCredential::Password(_)) => true,
        Ok(PresentedCredential::Bearer(token)) => {
            api_key::KeyKind::of(token).is_none() && !authn::is_signed_token(token)
        }
        _ => false,
    }
}

fn is_recent(since: Timestamp, now: Timestamp) -> bool {
    (0..MINUTE_MS).contains(&now.millis().saturating_sub(since.millis()))
}

/// The part of an address that identifies its network: the first half of an IPv6 address, because its owner chooses the
/// second half.
pub fn address_prefix(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => std::net::Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authn::Scheme;
    use crate::authn::basic::Channel;
    use http::header::AUTHORIZATION;
    use http::{HeaderMap, HeaderValue};

    const KEY: &str = "sabir_0123456789abcdef0123456789abcdef";
    const TOKEN: &str = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbmEifQ.AAAA";

    fn bearer(credential: &str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {credential}")).unwrap())])
    }

    fn evidence<'a>(address: &str, headers: &'a HeaderMap, second: i64) -> RequestEvidence<'a> {
        RequestEvidence {
            headers,
            body: None,
            channel: Channel::Tls,
            certificate: None,
            address: Some(address.parse().unwrap()),
            host: None,
            now: Timestamp::from_millis(second * 1000),
        }
    }

    #[test]
    fn an_address_that_guesses_is_not_listened_to_for_a_minute() {
        let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Basic YTpi"))]);
        let (guesses, none) = (PasswordGuesses::default(), HeaderMap::new());
        let wrong = |reason| Refusal::unauthenticated(Some(Scheme::Basic), reason, "no");
        for _ in 0..GUESSES_MAX {
            assert!(!guesses.is_blocked(&evidence("2001:db8::1", &headers, 0)));
            guesses.record(&evidence("2001:db8::1", &headers, 0), &wrong("basic_wrong"));
            guesses.record(&evidence("192.0.2.1", &headers, 0), &wrong("key_unknown"));
            for credential in [KEY, TOKEN] {
                guesses.record(&evidence("192.0.2.2", &bearer(credential), 0), &wrong("legacy_wrong"));
            }
        }
        assert!(
            !guesses.is_blocked(&evidence("192.0.2.2", &bearer("a word"), 59)),
            "what cannot be guessed is not counted"
        );
        for credential in [KEY, TOKEN] {
            let good = bearer(credential);
            assert!(!guesses.is_blocked(&evidence("2001:db8::1", &good, 59)), "nor turned away: {credential}");
        }
        for guess in ["a word", "my.secret.key", "sabir_0123", "agnt_live_"] {
            assert!(guesses.is_blocked(&evidence("2001:db8::1", &bearer(guess), 59)), "{guess}");
        }
        assert!(guesses.is_blocked(&evidence("2001:db8::ffff", &headers, 59)), "the same household");
        assert!(!guesses.is_blocked(&evidence("2001:db8::1", &none, 59)), "who shows nothing guesses nothing");
        assert!(!guesses.is_blocked(&evidence("2001:db8:0:1::1", &headers, 59)));
        assert!(!guesses.is_blocked(&evidence("192.0.2.1", &headers, 59)), "keys cannot be guessed");
        assert!(!guesses.is_blocked(&evidence("2001:db8::1", &headers, 60)));
    }

    #[test]
    fn strangers_take_a_bounded_room() {
        let (guesses, headers) = (PasswordGuesses::default(), bearer("a word"));
        for number in 0..u32::try_from(ADDRESSES_MAX).unwrap() + 10 {
            let address = Some(std::net::Ipv4Addr::from_bits(number).into());
            let (channel, now) = (Channel::Tls, Timestamp::from_millis(0));
            let evidence =
                RequestEvidence { headers: &headers, body: None, channel, certificate: None, address, host: None, now };
            guesses.record(&evidence, &Refusal::unauthenticated(Some(Scheme::Basic), "basic_wrong", "no"));
        }
        assert!(guesses.by_address.lock().unwrap().len() <= ADDRESSES_MAX);
    }
}
