//! The credentials for a remote agent, from configuration.

use super::allow_configured;
use crate::config::agent::AgentConfig;
use crate::config::upstream::{CertificateConfig, CredentialsConfig};
use sabir_gateway::{
    Credentials, Egress, EnvelopeKey, KeyDerivation, NativeTokenIssuer, OAuthGrant, OAuthGrantSettings, Organisation,
    RequestCredential, Tls, XprAccount,
};
use sabir_guard::authenticator::SecretResolver;
use sabir_guard::config::{DerivationConfig, SecretReference};
use sabir_proto::Secret;
use std::sync::Arc;
use url::Url;

/// The credentials, the origins that get them, and the TLS settings of the connection.
#[derive(Debug, Default)]
pub(super) struct UpstreamCredentials {
    pub(super) credentials: Credentials,
    pub(super) origins: Vec<String>,
    pub(super) tls: Tls,
}

/// Resolves all references of the configuration. The error names the key and never the secret.
pub(super) fn resolve(
    config: &AgentConfig,
    secrets: &dyn SecretResolver,
    egress: &Egress,
) -> Result<UpstreamCredentials, String> {
    let find = |key: &str, reference: &SecretReference| -> Result<Secret, String> {
        secrets.resolve(&reference.resolve(key)?).map_err(|e| format!("{key}: {e}"))
    };
    let maybe = |key: &str, reference: &Option<SecretReference>| reference.as_ref().map(|r| find(key, r)).transpose();
    let mut shown = UpstreamCredentials::default();
    shown.credentials.bearer = maybe("bearer", &config.bearer)?;
    shown.credentials.api_key = maybe("api_key", &config.api_key)?;
    let Some(CredentialsConfig { origins, basic, oauth, xpr, native, agnt, tls }) = &config.credentials else {
        return Ok(shown);
    };
    shown.origins.clone_from(origins);
    let given = [config.bearer.is_some() || config.api_key.is_some(), basic.is_some(), oauth.is_some()];
    if given.into_iter().chain([xpr.is_some(), native.is_some()]).filter(|one| *one).count() > 1 {
        return Err("credentials: two at once are none; give one of bearer, api_key, basic, oauth, xpr, native".into());
    }
    if let Some(basic) = basic {
        shown.credentials.basic = Some((basic.user.clone(), find("credentials.basic.password", &basic.password)?));
    }
    let mut signer: Option<Arc<dyn RequestCredential>> = None;
    if let Some(oauth) = oauth {
        let token_url = Url::parse(&oauth.token_url).map_err(|e| format!("credentials.oauth.token_url: {e}"))?;
        let egress = allow_configured(egress.clone(), &oauth.token_url);
        let terms = OAuthGrantSettings {
            token_url,
            client_id: oauth.client_id.clone(),
            client_secret: maybe("credentials.oauth.client_secret", &oauth.client_secret)?,
            scopes: oauth.scopes.clone(),
            subject: maybe("credentials.oauth.subject", &oauth.subject)?,
            audience: oauth.audience.clone(),
        };
        signer = Some(Arc::new(OAuthGrant::new(terms, egress).map_err(|e| format!("credentials.oauth: {e}"))?));
    }
    if let Some(xpr) = xpr {
        let key = find("credentials.xpr.key", &xpr.key)?;
        signer = Some(Arc::new(XprAccount::new(&xpr.account, &key).map_err(|e| format!("credentials.xpr: {e}"))?));
    }
    if let Some(native) = native {
        let secret = find("credentials.native.secret", &native.secret)?;
        let mut issuer = NativeTokenIssuer::new(native.email.clone(), Some(secret));
        issuer.organisation = native.domain.clone().map(|domain| Organisation { domain, secret: None });
        signer = Some(Arc::new(issuer));
    }
    shown.credentials.signer = signer;
    if let Some(agnt) = agnt {
        let key = find("credentials.agnt.signing_key", &agnt.signing_key)?;
        let derivation = match agnt.derivation {
            DerivationConfig::Raw => KeyDerivation::Raw,
            DerivationConfig::Hex => KeyDerivation::Hex,
            DerivationConfig::Hkdf => KeyDerivation::Hkdf,
        };
        let key = EnvelopeKey::new(&key, derivation).map_err(|e| format!("credentials.agnt.signing_key: {e}"))?;
        shown.credentials.envelope_key = Some(Arc::new(key));
    }
    if let Some(CertificateConfig { cert, key, ca }) = tls {
        let pem = |secret: Secret| secret.expose().as_bytes().to_vec();
        shown.tls.ca = maybe("credentials.tls.ca", ca)?.map(pem);
        let cert = maybe("credentials.tls.cert", cert)?;
        shown.tls.identity = match (cert, maybe("credentials.tls.key", key)?) {
            (Some(cert), Some(key)) => Some((pem(cert), pem(key))),
            (None, None) => None,
            _ => return Err("credentials.tls: cert and key belong together".into()),
        };
    }
    Ok(shown)
}
