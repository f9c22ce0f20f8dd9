//! Builds the authenticator from `[auth]`: everything that can be wrong is found at the start, with the setting named.

use super::{AuthMode, Authenticator, SecretResolver, SharedSecretTokens, XprAccounts};
use crate::authn::chain::ChainClient;
use crate::authn::jwks::KeySet;
use crate::authn::legacy::LegacyKey;
use crate::authn::oidc::{KeySource, TrustedIssuer, TrustedIssuers, is_loopback};
use crate::authn::{basic, k1};
use crate::config::{AcceptedCredential, AuthConfig, JwtConfig, XprConfig};
use crate::fetch::Fetch;
use crate::policy::trust::TrustRequirement;
use sabir_proto::Secret;
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// The name of every caller with the static token.
const LEGACY_NAME: &str = "key";
/// Shorter shared secrets cause a warning: tokens under them can be guessed offline.
const SECRET_BYTES_MIN: usize = 16;
/// Shorter passwords cause a warning; they can only be guessed online.
const PASSWORD_BYTES_MIN: usize = 8;

/// The facts about the deployment that authentication depends on.
#[derive(Debug, Clone, Default)]
pub struct DeploymentFacts {
    /// Whether an agent without authentication must refuse every caller.
    pub production: bool,
    /// Whether requests can come over TLS, here or at a trusted proxy.
    pub tls: bool,
    /// Whether the listener asks for client certificates.
    pub client_certificates: bool,
    /// Whether other machines can reach the server, so that callers without a credential may be several people.
    pub reachable: bool,
    /// The URL of this server, where it is configured.
    pub public_url: Option<String>,
}

impl<F: Fetch + Clone> Authenticator<F> {
    /// Checks a configuration and builds an authenticator from it. Fetches nothing.
    pub fn new(
        config: &AuthConfig,
        ground: &DeploymentFacts,
        secrets: &dyn SecretResolver,
        fetch: &F,
    ) -> Result<Self, String> {
        let accepts = config.accepted();
        if let Some(twice) = accepts.iter().enumerate().find(|(i, a)| accepts[..*i].contains(a)) {
            return Err(format!("auth.accept lists {} twice", twice.1.name()));
        }
        let takes = |accept| accepts.contains(&accept);
        let jwt = config.jwt.as_ref().filter(|_| takes(AcceptedCredential::Jwt));
        if takes(AcceptedCredential::Jwt) && jwt.is_none() {
            return Err(
                "auth.accept lists jwt: add [auth.jwt] with secret = \"env:NAME\", or issuer and audience".into()
            );
        }
        if takes(AcceptedCredential::Mtls) && !ground.client_certificates {
            return Err("auth.accept lists mtls: add client_ca to [server.tls]".into());
        }
        if accepts.is_empty() && config.accept.is_none() && config.required.is_some() {
            return Err(
                "auth.required is set, but nothing says what is taken; list it, for example accept = [\"api_key\"]"
                    .into(),
            );
        }
        if takes(AcceptedCredential::Basic) && !ground.tls {
            return Err(
                "auth.accept lists basic, and passwords are taken over TLS only: add [server.tls], or name the proxy \
                        that speaks TLS for this server in server.proxies"
                    .into(),
            );
        }
        let posture = match (accepts.is_empty(), ground.production) {
            // `open` says that it is meant; in production that is not accepted.
            (true, true) => AuthMode::Closed,
            (true, false) => AuthMode::Open,
            (false, _) if config.required == Some(false) => AuthMode::Optional,
            (false, _) => AuthMode::Required,
        };
        let xpr = match (&config.xpr, takes(AcceptedCredential::Xpr)) {
            (Some(xpr), true) => Some(chain(xpr, fetch)?),
            (None, true) => {
                return Err("auth.accept lists xpr: add [auth.xpr] with rpc_url, a node of the chain".into());
            }
            (_, false) => None,
        };
        let mut entrance = Self {
            shared_secret: jwt.map(|jwt| shared(jwt, ground, secrets)).transpose()?.flatten(),
            issuers: jwt.map(|jwt| issuers(jwt, secrets, fetch)).transpose()?.flatten(),
            legacy: if takes(AcceptedCredential::LegacyKey) { Some(legacy(config, secrets)?) } else { None },
            users: if takes(AcceptedCredential::Basic) { users(config, secrets)? } else { Vec::new() },
            config: config.clone(),
            accepted: accepts,
            mode: posture,
            reachable: ground.reachable,
            xpr,
            challenge: None,
        };
        entrance.challenge = entrance.make_challenge();
        Ok(entrance)
    }

    /// The schemes of RFC 9110 that are accepted. A certificate and a signed body have no such scheme.
    fn make_challenge(&self) -> Option<String> {
        if matches!(self.mode, AuthMode::Open | AuthMode::Closed) {
            return None;
        }
        let bearer = [AcceptedCredential::Jwt, AcceptedCredential::ApiKey, AcceptedCredential::LegacyKey]
            .into_iter()
            .any(|a| self.is_accepted(a));
        let mut challenges = Vec::new();
        if bearer {
            challenges.push("Bearer realm=\"a2a\"");
        }
        if self.is_accepted(AcceptedCredential::Basic) {
            challenges.push("Basic realm=\"a2a\", charset=\"UTF-8\"");
        }
        if challenges.is_empty() {
            // A 401 must have one (RFC 9110 §15.5.2).
            challenges.push(if self.is_accepted(AcceptedCredential::Mtls) {
                "Mutual realm=\"a2a\""
            } else {
                "Signature realm=\"a2a\""
            });
        }
        Some(challenges.join(", "))
    }
}

fn reveal(secrets: &dyn SecretResolver, key: &str, reference: &sabir_store::SecretRef) -> Result<Secret, String> {
    let secret = secrets.resolve(reference).map_err(|problem| format!("{key}: {problem}"))?;
    if secret.expose().trim().is_empty() {
        return Err(format!("{key}: {reference} is empty"));
    }
    Ok(secret)
}

impl<F: Fetch> Authenticator<F> {
    /// Settings that work, and should not stay as they are.
    pub fn warnings(&self) -> Vec<String> {
        let short = |secret: &Secret| secret.expose().trim().len() < SECRET_BYTES_MIN;
        let mut warnings = Vec::new();
        if self.shared_secret.as_ref().and_then(|shared| shared.secret.as_ref()).is_some_and(short) {
            warnings.push(format!("auth.jwt.secret has fewer than {SECRET_BYTES_MIN} characters; it can be guessed"));
        }
        if self.legacy.as_ref().is_some_and(|legacy| short(&legacy.token)) {
            warnings.push(format!("auth.legacy_key has fewer than {SECRET_BYTES_MIN} characters; it can be guessed"));
        }
        if let Some(user) = self.users.iter().find(|user| user.password.expose().len() < PASSWORD_BYTES_MIN) {
            let name = &user.name;
            warnings
                .push(format!("auth.basic: the password of {name:?} has fewer than {PASSWORD_BYTES_MIN} characters"));
        }
        if let Some(xpr) = &self.config.xpr
            && self.xpr.is_some()
            && Url::parse(&xpr.rpc_url).is_ok_and(|url| url.scheme() == "http" && !is_loopback(&url))
        {
            warnings.push(
                "auth.xpr.rpc_url is plain http to another machine: anyone on the network path can be any account"
                    .into(),
            );
        }
        warnings
    }
}

fn shared(
    jwt: &JwtConfig,
    ground: &DeploymentFacts,
    secrets: &dyn SecretResolver,
) -> Result<Option<SharedSecretTokens>, String> {
    if !jwt.is_shared() {
        return Ok(None);
    }
    let secret = match &jwt.secret {
        None => None,
        Some(reference) => Some(reveal(secrets, "auth.jwt.secret", &reference.resolve("auth.jwt.secret")?)?),
    };
    let mut audiences = jwt.audience.0.clone();
    if audiences.is_empty() {
        audiences.extend(ground.public_url.as_ref().map(|url| url.trim_end_matches('/').to_owned()));
    }
    let (issuers, expiry) = (jwt.issuers.clone(), jwt.expiry.into());
    Ok(Some(SharedSecretTokens { secret, audiences, issuers, expiry }))
}

fn issuers<F: Fetch + Clone>(
    jwt: &JwtConfig,
    secrets: &dyn SecretResolver,
    fetch: &F,
) -> Result<Option<TrustedIssuers<F>>, String> {
    let Some(name) = &jwt.issuer else { return Ok(None) };
    let keys = match (&jwt.jwks, &jwt.jwks_url) {
        (Some(_), Some(_)) => return Err("auth.jwt: give jwks or jwks_url, not both".into()),
        (Some(file), None) => {
            let text = secrets.resolve(&file.resolve("auth.jwt.jwks")?).map_err(|e| format!("auth.jwt.jwks: {e}"))?;
            let keys = KeySet::parse(text.expose().as_bytes()).map_err(|e| format!("auth.jwt.jwks: {e}"))?;
            if keys.is_empty() {
                return Err("auth.jwt.jwks: the set has no key that we can use".into());
            }
            KeySource::Given(Arc::new(keys))
        }
        (None, Some(url)) => KeySource::At(Url::parse(url).map_err(|e| format!("auth.jwt.jwks_url: {e}"))?),
        (None, None) => KeySource::Discovery,
    };
    let issuer = TrustedIssuer {
        issuer: name.clone(),
        audiences: jwt.audience.0.clone(),
        keys,
        algorithms: jwt.algorithms()?,
        scopes: jwt.scopes.clone(),
        skew: Duration::from_secs(jwt.skew_seconds),
    };
    TrustedIssuers::new(vec![issuer], fetch.clone()).map(Some).map_err(|e| format!("auth.jwt: {e}"))
}

fn legacy(config: &AuthConfig, secrets: &dyn SecretResolver) -> Result<LegacyKey, String> {
    let Some(legacy) = &config.legacy_key else {
        return Err("auth.accept lists legacy_key: add [auth.legacy_key] with env = \"A2A_API_KEY\"".into());
    };
    let token = reveal(secrets, "auth.legacy_key", &legacy.reference()?)?;
    Ok(LegacyKey { name: LEGACY_NAME.into(), token })
}

fn users(config: &AuthConfig, secrets: &dyn SecretResolver) -> Result<Vec<basic::BasicUser>, String> {
    let users = config.basic.as_ref().map(|basic| &*basic.user).unwrap_or_default();
    if users.is_empty() {
        return Err("auth.accept lists basic: add a user to [auth.basic]".into());
    }
    let user = |user: &crate::config::UserConfig| {
        let key = format!("auth.basic: the password of {:?}", user.name);
        if user.name.is_empty() || user.name.contains(':') || user.name.contains(char::is_control) {
            return Err(format!("auth.basic: {:?} cannot be a user name", user.name));
        }
        Ok(basic::BasicUser {
            name: user.name.clone(),
            password: reveal(secrets, &key, &user.password.resolve(&key)?)?,
        })
    };
    users.iter().map(user).collect()
}

fn chain<F: Fetch + Clone>(xpr: &XprConfig, fetch: &F) -> Result<XprAccounts<F>, String> {
    let wrong = |problem: String| format!("auth.xpr.rpc_url: {problem}");
    let node = Url::parse(&xpr.rpc_url).map_err(|e| wrong(e.to_string()))?;
    if !matches!(node.scheme(), "http" | "https") {
        return Err(wrong("a node is reached by http or https".into()));
    }
    if !(0..=3).contains(&xpr.min_kyc) {
        return Err("auth.xpr.min_kyc is a level from 0 to 3".into());
    }
    let reading = xpr.gate.into();
    let most = if reading == crate::authn::trust_score::ScoreKind::Gate { 40 } else { 100 };
    if !(0..=most).contains(&xpr.min_trust) {
        let why = if most == 40 { "; the runner's gate never counts more than 40" } else { "" };
        return Err(format!("auth.xpr.min_trust is a score from 0 to {most}{why}"));
    }
    let demand = TrustRequirement {
        registration: xpr.registration,
        min_kyc: xpr.min_kyc,
        min_trust: xpr.min_trust,
        score_kind: reading,
    };
    let chain = ChainClient::new(&node, fetch.clone()).map_err(|e| wrong(e.to_string()))?;
    let weight = if xpr.threshold { k1::WeightRule::Threshold } else { k1::WeightRule::AnyKey };
    Ok(XprAccounts { chain: Arc::new(chain), weight, requirement: demand, rate_per_minute: xpr.rate_per_minute })
}
