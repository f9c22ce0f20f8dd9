//! Authenticates callers: which credentials are accepted, and in which order they are tried.
//!
//! A request shows one credential or none, so there is little to order. Only a bearer token can mean several things: an
//! API key of ours has a form that no other credential has; a token of a configured issuer is verified with that
//! issuer's keys, and with nothing else; any other token is one under a shared secret; and the static token of older
//! peers, which may look like anything, comes last.

mod build;
mod schemes;

pub use build::DeploymentFacts;

use crate::authn::chain::ChainClient;
use crate::authn::legacy::LegacyKey;
use crate::authn::native_jwt::{self, ExpiryRule};
use crate::authn::oidc::TrustedIssuers;
use crate::authn::{self, Scheme, api_key, basic, k1, mtls};
use crate::config::{AcceptedCredential, AuthConfig};
use crate::fetch::Fetch;
use crate::guard::CredentialEnd;
use crate::identity::{CredentialProof, Identity, PresentedCredential, ReplayMark, RequestEvidence};
use crate::policy::trust::TrustRequirement;
use crate::refusal::{Refusal, key_refusal};
use sabir_proto::Secret;
use sabir_store::{GuardStore, KeyFingerprint, KeyStatus, SecretRef};
use std::sync::Arc;

/// The shortest accepted secret of an organisation, in bytes.
const ORGANISATION_SECRET_MIN: usize = 8;

/// Resolves secrets, from the environment and from files, which the guard does not read itself.
pub trait SecretResolver: Send + Sync + 'static {
    /// The secret behind a reference, or why it is unavailable (without saying anything about its value).
    fn resolve(&self, reference: &SecretRef) -> Result<Secret, String>;
}

/// How callers without a credential are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthMode {
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
pub struct Authenticator<F> {
    config: AuthConfig,
    accepted: Vec<AcceptedCredential>,
    mode: AuthMode,
    reachable: bool,
    shared_secret: Option<SharedSecretTokens>,
    issuers: Option<TrustedIssuers<F>>,
    legacy: Option<LegacyKey>,
    users: Vec<basic::BasicUser>,
    xpr: Option<XprAccounts<F>>,
    challenge: Option<String>,
}

/// Tokens under secrets that both sides hold.
struct SharedSecretTokens {
    secret: Option<Secret>,
    audiences: Vec<String>,
    issuers: Vec<String>,
    expiry: ExpiryRule,
}

pub(crate) struct XprAccounts<F> {
    pub(crate) chain: Arc<ChainClient<F>>,
    pub(crate) weight: k1::WeightRule,
    pub(crate) requirement: TrustRequirement,
    pub(crate) rate_per_minute: u32,
}

impl<F: Fetch> Authenticator<F> {
    /// How callers without a credential are treated.
    pub const fn mode(&self) -> AuthMode {
        self.mode
    }

    /// Whether callers without a credential may be several people. On an open server that only this machine reaches
    /// they are the one person there; where credentials are configured, or other machines reach the server, they may be
    /// several.
    pub const fn anonymous_may_be_several(&self) -> bool {
        match self.mode {
            AuthMode::Open => self.reachable,
            AuthMode::Optional | AuthMode::Required | AuthMode::Closed => true,
        }
    }

    /// A caller without a credential.
    pub(crate) fn anonymous(&self) -> Identity {
        if self.anonymous_may_be_several() { Identity::anonymous() } else { Identity::local() }
    }

    /// The credentials that are accepted.
    pub fn accepted(&self) -> &[AcceptedCredential] {
        &self.accepted
    }

    /// Whether every caller must sign the body, which proves something over JSON-RPC only.
    pub fn wants_body_signatures(&self) -> bool {
        let only_signed = self.accepted.iter().all(|accept| *accept == AcceptedCredential::Xpr);
        self.mode == AuthMode::Required && only_signed
    }

    /// The `WWW-Authenticate` header for callers that are not authenticated.
    pub fn challenge(&self) -> Option<&str> {
        self.challenge.as_deref()
    }

    /// The prefix of token scopes that are for us; empty where scopes are not read.
    pub(crate) fn scope_prefix(&self) -> &str {
        self.config.jwt.as_ref().map_or("", |jwt| &jwt.scope_prefix)
    }

    pub(crate) const fn xpr(&self) -> Option<&XprAccounts<F>> {
        self.xpr.as_ref()
    }

    pub(crate) fn is_accepted(&self, accept: AcceptedCredential) -> bool {
        self.accepted.contains(&accept)
    }

    /// Whether secrets that people choose are accepted.
    pub(crate) fn accepts_guessable_secrets(&self) -> bool {
        self.is_accepted(AcceptedCredential::Basic) || self.is_accepted(AcceptedCredential::LegacyKey)
    }

    /// Whether a caller of this name could authenticate at all, with the right credential. For explanations.
    pub(crate) fn could_authenticate(&self, identity: &Identity) -> Result<(), Refusal> {
        let no = |scheme, words: String| Err(Refusal::unauthenticated(Some(scheme), "not_taken", words));
        let name = identity.caller().name();
        match identity.proof() {
            CredentialProof::IssuedToken(bearer) => {
                let jwt = self.config.jwt.as_ref();
                if jwt.and_then(|jwt| jwt.issuer.as_ref()) != Some(&bearer.issuer) {
                    return no(Scheme::Jwt, format!("tokens of {} are not taken", bearer.issuer));
                }
                let needed = jwt.map(|jwt| &*jwt.scopes).unwrap_or_default();
                match needed.iter().find(|scope| !bearer.scopes.contains(scope)) {
                    Some(missing) => Err(crate::authn::oidc::AccessTokenFault::Scope(missing.clone()).into()),
                    None => Ok(()),
                }
            }
            CredentialProof::NativeToken { .. } if self.shared_secret.is_none() => {
                no(Scheme::Native, "tokens under a shared secret are not taken".into())
            }
            CredentialProof::Password if !self.users.iter().any(|user| name == format!("basic:{}", user.name)) => {
                no(Scheme::Basic, "there is no such user in [auth.basic]".into())
            }
            CredentialProof::Certificate => {
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
    pub(crate) async fn authenticate(
        &self,
        evidence: &RequestEvidence<'_>,
        store: &dyn GuardStore,
        secrets: &dyn SecretResolver,
    ) -> Result<Identity, Refusal> {
        match self.mode {
            AuthMode::Open => return Ok(self.anonymous()),
            AuthMode::Closed => return Err(Refusal::not_configured()),
            AuthMode::Optional | AuthMode::Required => {}
        }
        match evidence.presented_credential()? {
            PresentedCredential::Nothing => self.without_credential(),
            PresentedCredential::Bearer(token) => self.authenticate_bearer(token, evidence, store, secrets).await,
            PresentedCredential::Key(key) => self.authenticate_key(key, evidence, store),
            PresentedCredential::Password(header) => self.authenticate_password(header, evidence),
            // Boxed, as everything that may have to query another server: every request pays for the size of its
            // future.
            PresentedCredential::Signature(headers) => Box::pin(self.authenticate_signature(headers, evidence)).await,
            PresentedCredential::Certificate(der) => self.authenticate_certificate(der),
            PresentedCredential::Unknown => {
                Err(Refusal::unauthenticated(None, "unknown_scheme", self.accepted_words()))
            }
        }
    }

    fn without_credential(&self) -> Result<Identity, Refusal> {
        match self.mode {
            AuthMode::Required | AuthMode::Closed => Err(Refusal::missing_credential(self.accepted_words())),
            AuthMode::Open | AuthMode::Optional => Ok(self.anonymous()),
        }
    }

    async fn authenticate_bearer(
        &self,
        token: &str,
        evidence: &RequestEvidence<'_>,
        store: &dyn GuardStore,
        secrets: &dyn SecretResolver,
    ) -> Result<Identity, Refusal> {
        if self.is_accepted(AcceptedCredential::ApiKey) && api_key::KeyKind::of(token).is_some() {
            return self.authenticate_key(token, evidence, store);
        }
        if let Some(issuers) = &self.issuers
            && issuers.has_issuer_of(token)
        {
            let bearer = Box::pin(issuers.verify(token, evidence.now)).await?;
            let ends = bearer.valid_until.map(|end| CredentialEnd::Time(end, Scheme::Jwt));
            return Ok(
                Identity::new(&bearer.principal(), CredentialProof::IssuedToken(bearer)).with_credential_end(ends)
            );
        }
        let mut refusal = None;
        if let Some(shared) = &self.shared_secret {
            match shared.verify(token, evidence, store, secrets) {
                Ok(identity) => return Ok(identity),
                Err(other) => refusal = Some(other),
            }
        }
        if let Some(legacy) = &self.legacy {
            match legacy.verify(token) {
                Some(who) => return Ok(Identity::new(&who, CredentialProof::Legacy)),
                // A text that is no signed token was meant as the static token.
                None => refusal = refusal.filter(|_| authn::is_signed_token(token)).or_else(|| Some(bad_legacy_key())),
            }
        }
        Err(refusal.unwrap_or_else(|| Refusal::unauthenticated(None, "token_unknown", "Invalid or expired token")))
    }

    fn authenticate_key(
        &self,
        text: &str,
        evidence: &RequestEvidence<'_>,
        store: &dyn GuardStore,
    ) -> Result<Identity, Refusal> {
        if !self.is_accepted(AcceptedCredential::ApiKey) {
            return Err(Refusal::unauthenticated(Some(Scheme::ApiKey), "key_not_taken", self.accepted_words()));
        }
        Self::look_up_key(text, evidence, store)
    }

    /// Authenticates the sender of a request to an endpoint that accepts API keys only.
    pub(crate) fn authenticate_key_only(
        &self,
        evidence: &RequestEvidence<'_>,
        store: &dyn GuardStore,
    ) -> Result<Identity, Refusal> {
        match evidence.presented_credential()? {
            PresentedCredential::Bearer(text) | PresentedCredential::Key(text) => {
                Self::look_up_key(text, evidence, store)
            }
            _ => Err(Refusal::missing_credential("Authentication required: Authorization: Bearer agnt_live_…".into())),
        }
    }

    fn look_up_key(text: &str, evidence: &RequestEvidence<'_>, store: &dyn GuardStore) -> Result<Identity, Refusal> {
        // A text that cannot be a key is looked up all the same, so that the time taken does not tell forms apart.
        let hash = KeyFingerprint::hash_of(text);
        match store.find(&hash, evidence.now).map_err(|_| Refusal::store_unavailable())? {
            KeyStatus::Valid(key) => {
                store.record_use(&key.id, evidence.now);
                let who = api_key::principal(key.id.as_str());
                Ok(Identity::new(&who, CredentialProof::Key(key)).with_credential_end(Some(CredentialEnd::Key(hash))))
            }
            other => Err(key_refusal(&other)),
        }
    }

    fn authenticate_password(&self, header: &str, evidence: &RequestEvidence<'_>) -> Result<Identity, Refusal> {
        if !self.is_accepted(AcceptedCredential::Basic) {
            return Err(Refusal::unauthenticated(Some(Scheme::Basic), "basic_not_taken", self.accepted_words()));
        }
        match basic::verify(header, evidence.channel, &self.users) {
            Some(verdict) => Ok(Identity::new(&verdict?, CredentialProof::Password)),
            None => Err(Refusal::unauthenticated(None, "unknown_scheme", self.accepted_words())),
        }
    }

    async fn authenticate_signature(
        &self,
        headers: k1::XprHeaders<'_>,
        evidence: &RequestEvidence<'_>,
    ) -> Result<Identity, Refusal> {
        let (Some(xpr), Some(body)) = (&self.xpr, evidence.body) else {
            let words = match evidence.body {
                None if self.xpr.is_some() => {
                    "Signed requests are taken over JSON-RPC only, where the body says it all".into()
                }
                _ => self.accepted_words(),
            };
            return Err(Refusal::unauthenticated(Some(Scheme::Xpr), "xpr_not_taken", words));
        };
        let verified = k1::verify(headers, body, xpr.weight, evidence.now, &xpr.chain).await;
        let account =
            verified.map_err(|reason| Refusal::bad_request_signature(&reason, headers.account.unwrap_or("")))?;
        let mut digest = [0; 16];
        digest.copy_from_slice(&account.signed.digest[..16]);
        let mark = Some(ReplayMark { digest, until: account.accepted_until() });
        Ok(Identity::new(&account.principal(), CredentialProof::Account { account: account.signed.account, mark }))
    }

    fn authenticate_certificate(&self, der: &[u8]) -> Result<Identity, Refusal> {
        if !self.is_accepted(AcceptedCredential::Mtls) {
            // It belongs to the connection, and may be meant for another agent behind this address.
            return self.without_credential();
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
        Ok(Identity::new(&certified.principal(), CredentialProof::Certificate))
    }
}

impl SharedSecretTokens {
    fn verify(
        &self,
        token: &str,
        evidence: &RequestEvidence<'_>,
        store: &dyn GuardStore,
        secrets: &dyn SecretResolver,
    ) -> Result<Identity, Refusal> {
        let by_host;
        let audiences = if self.audiences.is_empty() {
            let proto = match evidence.channel {
                basic::Channel::Tls => "https",
                basic::Channel::Plain => "http",
            };
            // Peers assume https also where we are reached by http, and say so in their tokens.
            let named = |proto: &str| native_jwt::own_audience(None, evidence.host, Some(proto));
            by_host = [named(proto), named("https")].into_iter().flatten().collect::<Vec<_>>();
            &by_host
        } else {
            &self.audiences
        };
        let settings = native_jwt::NativeTokenSettings {
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
            secrets.resolve(&found.secret).ok().filter(|secret| secret.expose().trim().len() >= ORGANISATION_SECRET_MIN)
        };
        match native_jwt::verify(token, settings, organisation, evidence.now) {
            Ok(user) => {
                let ends = user.expires_at.map(|end| CredentialEnd::Time(end, Scheme::Native));
                Ok(Identity::new(&user.principal(), CredentialProof::NativeToken { bound: user.bound })
                    .with_credential_end(ends))
            }
            Err(_) if away => Err(Refusal::store_unavailable()),
            Err(reason) => Err(reason.into()),
        }
    }
}

fn bad_legacy_key() -> Refusal {
    Refusal::unauthenticated(Some(Scheme::Legacy), "legacy_wrong", "Invalid API key")
}

impl<F: Fetch> Authenticator<F> {
    /// The accepted credentials, in words.
    fn accepted_words(&self) -> String {
        let way = |accept: &AcceptedCredential| match accept {
            AcceptedCredential::ApiKey => "an API key (Authorization: Bearer, or X-API-Key)",
            AcceptedCredential::Jwt | AcceptedCredential::LegacyKey => "a token (Authorization: Bearer)",
            AcceptedCredential::Basic => "a user name and a password, over TLS (Authorization: Basic)",
            AcceptedCredential::Mtls => "a client certificate",
            AcceptedCredential::Xpr => "X-XPR-Account, X-XPR-Timestamp, and X-XPR-Signature headers are required",
        };
        let mut ways: Vec<&str> = self.accepted.iter().map(way).collect();
        ways.dedup();
        format!("Authentication required: {}", ways.join(", or "))
    }
}
