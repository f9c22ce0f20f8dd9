//! The evidence in a request before its sender is known, and the identity of the caller after.

use crate::authn::basic::Channel;
use crate::authn::oidc::VerifiedToken;
use crate::authn::{Principal, Scheme, bearer_token, k1};
use crate::guard::CredentialEnd;
use crate::refusal::Refusal;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use sabir_proto::{Caller, Timestamp};
use sabir_store::ApiKey;
use std::net::IpAddr;
use std::sync::Arc;

/// The header for keys, beside `Authorization: Bearer`.
pub const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const XPR_ACCOUNT: HeaderName = HeaderName::from_static("x-xpr-account");
const XPR_TIMESTAMP: HeaderName = HeaderName::from_static("x-xpr-timestamp");
const XPR_SIGNATURE: HeaderName = HeaderName::from_static("x-xpr-signature");

/// Everything that a request shows before it is decoded.
#[derive(Debug, Clone, Copy)]
pub struct RequestEvidence<'a> {
    /// The headers of the request.
    pub headers: &'a HeaderMap,
    /// The body as it came, if it says all that the request does. `None` otherwise: HTTP+JSON says in the path which
    /// task is meant and what for, and gRPC has no bytes as they were sent. A signature over a body proves nothing
    /// there.
    pub body: Option<&'a [u8]>,
    /// The security of the transport.
    pub channel: Channel,
    /// The client certificate of the connection, which TLS has verified.
    pub certificate: Option<&'a [u8]>,
    /// The address of the client.
    pub address: Option<IpAddr>,
    /// The host that the request names.
    pub host: Option<&'a str>,
    /// The time of the request.
    pub now: Timestamp,
}

/// The credential that a request presents.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PresentedCredential<'a> {
    Nothing,
    /// `Authorization: Bearer`
    Bearer(&'a str),
    /// `X-API-Key`
    Key(&'a str),
    /// The whole header of `Authorization: Basic`.
    Password(&'a str),
    Signature(k1::XprHeaders<'a>),
    Certificate(&'a [u8]),
    /// An `Authorization` header of a kind that is never accepted.
    Unknown,
}

impl<'a> RequestEvidence<'a> {
    /// The presented credential; an error where there is more than one. A certificate belongs to the connection and not
    /// to the request, so a credential in the request is what is meant.
    pub(crate) fn presented_credential(&self) -> Result<PresentedCredential<'a>, Refusal> {
        let authorization = self.single_header(&AUTHORIZATION)?;
        let key = self.single_header(&API_KEY)?;
        let signature = self.single_header(&XPR_SIGNATURE)?;
        let mut shown = PresentedCredential::Nothing;
        let mut count = 0;
        if let Some(value) = authorization {
            count += 1;
            let is_basic = value.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("basic "));
            shown = match bearer_token(value) {
                Some(token) => PresentedCredential::Bearer(token),
                None if is_basic => PresentedCredential::Password(value),
                None => PresentedCredential::Unknown,
            };
        }
        if let Some(key) = key {
            // The same key in both places is still one.
            if !matches!(shown, PresentedCredential::Bearer(token) if token == key) {
                count += 1;
            }
            shown = PresentedCredential::Key(key);
        }
        if signature.is_some() {
            count += 1;
            shown = PresentedCredential::Signature(k1::XprHeaders {
                account: self.single_header(&XPR_ACCOUNT)?,
                timestamp: self.single_header(&XPR_TIMESTAMP)?,
                signature,
            });
        }
        match (count, self.certificate) {
            (0, Some(certificate)) => Ok(PresentedCredential::Certificate(certificate)),
            (0 | 1, _) => Ok(shown),
            _ => Err(Refusal::two_credentials()),
        }
    }

    /// The one value of a header. A header that comes twice is two credentials, even if they look alike: a proxy
    /// between us and the caller may have checked the other one. A value that cannot be read is there all the same.
    fn single_header(&self, name: &HeaderName) -> Result<Option<&'a str>, Refusal> {
        let mut values = self.headers.get_all(name).iter();
        let Some(value) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(Refusal::two_credentials());
        }
        Ok(Some(HeaderValue::to_str(value).map(str::trim).unwrap_or("")))
    }

    /// The name of an unauthenticated caller in our log, with its address.
    pub(crate) fn unidentified_caller(&self) -> Caller {
        match self.address {
            Some(address) => Caller::named(&format!("stranger@{address}")),
            None => Caller::named("stranger"),
        }
    }
}

/// The identity of a caller, and its proof.
#[derive(Debug, Clone)]
pub struct Identity {
    caller: Caller,
    proof: CredentialProof,
    /// How the end of the proof is known; `None` where nothing tells.
    credential_end: Option<CredentialEnd>,
    keeps_guessable_names: bool,
}

/// The proof of an identity, with what a decision needs of it.
#[derive(Debug, Clone)]
pub(crate) enum CredentialProof {
    /// No credential was asked for, or none was shown.
    None,
    Key(Arc<ApiKey>),
    IssuedToken(Arc<VerifiedToken>),
    /// A token under a shared secret; `bound` if it was made for us alone.
    NativeToken {
        bound: bool,
    },
    Account {
        account: String,
        /// Identifies copies of the request; `None` where nothing was signed, as in an explanation.
        mark: Option<ReplayMark>,
    },
    Certificate,
    Password,
    Legacy,
}

/// Identifies copies of a signed request, and says how long one could be accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplayMark {
    pub(crate) digest: [u8; 16],
    pub(crate) until: Timestamp,
}

impl Identity {
    /// A caller without a credential that may be any of several people.
    pub(crate) fn anonymous() -> Self {
        Self {
            caller: Caller::anonymous(),
            proof: CredentialProof::None,
            credential_end: None,
            keeps_guessable_names: false,
        }
    }

    /// The one person at this machine, whom an open server asks for no credential.
    pub(crate) fn local() -> Self {
        Self { keeps_guessable_names: true, ..Self::anonymous() }
    }

    pub(crate) fn new(who: &Principal, proof: CredentialProof) -> Self {
        Self { caller: Caller::named(&who.to_string()), proof, credential_end: None, keeps_guessable_names: true }
    }

    /// The same identity, with how the end of its credential is known.
    pub(crate) const fn with_credential_end(mut self, ends: Option<CredentialEnd>) -> Self {
        self.credential_end = ends;
        self
    }

    pub(crate) const fn credential_end(&self) -> Option<CredentialEnd> {
        self.credential_end
    }

    /// The caller, which owns its tasks.
    pub const fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Whether names that the caller chooses for tasks, retries and conversations are kept although others could guess
    /// them. Callers without a credential are one owner to the store: where several people may be behind it, a name
    /// such as `order-1` that one of them chose would lead another to the same task. Names that cannot be guessed are
    /// always kept.
    pub const fn keeps_guessable_names(&self) -> bool {
        self.keeps_guessable_names
    }

    /// The API key of the caller, if it used one.
    pub fn key(&self) -> Option<&ApiKey> {
        match &self.proof {
            CredentialProof::Key(key) => Some(key),
            _ => None,
        }
    }

    pub(crate) const fn proof(&self) -> &CredentialProof {
        &self.proof
    }

    /// How the caller proved who it is; `None` for `anonymous`.
    pub const fn scheme(&self) -> Option<Scheme> {
        match self.proof {
            CredentialProof::None => None,
            CredentialProof::Key(_) => Some(Scheme::ApiKey),
            CredentialProof::IssuedToken(_) => Some(Scheme::Jwt),
            CredentialProof::NativeToken { .. } => Some(Scheme::Native),
            CredentialProof::Account { .. } => Some(Scheme::Xpr),
            CredentialProof::Certificate => Some(Scheme::Mtls),
            CredentialProof::Password => Some(Scheme::Basic),
            CredentialProof::Legacy => Some(Scheme::Legacy),
        }
    }

    /// Whether this is a user whom a token for us alone has named: agent-native asks this of callers of actions.
    pub const fn is_bound_user(&self) -> bool {
        match self.proof {
            CredentialProof::NativeToken { bound } => bound,
            // A token of an issuer is always for an audience of ours.
            CredentialProof::IssuedToken(_) => true,
            CredentialProof::None
            | CredentialProof::Key(_)
            | CredentialProof::Account { .. }
            | CredentialProof::Certificate
            | CredentialProof::Password
            | CredentialProof::Legacy => false,
        }
    }

    /// The name within the scheme, as XPR shows owners.
    pub fn bare_name(&self) -> &str {
        match &self.proof {
            CredentialProof::Account { account, .. } => account,
            _ => self.caller.name(),
        }
    }
}

/// A name for the scheme in our log.
pub(crate) fn scheme_name(scheme: Option<Scheme>) -> &'static str {
    scheme.map_or("none", Scheme::name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(headers: &[(&str, &str)], certificate: Option<&[u8]>) -> String {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap());
        }
        let evidence = RequestEvidence {
            headers: &map,
            body: None,
            channel: Channel::Plain,
            certificate,
            address: None,
            host: None,
            now: Timestamp::from_millis(0),
        };
        match evidence.presented_credential() {
            Ok(PresentedCredential::Nothing) => "nothing".into(),
            Ok(PresentedCredential::Bearer(token)) => format!("bearer {token}"),
            Ok(PresentedCredential::Key(key)) => format!("key {key}"),
            Ok(PresentedCredential::Password(_)) => "password".into(),
            Ok(PresentedCredential::Signature(headers)) => format!("signature of {:?}", headers.account),
            Ok(PresentedCredential::Certificate(_)) => "certificate".into(),
            Ok(PresentedCredential::Unknown) => "unknown".into(),
            Err(refusal) => refusal.reason.into(),
        }
    }

    #[test]
    fn one_credential_is_shown_or_none() {
        assert_eq!(shown(&[], None), "nothing");
        assert_eq!(shown(&[], Some(b"der")), "certificate");
        assert_eq!(shown(&[("authorization", "bEARER  abc ")], Some(b"der")), "bearer abc");
        assert_eq!(shown(&[("authorization", "Basic YTpi")], None), "password");
        assert_eq!(shown(&[("authorization", "Digest x")], None), "unknown");
        assert_eq!(shown(&[("authorization", "")], None), "unknown");
        assert_eq!(shown(&[("x-api-key", "k")], None), "key k");
        assert_eq!(shown(&[("x-api-key", "k"), ("authorization", "Bearer k")], None), "key k");
        let signed = [("x-xpr-account", "alice"), ("x-xpr-timestamp", "1"), ("x-xpr-signature", "SIG")];
        assert_eq!(shown(&signed, None), "signature of Some(\"alice\")");
        // An account without a signature is no credential.
        assert_eq!(shown(&signed[..2], None), "nothing");
    }

    #[test]
    fn more_than_one_is_refused() {
        for two in [
            &[("authorization", "Bearer a"), ("authorization", "Bearer a")][..],
            &[("authorization", "Bearer a"), ("x-api-key", "b")],
            &[("authorization", "Basic YTpi"), ("x-xpr-signature", "SIG")],
            &[("x-api-key", "a"), ("x-xpr-signature", "SIG")],
            &[("x-xpr-signature", "SIG"), ("x-xpr-account", "alice"), ("x-xpr-account", "bob")],
        ] {
            assert_eq!(shown(two, None), "two_credentials", "{two:?}");
        }
    }
}
