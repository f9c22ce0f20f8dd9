//! The credentials for a remote agent, from configuration.

use super::written_down;
use crate::config::agent::AgentConfig;
use crate::config::upstream::{CertificateConfig, CredentialsConfig};
use sabir_gateway::{
    Account, Authorise, Credentials, Derivation, Egress, EnvelopeKey, Grant, Issuer, Organisation, Terms, Tls,
};
use sabir_guard::config::{DerivationConfig, Reference};
use sabir_guard::entrance::Secrets;
use sabir_proto::Secret;
use std::sync::Arc;
use url::Url;

/// The credentials, the origins that get them, and the TLS settings of the connection.
#[derive(Debug, Default)]
pub(super) struct Shown {
    pub(super) credentials: Credentials,
    pub(super) origins: Vec<String>,
    pub(super) tls: Tls,
}

/// Resolves all references of the configuration. The error names the key and never the secret.
pub(super) fn of(config: &AgentConfig, secrets: &dyn Secrets, egress: &Egress) -> Result<Shown, String> {
    let find = |key: &str, reference: &Reference| -> Result<Secret, String> {
        secrets.reveal(&reference.find(key)?).map_err(|e| format!("{key}: {e}"))
    };
    let maybe = |key: &str, reference: &Option<Reference>| reference.as_ref().map(|r| find(key, r)).transpose();
    let mut shown = Shown::default();
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
    let mut signer: Option<Arc<dyn Authorise>> = None;
    if let Some(oauth) = oauth {
        let token_url = Url::parse(&oauth.token_url).map_err(|e| format!("credentials.oauth.token_url: {e}"))?;
        let egress = written_down(egress.clone(), &oauth.token_url);
        let terms = Terms {
            token_url,
            client_id: oauth.client_id.clone(),
            client_secret: maybe("credentials.oauth.client_secret", &oauth.client_secret)?,
            scopes: oauth.scopes.clone(),
            subject: maybe("credentials.oauth.subject", &oauth.subject)?,
            audience: oauth.audience.clone(),
        };
        signer = Some(Arc::new(Grant::new(terms, egress).map_err(|e| format!("credentials.oauth: {e}"))?));
    }
    if let Some(xpr) = xpr {
        let key = find("credentials.xpr.key", &xpr.key)?;
        signer = Some(Arc::new(Account::new(&xpr.account, &key).map_err(|e| format!("credentials.xpr: {e}"))?));
    }
    if let Some(native) = native {
        let secret = find("credentials.native.secret", &native.secret)?;
        let mut issuer = Issuer::new(native.email.clone(), Some(secret));
        issuer.organisation = native.domain.clone().map(|domain| Organisation { domain, secret: None });
        signer = Some(Arc::new(issuer));
    }
    shown.credentials.signer = signer;
    if let Some(agnt) = agnt {
        let key = find("credentials.agnt.signing_key", &agnt.signing_key)?;
        let derivation = match agnt.derivation {
            DerivationConfig::Raw => Derivation::Raw,
            DerivationConfig::Hex => Derivation::Hex,
            DerivationConfig::Hkdf => Derivation::Hkdf,
        };
        let key = EnvelopeKey::new(&key, derivation).map_err(|e| format!("credentials.agnt.signing_key: {e}"))?;
        shown.credentials.seal = Some(Arc::new(key));
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
