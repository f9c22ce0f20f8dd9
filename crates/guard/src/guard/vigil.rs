//! Watches credentials: a stream outlives its request, and must not outlive the credential that admitted its reader.

use super::Guard;
use crate::authn::{Scheme, native_jwt, oidc};
use crate::identity::{Identity, scheme_name};
use crate::refusal::{Refusal, bad_key};
use sabir_proto::{Caller, Timestamp};
use sabir_store::{Hash, Record, Standing};
use std::time::Duration;

/// How often a key is checked, so how long a revoked one may still be read with.
const KEY_LOOKS: Duration = Duration::from_secs(2);
/// The longest time between checks of a token, whose end is known; clocks can be set meanwhile.
const TOKEN_LOOKS_MAX: Duration = Duration::from_secs(60);

/// How the end of a credential is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// When the text with this hash is no valid key any more.
    Key(Hash),
    /// From this moment on, by a token of this scheme.
    At(Timestamp, Scheme),
}

/// The credential of an admitted caller, to be checked again while the caller stays.
#[derive(Debug, Clone)]
pub struct Vigil {
    caller: Caller,
    ends: Ends,
}

impl Identity {
    /// The credential to check again while this caller stays; `None` where nothing can end.
    pub fn vigil(&self) -> Option<Vigil> {
        self.ends().map(|ends| Vigil { caller: self.caller().clone(), ends })
    }
}

impl Vigil {
    /// The time until the next check, if nothing happens before.
    pub fn rest(&self, now: Timestamp) -> Duration {
        match self.ends {
            Ends::Key(_) => KEY_LOOKS,
            Ends::At(end, _) => {
                let left = u64::try_from(end.millis() - now.millis()).unwrap_or(0);
                Duration::from_millis(left).min(TOKEN_LOOKS_MAX)
            }
        }
    }
}

impl Guard {
    /// Whether an admitted caller would be admitted again, by the same credential. Reads memory only.
    pub fn still_holds(&self, vigil: &Vigil, now: Timestamp) -> Result<(), Refusal> {
        let refusal = match vigil.ends {
            Ends::Key(hash) => match self.store.find(&hash, now) {
                Ok(Standing::Valid(_)) => return Ok(()),
                Ok(standing) => bad_key(&standing),
                Err(_) => Refusal::store(),
            },
            Ends::At(end, _) if now < end => return Ok(()),
            Ends::At(_, Scheme::Native) => native_jwt::Reason::Expired.into(),
            Ends::At(..) => oidc::Reason::Expired.into(),
        };
        let scheme = scheme_name(refusal.scheme);
        self.refuse(Record::refusal(now, vigil.caller.clone(), scheme, "stay", refusal.reason), &refusal);
        Err(refusal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authn::basic::Channel;
    use crate::config::AuthConfig;
    use crate::entrance::{Entrance, Ground, Secrets};
    use crate::fetch::FetchFault;
    use crate::fetch::fakes::FakeFetch;
    use crate::policy::Rules;
    use crate::policy::rate::Limits;
    use crate::{Knock, Metrics};
    use aws_lc_rs::hmac;
    use base64::Engine as _;
    use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
    use http::{HeaderMap, HeaderValue};
    use sabir_proto::{AgentName, Secret, ToolMode};
    use sabir_store::memory::MemoryGuard;
    use sabir_store::{Audit as _, By, Imprint, KeyId, KeyTerms, Keys as _, SecretRef};
    use std::sync::Arc;

    const SECRET: &str = "a secret that is long enough for everybody";
    const NOW: i64 = 1_700_000_000;

    struct OneSecret;

    impl Secrets for OneSecret {
        fn reveal(&self, _: &SecretRef) -> Result<Secret, String> {
            Ok(Secret::new(SECRET))
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    struct Door {
        guard: Guard,
        store: Arc<MemoryGuard>,
    }

    impl Door {
        fn new() -> Self {
            let store = Arc::new(MemoryGuard::new());
            Self { guard: Guard::new(store.clone(), Arc::new(OneSecret), Metrics::default()), store }
        }

        async fn vigil(&self, auth: &str, token: Option<&str>) -> Option<Vigil> {
            let config: AuthConfig = toml::from_str(auth).unwrap();
            let fetch = FakeFetch::new(|_| Err(FetchFault::Timeout));
            let entrance = Entrance::new(&config, &Ground::default(), &OneSecret, &fetch).unwrap();
            let agent = AgentName::parse("echo").unwrap();
            let (limits, tools) = (Limits::default(), ToolMode::Full);
            let rules = Rules { entrance: Arc::new(entrance), agent, limits, skills: Vec::new(), tools };
            let header = token.map(|token| HeaderValue::from_str(&format!("Bearer {token}")).unwrap());
            let headers: HeaderMap = header.map(|value| (http::header::AUTHORIZATION, value)).into_iter().collect();
            let (channel, certificate, address, host) = (Channel::Plain, None, None, None);
            let knock = Knock { headers: &headers, body: None, channel, certificate, address, host, now: at(NOW) };
            self.guard.admit(&rules, &knock).await.unwrap().identity().vigil()
        }

        fn reason(&self, vigil: &Vigil, now: i64) -> Option<&'static str> {
            self.guard.still_holds(vigil, at(now)).err().map(|refusal| refusal.reason)
        }
    }

    fn by() -> By {
        By { caller: Caller::named("test"), scheme: "test", at: at(NOW) }
    }

    #[tokio::test]
    async fn a_key_holds_until_it_is_revoked_or_over() {
        let door = Door::new();
        let (first, second) = ("sabir_0123456789abcdef0123456789abcdef", "sabir_f123456789abcdef0123456789abcdef");
        let terms = KeyTerms { expires_at: Some(at(NOW + 100)), ..KeyTerms::default() };
        let id = KeyId::parse("k").unwrap();
        door.store.create(id.clone(), Imprint::of(first), terms, by()).await.unwrap();
        let old = door.vigil("accept = [\"api_key\"]", Some(first)).await.unwrap();
        assert_eq!(old.rest(at(NOW)), KEY_LOOKS);
        assert_eq!((door.reason(&old, NOW + 99), door.reason(&old, NOW + 100)), (None, Some("key_expired")));
        // Each text of a key has its own end.
        door.store.rotate(id.clone(), Imprint::of(second), at(NOW + 10), by()).await.unwrap();
        let new = door.vigil("accept = [\"api_key\"]", Some(second)).await.unwrap();
        assert_eq!((door.reason(&old, NOW + 9), door.reason(&old, NOW + 10)), (None, Some("key_expired")));
        assert_eq!(door.reason(&new, NOW + 10), None);
        door.store.revoke(id, by()).await.unwrap();
        assert_eq!(door.reason(&new, NOW + 11), Some("key_revoked"));
        door.store.flush().await.unwrap();
        let audit = door.store.entries(0, 100).await.unwrap();
        let refused = |linked: &&sabir_store::Linked| &*linked.entry.reason == "key_revoked";
        assert_eq!(audit.iter().find(refused).unwrap().entry.operation, "stay");
    }

    #[tokio::test]
    async fn a_token_holds_until_its_time_is_over() {
        let door = Door::new();
        let token = |exp: i64| {
            let claims = format!("{{\"sub\":\"ana@example.com\",\"exp\":{exp}}}");
            let input = format!("{}.{}", BASE64.encode("{\"alg\":\"HS256\"}"), BASE64.encode(claims));
            let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
            format!("{input}.{}", BASE64.encode(hmac::sign(&key, input.as_bytes())))
        };
        let vigil = door.vigil("[jwt]\nsecret = \"env:ANY\"", Some(&token(NOW + 10))).await.unwrap();
        assert_eq!(vigil.rest(at(NOW)), Duration::from_secs(10));
        assert_eq!(vigil.rest(at(NOW + 20)), Duration::ZERO);
        assert_eq!((door.reason(&vigil, NOW + 9), door.reason(&vigil, NOW + 10)), (None, Some("token_expired")));
        let long = door.vigil("[jwt]\nsecret = \"env:ANY\"", Some(&token(NOW + 10_000))).await.unwrap();
        assert_eq!(long.rest(at(NOW)), TOKEN_LOOKS_MAX, "clocks can be set");
    }

    #[tokio::test]
    async fn nothing_is_asked_of_those_who_showed_nothing() {
        let door = Door::new();
        assert!(door.vigil("", None).await.is_none());
        assert!(door.vigil("required = false\naccept = [\"api_key\"]", None).await.is_none());
    }
}
