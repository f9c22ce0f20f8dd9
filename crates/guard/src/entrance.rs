//! Authenticates callers: which credentials are accepted, and in which order they are tried.
//!
//! A request shows one credential or none, so there is little to order. Only a bearer token can mean several things: an
//! API key of ours has a form that no other credential has; a token of a configured issuer is verified with that
//! issuer's keys, and with nothing else; any other token is one under a shared secret; and the static token of older
//! peers, which may look like anything, comes last.

mod build;
mod schemes;

pub use build::Ground;

use crate::authn::chain::Chain;
use crate::authn::legacy::LegacyKey;
use crate::authn::native_jwt::{self, Expiry};
use crate::authn::oidc::Issuers;
use crate::authn::{self, Scheme, api_key, basic, k1, mtls};
use crate::config::{Accept, AuthConfig};
use crate::fetch::Fetch;
use crate::guard::Ends;
use crate::identity::{Identity, Knock, Mark, Proof, Shown};
use crate::policy::trust::Demand;
use crate::refusal::{Refusal, bad_key};
use sabir_proto::Secret;
use sabir_store::{GuardStore, Imprint, SecretRef, Standing};
use std::sync::Arc;

/// The shortest accepted secret of an organisation, in bytes.
const ORGANISATION_SECRET_MIN: usize = 8;

/// Resolves secrets, from the environment and from files, which the guard does not read itself.
pub trait Secrets: Send + Sync + 'static {
    /// The secret behind a reference, or why it is unavailable (without saying anything about its value).
    fn reveal(&self, reference: &SecretRef) -> Result<Secret, String>;
}

/// How callers without a credential are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Posture {
    /// Callers are asked for no credential, and one that is shown is ignored.
    Open,
    /// A caller without a credential is `anonymous`.
    Optional,
    /// A caller without a credential is refused.
    Required,
    /// Every caller is refused: no credential is configured, and this is production.
    Closed,
}

/// The authentication of one agent's callers.
pub struct Entrance<F> {
    config: AuthConfig,
    accepts: Vec<Accept>,
    posture: Posture,
    reachable: bool,
    shared: Option<Shared>,
    issuers: Option<Issuers<F>>,
    legacy: Option<LegacyKey>,
    users: Vec<basic::User>,
    xpr: Option<Xpr<F>>,
    challenge: Option<String>,
}

/// Tokens under secrets that both sides hold.
struct Shared {
    secret: Option<Secret>,
    audiences: Vec<String>,
    issuers: Vec<String>,
    expiry: Expiry,
}

pub(crate) struct Xpr<F> {
    pub(crate) chain: Arc<Chain<F>>,
    pub(crate) weight: k1::Weight,
    pub(crate) demand: Demand,
    pub(crate) rate_per_minute: u32,
}

impl<F: Fetch> Entrance<F> {
    /// How callers without a credential are treated.
    pub const fn posture(&self) -> Posture {
        self.posture
    }

    /// Whether callers without a credential may be several people. On an open server that only this machine reaches
    /// they are the one person there; where credentials are configured, or other machines reach the server, they may be
    /// several.
    pub const fn has_strangers(&self) -> bool {
        match self.posture {
            Posture::Open => self.reachable,
            Posture::Optional | Posture::Required | Posture::Closed => true,
        }
    }

    /// A caller without a credential.
    pub(crate) fn anonymous(&self) -> Identity {
        if self.has_strangers() { Identity::anonymous() } else { Identity::local() }
    }

    /// The credentials that are accepted.
    pub fn accepts(&self) -> &[Accept] {
        &self.accepts
    }

    /// Whether every caller must sign the body, which proves something over JSON-RPC only.
    pub fn wants_body_signatures(&self) -> bool {
        let only_signed = self.accepts.iter().all(|accept| *accept == Accept::Xpr);
        self.posture == Posture::Required && only_signed
    }

    /// The `WWW-Authenticate` header for callers that are not authenticated.
    pub fn challenge(&self) -> Option<&str> {
        self.challenge.as_deref()
    }

    /// The prefix of token scopes that are for us; empty where scopes are not read.
    pub(crate) fn scope_prefix(&self) -> &str {
        self.config.jwt.as_ref().map_or("", |jwt| &jwt.scope_prefix)
    }

    pub(crate) const fn xpr(&self) -> Option<&Xpr<F>> {
        self.xpr.as_ref()
    }

    pub(crate) fn takes(&self, accept: Accept) -> bool {
        self.accepts.contains(&accept)
    }

    /// Whether secrets that people choose are accepted.
    pub(crate) fn takes_guessable(&self) -> bool {
        self.takes(Accept::Basic) || self.takes(Accept::LegacyKey)
    }

    /// Whether a caller of this name could authenticate at all, with the right credential. For explanations.
    pub(crate) fn could_take(&self, identity: &Identity) -> Result<(), Refusal> {
        let no = |scheme, words: String| Err(Refusal::unauthenticated(Some(scheme), "not_taken", words));
        let name = identity.caller().name();
        match identity.proof() {
            Proof::Issued(bearer) => {
                let jwt = self.config.jwt.as_ref();
                if jwt.and_then(|jwt| jwt.issuer.as_ref()) != Some(&bearer.issuer) {
                    return no(Scheme::Jwt, format!("tokens of {} are not taken", bearer.issuer));
                }
                let needed = jwt.map(|jwt| &*jwt.scopes).unwrap_or_default();
                match needed.iter().find(|scope| !bearer.scopes.contains(scope)) {
                    Some(missing) => Err(crate::authn::oidc::Reason::Scope(missing.clone()).into()),
                    None => Ok(()),
                }
            }
            Proof::Named { .. } if self.shared.is_none() => {
                no(Scheme::Native, "tokens under a shared secret are not taken".into())
            }
            Proof::Password if !self.users.iter().any(|user| name == format!("basic:{}", user.name)) => {
                no(Scheme::Basic, "there is no such user in [auth.basic]".into())
            }
            Proof::Certificate => {
                let allowed = self.config.mtls.as_ref().map(|mtls| &*mtls.allow).unwrap_or_default();
                if allowed.is_empty() || allowed.iter().any(|one| name == format!("mtls:{one}")) {
                    return Ok(());
                }
                no(Scheme::Mtls, "it is not in auth.mtls.allow".into())
            }
            _ => Ok(()),
        }
    }

    /// Authenticates the sender of a request.
    pub(crate) async fn identify(
        &self,
        knock: &Knock<'_>,
        store: &dyn GuardStore,
        secrets: &dyn Secrets,
    ) -> Result<Identity, Refusal> {
        match self.posture {
            Posture::Open => return Ok(self.anonymous()),
            Posture::Closed => return Err(Refusal::not_configured()),
            Posture::Optional | Posture::Required => {}
        }
        match knock.shown()? {
            Shown::Nothing => self.nothing_shown(),
            Shown::Bearer(token) => self.bearer(token, knock, store, secrets).await,
            Shown::Key(key) => self.key(key, knock, store),
            Shown::Password(header) => self.password(header, knock),
            // Boxed, as everything that may have to query another server: every request pays for the size of its
            // future.
            Shown::Signature(headers) => Box::pin(self.signature(headers, knock)).await,
            Shown::Certificate(der) => self.certificate(der),
            Shown::Unknown => Err(Refusal::unauthenticated(None, "unknown_scheme", self.ways())),
        }
    }

    fn nothing_shown(&self) -> Result<Identity, Refusal> {
        match self.posture {
            Posture::Required | Posture::Closed => Err(Refusal::missing(self.ways())),
            Posture::Open | Posture::Optional => Ok(self.anonymous()),
        }
    }

    async fn bearer(
        &self,
        token: &str,
        knock: &Knock<'_>,
        store: &dyn GuardStore,
        secrets: &dyn Secrets,
    ) -> Result<Identity, Refusal> {
        if self.takes(Accept::ApiKey) && api_key::Kind::of(token).is_some() {
            return self.key(token, knock, store);
        }
        if let Some(issuers) = &self.issuers
            && issuers.knows(token)
        {
            let bearer = Box::pin(issuers.verify(token, knock.now)).await?;
            let ends = bearer.until.map(|end| Ends::At(end, Scheme::Jwt));
            return Ok(Identity::new(&bearer.who(), Proof::Issued(bearer)).ending(ends));
        }
        let mut refusal = None;
        if let Some(shared) = &self.shared {
            match shared.verify(token, knock, store, secrets) {
                Ok(identity) => return Ok(identity),
                Err(other) => refusal = Some(other),
            }
        }
        if let Some(legacy) = &self.legacy {
            match legacy.verify(token) {
                Some(who) => return Ok(Identity::new(&who, Proof::Legacy)),
                // A text that is no signed token was meant as the static token.
                None => refusal = refusal.filter(|_| authn::is_token(token)).or_else(|| Some(bad_legacy_key())),
            }
        }
        Err(refusal.unwrap_or_else(|| Refusal::unauthenticated(None, "token_unknown", "Invalid or expired token")))
    }

    fn key(&self, text: &str, knock: &Knock<'_>, store: &dyn GuardStore) -> Result<Identity, Refusal> {
        if !self.takes(Accept::ApiKey) {
            return Err(Refusal::unauthenticated(Some(Scheme::ApiKey), "key_not_taken", self.ways()));
        }
        Self::known_key(text, knock, store)
    }

    /// Authenticates the sender of a request to an endpoint that accepts API keys only.
    pub(crate) fn identify_key(&self, knock: &Knock<'_>, store: &dyn GuardStore) -> Result<Identity, Refusal> {
        match knock.shown()? {
            Shown::Bearer(text) | Shown::Key(text) => Self::known_key(text, knock, store),
            _ => Err(Refusal::missing("Authentication required: Authorization: Bearer agnt_live_…".into())),
        }
    }

    fn known_key(text: &str, knock: &Knock<'_>, store: &dyn GuardStore) -> Result<Identity, Refusal> {
        // A text that cannot be a key is looked up all the same, so that the time taken does not tell forms apart.
        let hash = Imprint::hash(text);
        match store.find(&hash, knock.now).map_err(|_| Refusal::store())? {
            Standing::Valid(key) => {
                store.used(&key.id, knock.now);
                let who = api_key::who(key.id.as_str());
                Ok(Identity::new(&who, Proof::Key(key)).ending(Some(Ends::Key(hash))))
            }
            other => Err(bad_key(&other)),
        }
    }

    fn password(&self, header: &str, knock: &Knock<'_>) -> Result<Identity, Refusal> {
        if !self.takes(Accept::Basic) {
            return Err(Refusal::unauthenticated(Some(Scheme::Basic), "basic_not_taken", self.ways()));
        }
        match basic::verify(header, knock.channel, &self.users) {
            Some(verdict) => Ok(Identity::new(&verdict?, Proof::Password)),
            None => Err(Refusal::unauthenticated(None, "unknown_scheme", self.ways())),
        }
    }

    async fn signature(&self, headers: k1::Headers<'_>, knock: &Knock<'_>) -> Result<Identity, Refusal> {
        let (Some(xpr), Some(body)) = (&self.xpr, knock.body) else {
            let words = match knock.body {
                None if self.xpr.is_some() => {
                    "Signed requests are taken over JSON-RPC only, where the body says it all".into()
                }
                _ => self.ways(),
            };
            return Err(Refusal::unauthenticated(Some(Scheme::Xpr), "xpr_not_taken", words));
        };
        let verified = k1::verify(headers, body, xpr.weight, knock.now, &xpr.chain).await;
        let account = verified.map_err(|reason| Refusal::from((reason, headers.account.unwrap_or(""))))?;
        let mut digest = [0; 16];
        digest.copy_from_slice(&account.signed.digest[..16]);
        let mark = Some(Mark { digest, until: account.until() });
        Ok(Identity::new(&account.who(), Proof::Account { account: account.signed.account, mark }))
    }

    fn certificate(&self, der: &[u8]) -> Result<Identity, Refusal> {
        if !self.takes(Accept::Mtls) {
            // It belongs to the connection, and may be meant for another agent behind this address.
            return self.nothing_shown();
        }
        let certified = mtls::read(der)?;
        let allowed = self.config.mtls.as_ref().map(|mtls| &*mtls.allow).unwrap_or_default();
        if !allowed.is_empty() && !allowed.contains(&certified.name) {
            return Err(Refusal::forbidden(
                Scheme::Mtls,
                "certificate_not_allowed",
                "This certificate is not among those that may enter",
            ));
        }
        Ok(Identity::new(&certified.who(), Proof::Certificate))
    }
}

impl Shared {
    fn verify(
        &self,
        token: &str,
        knock: &Knock<'_>,
        store: &dyn GuardStore,
        secrets: &dyn Secrets,
    ) -> Result<Identity, Refusal> {
        let by_host;
        let audiences = if self.audiences.is_empty() {
            let proto = match knock.channel {
                basic::Channel::Tls => "https",
                basic::Channel::Plain => "http",
            };
            // Peers assume https also where we are reached by http, and say so in their tokens.
            let named = |proto: &str| native_jwt::own_audience(None, knock.host, Some(proto));
            by_host = [named(proto), named("https")].into_iter().flatten().collect::<Vec<_>>();
            &by_host
        } else {
            &self.audiences
        };
        let settings = native_jwt::Settings {
            secret: self.secret.as_ref(),
            audiences,
            issuers: &self.issuers,
            expiry: self.expiry,
        };
        let mut away = false;
        let organisation = |domain: &str| {
            let found = store.organisation(domain).unwrap_or_else(|_| {
                away = true;
                None
            })?;
            // An organisation whose secret is unavailable has none, and the peer cannot tell. A very short secret
            // counts as none.
            secrets.reveal(&found.secret).ok().filter(|secret| secret.expose().trim().len() >= ORGANISATION_SECRET_MIN)
        };
        match native_jwt::verify(token, settings, organisation, knock.now) {
            Ok(user) => {
                let ends = user.until.map(|end| Ends::At(end, Scheme::Native));
                Ok(Identity::new(&user.who(), Proof::Named { bound: user.bound }).ending(ends))
            }
            Err(_) if away => Err(Refusal::store()),
            Err(reason) => Err(reason.into()),
        }
    }
}

fn bad_legacy_key() -> Refusal {
    Refusal::unauthenticated(Some(Scheme::Legacy), "legacy_wrong", "Invalid API key")
}

impl<F: Fetch> Entrance<F> {
    /// The accepted credentials, in words.
    fn ways(&self) -> String {
        let way = |accept: &Accept| match accept {
            Accept::ApiKey => "an API key (Authorization: Bearer, or X-API-Key)",
            Accept::Jwt | Accept::LegacyKey => "a token (Authorization: Bearer)",
            Accept::Basic => "a user name and a password, over TLS (Authorization: Basic)",
            Accept::Mtls => "a client certificate",
            Accept::Xpr => "X-XPR-Account, X-XPR-Timestamp, and X-XPR-Signature headers are required",
        };
        let mut ways: Vec<&str> = self.accepts.iter().map(way).collect();
        ways.dedup();
        format!("Authentication required: {}", ways.join(", or "))
    }
}
