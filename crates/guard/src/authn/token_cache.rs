//! A cache of verified tokens: a caller sends the same one with every request, and elliptic curves are slow.
//!
//! A token is identified by its hash, so that the cache holds nothing worth stealing. A token counts as verified while
//! the key set that verified it is in use; when keys are fetched again, every token is verified again.

use super::jwks::KeySet;
use super::oidc::VerifiedToken;
use aws_lc_rs::digest::{SHA256, digest};
use sabir_proto::Timestamp;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The maximum number of cached tokens, at about half a kilobyte each.
pub(super) const TOKENS_MAX: usize = 10_000;

pub(super) type TokenHash = [u8; 32];

/// The hash that identifies a token.
pub(super) fn token_hash(token: &str) -> TokenHash {
    let mut print = [0; 32];
    print.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    print
}

#[derive(Default)]
pub(super) struct VerifiedTokenCache {
    tokens: Mutex<HashMap<TokenHash, CachedToken>>,
}

#[derive(Clone)]
pub(super) struct CachedToken {
    pub(super) token: Arc<VerifiedToken>,
    /// The index of the configured issuer.
    pub(super) issuer: usize,
    /// The key set that verified the token.
    pub(super) keys: Arc<KeySet>,
    /// The moment from which the token is invalid.
    pub(super) valid_until: Timestamp,
}

impl VerifiedTokenCache {
    pub(super) fn get(&self, print: &TokenHash, now: Timestamp) -> Option<CachedToken> {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.get(print).filter(|entry| now < entry.valid_until).cloned()
    }

    pub(super) fn insert(&self, print: TokenHash, entry: CachedToken, now: Timestamp) {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if tokens.len() >= TOKENS_MAX {
            tokens.retain(|_, entry| now < entry.valid_until);
        }
        if tokens.len() >= TOKENS_MAX {
            // Makes room for an eighth at once, from the tokens that expire first.
            let mut ends: Vec<Timestamp> = tokens.values().map(|entry| entry.valid_until).collect();
            let (_, limit, _) = ends.select_nth_unstable(TOKENS_MAX / 8);
            let limit = *limit;
            let mut room = TOKENS_MAX / 8;
            tokens.retain(|_, entry| {
                let goes = entry.valid_until <= limit && room > 0;
                room -= usize::from(goes);
                !goes
            });
        }
        tokens.insert(print, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(until: i64) -> CachedToken {
        let (bearer, keys) = (Arc::new(VerifiedToken::default()), Arc::new(KeySet::default()));
        CachedToken { token: bearer, issuer: 0, keys, valid_until: Timestamp::from_millis(until) }
    }

    #[test]
    fn a_token_is_known_until_its_end_and_not_a_moment_longer() {
        let verified = VerifiedTokenCache::default();
        verified.insert(token_hash("a"), entry(1000), Timestamp::from_millis(0));
        assert!(verified.get(&token_hash("a"), Timestamp::from_millis(999)).is_some());
        assert!(verified.get(&token_hash("a"), Timestamp::from_millis(1000)).is_none());
        assert!(verified.get(&token_hash("b"), Timestamp::from_millis(0)).is_none());
    }

    #[test]
    fn memory_is_bounded_whether_tokens_end_or_not() {
        for until in [|_: i64| 10_000_000, |now: i64| now + 5, |now: i64| 10_000_000 - now] {
            let verified = VerifiedTokenCache::default();
            for now in 0..3 * i64::try_from(TOKENS_MAX).unwrap() {
                let token = now.to_string();
                verified.insert(token_hash(&token), entry(until(now)), Timestamp::from_millis(now));
                assert!(verified.get(&token_hash(&token), Timestamp::from_millis(now)).is_some(), "the newest stays");
            }
            let held = verified.tokens.lock().unwrap().len();
            assert!(held <= TOKENS_MAX, "{held}");
        }
    }
}
