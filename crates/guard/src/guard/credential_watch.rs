//! Watches credentials: a stream outlives its request, and must not outlive the credential that admitted its reader.

use super::Guard;
use crate::authn::{Scheme, native_jwt, oidc};
use crate::identity::{Identity, scheme_name};
use crate::refusal::{Refusal, key_refusal};
use sabir_proto::{Caller, Timestamp};
use sabir_store::{AuditRecord, Hash, KeyStatus};
use std::time::Duration;

/// How often a key is checked, so how long a revoked one may still be read with.
const KEY_CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// The longest time between checks of a token, whose end is known; clocks can be set meanwhile.
const TOKEN_CHECK_INTERVAL_MAX: Duration = Duration::from_secs(60);

/// How the end of a credential is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CredentialEnd {
    /// When the text with this hash is no valid key any more.
    Key(Hash),
    /// From this moment on, by a token of this scheme.
    Time(Timestamp, Scheme),
}

/// The credential of an admitted caller, to be checked again while the caller stays.
#[derive(Debug, Clone)]
pub struct CredentialWatch {
    caller: Caller,
    end: CredentialEnd,
}

impl Identity {
    /// The credential to check again while this caller stays; `None` where nothing can end.
    pub fn credential_watch(&self) -> Option<CredentialWatch> {
        self.credential_end().map(|ends| CredentialWatch { caller: self.caller().clone(), end: ends })
    }
}

impl CredentialWatch {
    /// The time until the next check, if nothing happens before.
    pub fn time_to_next_check(&self, now: Timestamp) -> Duration {
        match self.end {
            CredentialEnd::Key(_) => KEY_CHECK_INTERVAL,
            CredentialEnd::Time(end, _) => {
                let left = u64::try_from(end.millis() - now.millis()).unwrap_or(0);
                Duration::from_millis(left).min(TOKEN_CHECK_INTERVAL_MAX)
            }
        }
    }
}

impl Guard {
    /// Whether an admitted caller would be admitted again, by the same credential. Reads memory only.
    pub fn check_credential(&self, vigil: &CredentialWatch, now: Timestamp) -> Result<(), Refusal> {
        let refusal = match vigil.end {
            CredentialEnd::Key(hash) => match self.store.find(&hash, now) {
                Ok(KeyStatus::Valid(_)) => return Ok(()),
                Ok(standing) => key_refusal(&standing),
                Err(_) => Refusal::store_unavailable(),
            },
            CredentialEnd::Time(end, _) if now < end => return Ok(()),
            CredentialEnd::Time(_, Scheme::Native) => native_jwt::NativeUserFault::Expired.into(),
            CredentialEnd::Time(..) => oidc::AccessTokenFault::Expired.into(),
        };
        let scheme = scheme_name(refusal.scheme);
        self.record_refusal(AuditRecord::refusal(now, vigil.caller.clone(), scheme, "stay", refusal.reason), &refusal);
        Err(refusal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authenticator::{Authenticator, DeploymentFacts, SecretResolver};
    use crate::authn::basic::Channel;
    use crate::config::AuthConfig;
    use crate::fetch::FetchFault;
    use crate::fetch::fakes::FakeFetch;
    use crate::policy::rate::RateLimits;
    use crate::policy::{Rules, RulesId};
    use crate::{Metrics, RequestEvidence};
    use aws_lc_rs::hmac;
    use base64::Engine as _;
    use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
    use http::{HeaderMap, HeaderValue};
    use sabir_proto::{AgentName, Secret, ToolMode};

    use sabir_store::{AuditActor, GuardStore, KeyFingerprint, KeyId, KeyTerms, SecretRef, guard_in_memory};
    use std::sync::Arc;

    const SECRET: &str = "a secret that is long enough for everybody";
    const NOW: i64 = 1_700_000_000;

    struct OneSecret;

    impl SecretResolver for OneSecret {
        fn resolve(&self, _: &SecretRef) -> Result<Secret, String> {
            Ok(Secret::new(SECRET))
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    struct WatchTest {
        guard: Guard,
        store: Arc<dyn GuardStore>,
    }

    impl WatchTest {
        fn new() -> Self {
            let store = guard_in_memory();
            Self { guard: Guard::new(store.clone(), Arc::new(OneSecret), Metrics::default()), store }
        }

        async fn watch(&self, auth: &str, token: Option<&str>) -> Option<CredentialWatch> {
            let config: AuthConfig = toml::from_str(auth).unwrap();
            let fetch = FakeFetch::new(|_| Err(FetchFault::Timeout));
            let entrance = Authenticator::new(&config, &DeploymentFacts::default(), &OneSecret, &fetch).unwrap();
            let agent = AgentName::parse("echo").unwrap();
            let (limits, tools) = (RateLimits::default(), ToolMode::Full);
            let (id, authenticator) = (RulesId::next(), Arc::new(entrance));
            let rules = Rules { id, authenticator, agent, limits, skills: Vec::new(), tools };
            let header = token.map(|token| HeaderValue::from_str(&format!("Bearer {token}")).unwrap());
            let headers: HeaderMap = header.map(|value| (http::header::AUTHORIZATION, value)).into_iter().collect();
            let (channel, certificate, address, host) = (Channel::Plain, None, None, None);
            let evidence =
                RequestEvidence { headers: &headers, body: None, channel, certificate, address, host, now: at(NOW) };
            self.guard.admit(&rules, &evidence).await.unwrap().identity().credential_watch()
        }

        fn reason(&self, vigil: &CredentialWatch, now: i64) -> Option<&'static str> {
            self.guard.check_credential(vigil, at(now)).err().map(|refusal| refusal.reason)
        }
    }

    fn by() -> AuditActor {
        AuditActor { caller: Caller::named("test"), scheme: "test", at: at(NOW) }
    }

    #[tokio::test]
    async fn a_key_holds_until_it_is_revoked_or_over() {
        let door = WatchTest::new();
        let (first, second) = ("sabir_0123456789abcdef0123456789abcdef", "sabir_f123456789abcdef0123456789abcdef");
        let terms = KeyTerms { expires_at: Some(at(NOW + 100)), ..KeyTerms::default() };
        let id = KeyId::parse("k").unwrap();
        door.store.create(id.clone(), KeyFingerprint::of(first), terms, by()).await.unwrap();
        let old = door.watch("accept = [\"api_key\"]", Some(first)).await.unwrap();
        assert_eq!(old.time_to_next_check(at(NOW)), KEY_CHECK_INTERVAL);
        assert_eq!((door.reason(&old, NOW + 99), door.reason(&old, NOW + 100)), (None, Some("key_expired")));
        // Each text of a key has its own end.
        door.store.rotate(id.clone(), KeyFingerprint::of(second), at(NOW + 10), by()).await.unwrap();
        let new = door.watch("accept = [\"api_key\"]", Some(second)).await.unwrap();
        assert_eq!((door.reason(&old, NOW + 9), door.reason(&old, NOW + 10)), (None, Some("key_expired")));
        assert_eq!(door.reason(&new, NOW + 10), None);
        door.store.revoke(id, by()).await.unwrap();
        assert_eq!(door.reason(&new, NOW + 11), Some("key_revoked"));
        door.store.flush().await.unwrap();
        let audit = door.store.entries(0, 100).await.unwrap();
        let refused = |linked: &&sabir_store::LinkedEntry| &*linked.entry.reason == "key_revoked";
        assert_eq!(audit.iter().find(refused).unwrap().entry.operation, "stay");
    }

    #[tokio::test]
    async fn a_token_holds_until_its_time_is_over() {
        let door = WatchTest::new();
        let token = |exp: i64| {
            let claims = format!("{{\"sub\":\"ana@example.com\",\"exp\":{exp}}}");
            let input = format!("{}.{}", BASE64.encode("{\"alg\":\"HS256\"}"), BASE64.encode(claims));
            let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
            format!("{input}.{}", BASE64.encode(hmac::sign(&key, input.as_bytes())))
        };
        let vigil = door.watch("[jwt]\nsecret = \"env:ANY\"", Some(&token(NOW + 10))).await.unwrap();
        assert_eq!(vigil.time_to_next_check(at(NOW)), Duration::from_secs(10));
        assert_eq!(vigil.time_to_next_check(at(NOW + 20)), Duration::ZERO);
        assert_eq!((door.reason(&vigil, NOW + 9), door.reason(&vigil, NOW + 10)), (None, Some("token_expired")));
        let long = door.watch("[jwt]\nsecret = \"env:ANY\"", Some(&token(NOW + 10_000))).await.unwrap();
        assert_eq!(long.time_to_next_check(at(NOW)), TOKEN_CHECK_INTERVAL_MAX, "clocks can be set");
    }

    #[tokio::test]
    async fn nothing_is_asked_of_those_who_showed_nothing() {
        let door = WatchTest::new();
        assert!(door.watch("", None).await.is_none());
        assert!(door.watch("required = false\naccept = [\"api_key\"]", None).await.is_none());
    }
}
